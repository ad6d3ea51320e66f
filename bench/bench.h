/* SPDX-License-Identifier: MIT */
/*
 * What the benches share. Contestants play alternating rounds, so that whatever slows the machine down meets
 * all of them; a figure is the median of its rounds, a ratio the median of the rounds' ratios. Time that a
 * worker spent ready to run while others had its processor does not count.
 */
#ifndef TUNDISH_BENCH_BENCH_H
#define TUNDISH_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_ROUNDS_MAX 512
#define BENCH_WORKERS 2

/* Keeps a value that a measured loop computes. */
#define BENCH_KEEP(value) __asm__ volatile("" : : "r"(value))

/*
 * The options every bench takes: --seconds S (else BENCH_SECONDS, else `seconds`) is about how long
 * it takes; --no-head leaves out the lines that describe the machine. Returns the seconds; prints the head.
 */
double bench_start(int argc, char **argv, double seconds);

/* Takes an option with a file out of the arguments: the rest is for bench_start. NULL: none that can be read. */
const char *bench_take_file(int *argc, char **argv, const char *option);

/* Says on stderr what failed, with the text of the negative errno, and exits. */
_Noreturn void bench_fail(const char *what, int error);

uint64_t bench_now_ns(void); /* CLOCK_MONOTONIC */

/* Processors this process may use, and binding the calling thread to one of them, counted modulo. */
unsigned bench_processors(void);
void bench_pin(unsigned which);

/* Time this thread has been ready to run and did not; 0 where the kernel does not say. */
uint64_t bench_not_running_ns(void);

/* What was measured in each round. */
struct bench_series {
    double value[BENCH_ROUNDS_MAX];
    size_t count;
};

void bench_add(struct bench_series *series, double value);
double bench_percentile(const struct bench_series *series, double percent);
double bench_median(const struct bench_series *series);
struct bench_series bench_ratio(const struct bench_series *above, const struct bench_series *below);
struct bench_series bench_difference(const struct bench_series *a, const struct bench_series *b);

/* Does the operation so many times, in a loop of its own. */
typedef void bench_batch(void *context, uint64_t operations);

struct bench_contestant {
    const char *name;
    bench_batch *batch;
    void *context;
    struct bench_series ns; /* per operation and worker */
};

enum bench_team {
    BENCH_ONE_THREAD,
    BENCH_TWO_THREADS,
    BENCH_TWO_PROCESSES,
};

/*
 * Rounds of round_ns each, of all contestants in turn, by the whole team at the same time. A round in which a
 * worker had to stand aside is played again, up to three times; returns how many were kept all the same.
 */
size_t bench_play(struct bench_contestant *contestants, size_t count, enum bench_team team, size_t rounds,
                  uint64_t round_ns);

#endif
