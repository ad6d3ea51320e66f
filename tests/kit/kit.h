/* SPDX-License-Identifier: MIT */
/*
 * The tests' toolbox: what Check leaves out for a library whose subject is several processes at once.
 *
 * A test program is a few functions that return a Check suite, and one line:
 *
 *     START_TEST(acquire_waits_in_arrival_order) { ... } END_TEST
 *
 *     static Suite *waiting(void)
 *     {
 *         Suite *suite = suite_create("waiting");
 *         TCase *order = kit_case(suite, "order");
 *         tcase_add_test(order, acquire_waits_in_arrival_order);
 *         return suite;
 *     }
 *
 *     KIT_MAIN(waiting)
 *
 * Check runs each test in a process of its own (CK_FORK=no in the environment: all in one, for gdb), in a
 * process group that it kills at the end; CK_RUN_SUITE and CK_RUN_CASE choose. A test of several processes:
 *
 *     static int take(unsigned index, void *shared)
 *     {
 *         struct stage *stage = shared;
 *         kit_barrier_wait(&stage->start);
 *         kit_expect(tundish_try_acquire(stage->bucket, 1) == 0, "child %u got nothing", index);
 *         return 0;
 *     }
 *
 *     struct stage *stage = kit_shared_new(sizeof *stage);
 *     kit_barrier_init(&stage->start, 4);
 *     struct kit_children *children = kit_spawn(4, take, stage);
 *     kit_collect(children, 30 * KIT_SECOND);
 *
 * Nothing here is safe in signal handlers; one thread of the test calls it, except for kit_barrier_wait,
 * kit_expect, kit_fail and kit_now_ns, which any thread of any process may call.
 */
#ifndef TUNDISH_TESTS_KIT_KIT_H
#define TUNDISH_TESTS_KIT_KIT_H

#include <check.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KIT_MILLISECOND UINT64_C(1000000)
#define KIT_SECOND UINT64_C(1000000000)
#define KIT_SKIP 77 /* exit status of a test program that this machine cannot run */

/* main() of a test program: runs the suites that the named functions make. */
#define KIT_MAIN(...)                                                                                        \
    int main(void)                                                                                           \
    {                                                                                                        \
        return kit_run((kit_suite_fn *const[]){__VA_ARGS__, NULL});                                          \
    }

typedef Suite *kit_suite_fn(void);

/* Runs the suites up to a NULL. 0, or 1 if a test failed. Makes and removes the directory of kit_tmpdir. */
int kit_run(kit_suite_fn *const *suites);

/* A new test case of the suite whose tests each start with an empty kit_tmpdir() and TUNDISH_DIR set to it.
 */
TCase *kit_case(Suite *suite, const char *name);

/* Ends the program as skipped, saying why. Call it at the top of a suite function. */
_Noreturn void kit_skip(const char *why);

/* CLOCK_MONOTONIC in nanoseconds, for measuring how long something took. */
uint64_t kit_now_ns(void);

/* Sleeps at least that long, whatever signals come. For letting others get somewhere, never for ordering. */
void kit_sleep_ns(uint64_t duration_ns);

/* A directory of this test, made on the first call and removed with all in it when the program ends. */
const char *kit_tmpdir(void);

/* kit_tmpdir()/name, in a buffer that the next call overwrites. */
const char *kit_tmpfile(const char *name);

/* Zeroed memory that this process shares with all it forks from now on. Goes away with the last of them. */
void *kit_shared_new(size_t size);

/*
 * Fails the test from wherever it is called. In the test's own process that is Check's failure; in a child of
 * kit_spawn the message is kept for kit_collect and the child exits.
 */
#define kit_fail(...) kit_fail_at(__FILE__, __LINE__, NULL, __VA_ARGS__)

/* kit_expect(condition, format, ...): kit_fail unless the condition holds. */
#define kit_expect(condition, ...)                                                                           \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            kit_fail_at(__FILE__, __LINE__, #condition, __VA_ARGS__);                                        \
    } while (0)

_Noreturn void kit_fail_at(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * A meeting point of `parties` threads or processes, usable again and again; it lies in kit_shared_new
 * memory. Whoever waits for longer than a minute fails the test: a party has died.
 */
struct kit_barrier {
    atomic_uint arrived; /* parties that are here in this round */
    atomic_uint round;   /* rounds completed */
    unsigned parties;
};

void kit_barrier_init(struct kit_barrier *barrier, unsigned parties);
void kit_barrier_wait(struct kit_barrier *barrier);

/* A crowd of child processes. */
struct kit_children;

/* What child number `index` (from 0) does; what it returns is its exit status, 0 for all is well. */
typedef int kit_child_fn(unsigned index, void *shared);

/*
 * Forks `count` children that run `child`. They are killed when this process ends, however it ends. Children
 * may spawn children of their own. The crowd belongs to kit_collect, which frees it.
 */
struct kit_children *kit_spawn(unsigned count, kit_child_fn *child, void *shared);

/* The process id of child `index`, for kill() and waitid(WNOWAIT); do not reap it. */
pid_t kit_child_pid(const struct kit_children *children, unsigned index);

/* Kills child `index` with SIGKILL and waits until it is gone. kit_collect takes that death as agreed. */
void kit_child_kill(struct kit_children *children, unsigned index);

/* Whether child `index` has ended (by itself or not). */
int kit_child_ended(struct kit_children *children, unsigned index);

/*
 * Waits for all, then fails the test if one of them failed, was killed by anybody but kit_child_kill, or had
 * not ended within timeout_ns (it is killed then). Frees the crowd.
 */
void kit_collect(struct kit_children *children, uint64_t timeout_ns);

/* The same, but returns how many children failed, whose messages are dropped: for tests of failure. */
unsigned kit_collect_failures(struct kit_children *children, uint64_t timeout_ns);

#endif
