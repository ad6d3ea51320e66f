/* SPDX-License-Identifier: MIT */
#include "guest.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "raw_call.h"
#include "snippets.h"

#define SKIPPED 77
#define CASE_SECONDS 30

void guest_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: %s: ", file, line, condition);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

void guest_skip(const char *why)
{
    fprintf(stderr, "skipped: %s\n", why);
    _exit(SKIPPED);
}

uint64_t guest_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void guest_sleep_ms(uint64_t ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&t, &t) != 0)
        ;
}

uint32_t guest_charged(void)
{
    return guest_charged_of("slow");
}

uint32_t guest_charged_of(const char *name)
{
    struct tundish *bucket;
    int error = tundish_open(&bucket, name);
    EXPECT(error == 0, "%s", tundish_strerror(error));
    uint32_t available = tundish_available(bucket);
    tundish_close(bucket);
    return GUEST_SLOW_CAPACITY - available;
}

static void *drain(void *argument)
{
    int fd = (int)(intptr_t)argument;
    static char dropped[65536];
    sigset_t all;
    sigfillset(&all); /* signals are for the thread that the case is about */
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (read(fd, dropped, sizeof dropped) > 0)
        ;
    close(fd);
    return NULL;
}

void guest_drain(int fd)
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, drain, (void *)(intptr_t)fd) == 0, "no thread");
    pthread_detach(thread);
}

int guest_upload(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    guest_drain(ends[1]);
    return ends[0];
}

int guest_download(size_t n)
{
    static const char bytes[16384];
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    pid_t child = fork();
    EXPECT(child >= 0, "fork");
    if (child == 0) {
        close(ends[0]);
        while (n > 0) {
            long sent = raw_call(SYS_write, ends[1], RAW(bytes), (long)(n < sizeof bytes ? n : sizeof bytes),
                                 0, 0, 0);
            if (sent <= 0)
                _exit(1);
            n -= (size_t)sent;
        }
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

/* Also one that a case has damaged: tundish_unlink only takes buckets. */
static void remove_bucket(const char *name)
{
    char path[4096];
    if (tundish_path(name, path, sizeof path) >= 0)
        (void)unlink(path);
}

static void make_slow_bucket(const char *name)
{
    struct tundish *bucket;
    struct tundish_options options = TUNDISH_OPTIONS_INIT(GUEST_SLOW_CAPACITY, 1);
    options.interval_us = UINT64_C(86400) * 1000000;
    options.flags = TUNDISH_BYTES;
    remove_bucket(name);
    int error = tundish_create(&bucket, name, &options);
    EXPECT(error == 0, "%s", tundish_strerror(error));
    tundish_close(bucket);
}

static void become(const struct guest_case *one)
{
    for (size_t i = 0; one->environment[i] != NULL; i++)
        putenv((char *)(uintptr_t)one->environment[i]);
    setenv("LD_PRELOAD", getenv("KIT_PRELOAD_LIB"), 1);
    setenv("GUEST_CASE", one->name, 1);
    execl("/proc/self/exe", "guest", (char *)NULL);
    _exit(127);
}

/* Exit status of the case, or -1 for a signal or too long a time. */
static int run_case(const struct guest_case *one)
{
    const char *idle = getenv("GUEST_IDLE_MS"); /* see test_cases.c */
    unsigned long patience_ms = CASE_SECONDS * 1000 + (idle != NULL ? strtoul(idle, NULL, 10) : 0);
    int status = -1;
    make_slow_bucket("slow");
    make_slow_bucket("other");
    pid_t child = fork();
    if (child == 0)
        become(one);
    for (unsigned long ms = 0; ms < patience_ms; ms += 10) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        guest_sleep_ms(10);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

static int is_asked_for(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc < 2;
}

int guest_main(int argc, char **argv, const struct guest_case *cases)
{
    const char *mine = getenv("GUEST_CASE");
    int failed = 0;
    if (mine == NULL && getenv("KIT_PRELOAD_LIB") == NULL) {
        fputs("KIT_PRELOAD_LIB is not set\n", stderr);
        return SKIPPED;
    }
    for (; cases->name != NULL; cases++) {
        if (mine != NULL && strcmp(mine, cases->name) == 0) {
            cases->run();
            _exit(0);
        }
        if (mine != NULL || !is_asked_for(argc, argv, cases->name))
            continue;
        uint64_t start = guest_ms();
        int status = run_case(cases);
        printf("%s %s (%d ms)\n",
               status == 0         ? "ok"
               : status == SKIPPED ? "skipped"
                                   : "FAILED",
               cases->name, (int)(guest_ms() - start));
        fflush(stdout);
        failed += status != 0 && status != SKIPPED;
    }
    remove_bucket("slow");
    remove_bucket("other");
    return failed != 0;
}
