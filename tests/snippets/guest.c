/* SPDX-License-Identifier: MIT */
/*
 * The program that a preloaded library goes into: guest MODE SNIPPET. It knows nothing of limits. Its exit
 * status is 0 if every call it made did what it should.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snippets.h"

void snippet_early(void);

static const struct snippet *snippet;
static sig_atomic_t line_in_handler = -1;

static int ended_well(pid_t child)
{
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : __LINE__;
}

static void exec_plain(void)
{
    execl("/proc/self/exe", "guest", "plain", snippet->name, (char *)NULL);
    _exit(98);
}

static int plain(void)
{
    return snippet->run();
}

static void *thread_body(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)snippet->run();
}

static int two_threads(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_body, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        void *line;
        CHECK(pthread_join(threads[i], &line) == 0);
        CHECK(line == NULL);
    }
    return 0;
}

static void handler(int number)
{
    (void)number;
    line_in_handler = snippet->run();
}

static int in_handler(void)
{
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    CHECK(raise(SIGUSR1) == 0);
    return line_in_handler;
}

static int forked(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(snippet->run() == 0 ? 0 : 97);
    CHECK(ended_well(child) == 0);
    return snippet->run();
}

/* Three times: in the child that shares our memory, in what it executes, and afterwards in us. */
static int vforked(void)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        if (snippet->run() != 0)
            _exit(97);
        exec_plain();
    }
    CHECK(ended_well(child) == 0);
    return snippet->run();
}

static int executed(void)
{
    exec_plain();
    return __LINE__;
}

static int dlopened(void)
{
    void *module = dlopen(getenv("SNIPPET_MODULE"), RTLD_NOW | RTLD_LOCAL);
    CHECK(module != NULL);
    void *symbol = dlsym(module, "snippet_find");
    snippet_find_fn *find;
    memcpy(&find, &symbol, sizeof find);
    CHECK(find != NULL && find != snippet_find);
    return find(snippet->name)->run();
}

static int nothing(void)
{
    snippet_early();
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {
    {"plain", plain},     {"thread", two_threads}, {"signal", in_handler}, {"fork", forked},
    {"vfork", vforked},   {"exec", executed},      {"dlopen", dlopened},   {"constructor", nothing},
    {"preinit", nothing}, {"library", nothing},
};

/* Called with main's arguments before main and before any constructor of this program. */
static void before(int argc, char **argv, const char *mode)
{
    if (argc == 3 && strcmp(argv[1], mode) == 0 && snippet_find(argv[2])->run() != 0)
        _exit(99);
}

__attribute__((constructor)) static void constructor(int argc, char **argv)
{
    before(argc, argv, "constructor");
}

static void preinit(int argc, char **argv)
{
    before(argc, argv, "preinit");
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **) = preinit;

int main(int argc, char **argv)
{
    snippet = argc == 3 ? snippet_find(argv[2]) : NULL;
    for (size_t i = 0; snippet != NULL && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0)
            continue;
        int line = modes[i].run();
        if (line != 0)
            fprintf(stderr, "%s in mode %s: line %d\n", snippet->name, argv[1], line);
        return line != 0;
    }
    return 64;
}
