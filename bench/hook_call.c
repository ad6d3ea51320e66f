/* SPDX-License-Identifier: MIT */
/*
 * What does a hook cost a call? A function of a library that does nothing, called from this program through
 * its import table, in turn
 *
 *   bare      as it is
 *   wrapped   by a wrapper that was compiled for it and charges each call to a private bucket
 *   hooked    by a hook of a configuration file that does the same, its signature known only as text
 *   passed    in the hook library as well, but in no rule of this program
 *
 * The program starts itself anew by `tundish run`, so that hooks are there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "hook_library.h"

#define SIZE 64
#define GOAL_NS 80

static const char configuration[] = "[rule \"hooked\"]\n"
                                    "calls = send_hooked\n"
                                    "rate = 2GB/s\n"
                                    "burst = 1GB\n"
                                    "[rule \"others\"]\n"
                                    "program = nobody\n"
                                    "calls = send_passed\n"
                                    "rate = 2GB/s\n"
                                    "[hook \"send_hooked\"]\n"
                                    "signature = int (pointer, pointer, int)\n"
                                    "cost = arg3\n"
                                    "[hook \"send_passed\"]\n"
                                    "signature = int (pointer, pointer, int)\n"
                                    "cost = arg3\n";

typedef int send_function(void *handle, const void *buf, int length);

#define BATCH(name)                                                                                          \
    static void name##_batch(void *context, uint64_t operations)                                             \
    {                                                                                                        \
        static const char text[SIZE];                                                                        \
        for (uint64_t i = 0; i < operations; i++)                                                            \
            if (name(context, text, sizeof text) != SIZE)                                                    \
                bench_fail(#name, -EIO);                                                                     \
    }

BATCH(send_bare)
BATCH(send_wrapped)
BATCH(send_hooked)
BATCH(send_passed)

enum {
    BARE,
    WRAPPED,
    HOOKED,
    PASSED,
    CONTESTANTS
};

static struct bench_contestant contestants[CONTESTANTS] = {
    [BARE] = {.name = "bare", .batch = send_bare_batch},
    [WRAPPED] = {.name = "compiled wrapper", .batch = send_wrapped_batch},
    [HOOKED] = {.name = "hook", .batch = send_hooked_batch},
    [PASSED] = {.name = "hook of another program's rule", .batch = send_passed_batch},
};

/* Does not return. */
static void start_anew(const char *tundish, char **argv)
{
    char file[4096];
    const char *directory = getenv("TMPDIR");
    snprintf(file, sizeof file, "%s/tundish-bench-XXXXXX", directory ? directory : P_tmpdir);
    int fd = mkstemp(file);
    const char *arguments[64] = {tundish, "run", "--config", file, "--"};
    if (fd < 0 || write(fd, configuration, sizeof configuration - 1) != sizeof configuration - 1)
        bench_fail(file, -errno);
    close(fd);
    setenv("BENCH_HOOK_FILE", file, 1);
    for (int i = 0; argv[i] && i < 50; i++)
        arguments[5 + i] = argv[i];
    execv(tundish, (char *const *)(uintptr_t)arguments);
    int error = errno;
    unlink(file);
    bench_fail(tundish, -error);
}

static void print_row(const struct bench_contestant *contestant)
{
    struct bench_series more = bench_difference(&contestant->ns, &contestants[BARE].ns);
    printf("  %-32s %8.1f  %+8.1f (%+8.1f ..%+8.1f)", contestant->name, bench_median(&contestant->ns),
           bench_median(&more), bench_percentile(&more, 10), bench_percentile(&more, 90));
    if (contestant == &contestants[HOOKED])
        printf("  goal <= %d: %s", GOAL_NS, bench_median(&contestant->ns) <= GOAL_NS ? "met" : "missed");
    putchar('\n');
}

int main(int argc, char **argv)
{
    const char *file = getenv("BENCH_HOOK_FILE");
    const char *tundish = bench_take_file(&argc, argv, "--tundish");
    if (!file && tundish)
        start_anew(tundish, argv);
    if (!file) {
        printf("\nhook: left out, there is no --tundish PROGRAM to start this one again\n");
        return 77;
    }
    unlink(file);
    double seconds = bench_start(argc, argv, 10);
    const double round_s = 0.003;
    size_t rounds = (size_t)(seconds / (CONTESTANTS * 2 * round_s));
    rounds = rounds < 3 ? 3 : rounds > BENCH_ROUNDS_MAX ? BENCH_ROUNDS_MAX : rounds;
    bench_play(contestants, CONTESTANTS, BENCH_ONE_THREAD, rounds, (uint64_t)(round_s * 1e9));
    struct bench_series ratio = bench_ratio(&contestants[HOOKED].ns, &contestants[WRAPPED].ns);
    printf("\nhook, a call of a library's function (pointer, pointer, int), charged by its third argument\n");
    printf("  %-32s %8s  %8s %22s\n", "ns per call", "in all", "more", "(p10 .. p90)");
    for (int i = 0; i < CONTESTANTS; i++)
        print_row(&contestants[i]);
    printf("  %-32s %8.2f\n", "hook / compiled wrapper", bench_median(&ratio));
    return 0;
}
