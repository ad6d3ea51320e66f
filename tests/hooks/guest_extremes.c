/* SPDX-License-Identifier: MIT */
/*
 * guest_extremes CASE: what programs seldom do with functions that are hooked, or only by mistake. What it says
 * must be the same without hooks.
 */
#include "guest_extremes.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "guest.h"

static void takes_all_there_is(void)
{
    alarm(10); /* or it would be tomorrow */
    printf("%d\n", guest_send("", SIZE_MAX) == SIZE_MAX);
}

static void say_error(const char *what, long result)
{
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "well");
}

/* Addresses where nothing is, nothing can be, and nothing may be read. */
static void gives_bad_pointers(void)
{
    void *nowhere = (void *)8, *never = (void *)(UINTPTR_MAX / 2 + 1);
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *bad[] = {nowhere, never, closed};
    for (int i = 0; i < 3; i++) {
        say_error("remove", guest_remove(bad[i]));
        say_error("write", guest_write(bad[i], 2));
    }
    struct iovec good[] = {{"", 0}, {"as good as ever\n", 16}};
    say_error("remove", guest_remove("/nowhere"));
    (void)fflush(stdout);
    say_error("write", guest_write(good, 2));
}

static sigjmp_buf out;

static void jump_out(int signal)
{
    siglongjmp(out, signal);
}

/* Where there are tokens enough, the signal finds the program waiting for nothing but it. */
static void call_until_a_jump(void)
{
    const struct itimerval soon = {{0, 0}, {0, 50000}};
    if (sigsetjmp(out, 1) != 0)
        return;
    setitimer(ITIMER_REAL, &soon, NULL);
    for (int i = 0; i < 3; i++)
        guest_send("", 1);
    for (;;)
        pause();
}

static void jumps_out_of_waits(void)
{
    int state = -1;
    (void)signal(SIGALRM, jump_out);
    for (int i = 0; i < 3; i++) {
        call_until_a_jump();
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        printf("can be cancelled: %d\n", state == PTHREAD_CANCEL_ENABLE);
    }
    alarm(10); /* whose handler would end in a jump to nowhere */
    (void)signal(SIGALRM, SIG_DFL);
    for (int i = 0; i < 3; i++)
        printf("sent %zu\n", guest_send("", 1));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"huge", takes_all_there_is},
    {"bad_pointers", gives_bad_pointers},
    {"jumps", jumps_out_of_waits},
    {"threads", loads_in_threads},
    {"found_dlclose", unloads_by_a_found_function},
    {"many_of_one_name", loads_many_of_one_name},
    {"local", looks_for_what_is_local},
    {"forks", forks_while_others_look_up},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    return 1;
}
