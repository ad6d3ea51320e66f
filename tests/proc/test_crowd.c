/* SPDX-License-Identifier: MIT */
/* The sidecar's default policy at work: threads that get in each other's way are given leases, and lose them. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

#include "lib/adapt.h"
#include "proc/proc.h"

#define CAPACITY 1000000

struct stage {
    struct tundish *bucket;
    atomic_int over;
    atomic_int rests; /* threads take a break */
};

static struct tundish_sidecar_stats stats_of(struct tundish *bucket)
{
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    int error = tundish_sidecar_stats(bucket, &stats);
    kit_expect(error == 0, "stats: %s", tundish_strerror(error));
    return stats;
}

static uint64_t await_strategy(struct tundish *bucket, uint32_t strategy, uint64_t within_ns)
{
    uint64_t began_ns = kit_now_ns();
    while (stats_of(bucket).strategy != strategy && kit_now_ns() - began_ns < within_ns)
        kit_sleep_ns(5 * KIT_MILLISECOND);
    return kit_now_ns() - began_ns;
}

static bool has_two_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 2;
}

static void *take_flat_out(void *argument)
{
    struct stage *stage = argument;
    while (!atomic_load(&stage->over)) {
        for (unsigned i = 0; i < 1000; i++)
            (void)tundish_try_acquire(stage->bucket, 1);
        while (atomic_load(&stage->rests) && !atomic_load(&stage->over))
            kit_sleep_ns(KIT_MILLISECOND);
    }
    return NULL;
}

static void end(struct stage *stage, const pthread_t *threads)
{
    atomic_store(&stage->over, 1);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    tundish_close(stage->bucket);
}

START_TEST(a_crowd_gets_leases_by_itself_and_loses_them)
{
    struct tundish_options options = proc_options(CAPACITY, 1000000000, 1000000);
    struct tundish_options dry = proc_options(CAPACITY, 1, 1000000);
    struct stage stage = {.bucket = proc_create_private(&options)};
    pthread_t threads[2];
    ck_assert_int_eq(tundish_sidecar_register(stage.bucket, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_flat_out, &stage), 0);
    uint64_t took_ns = await_strategy(stage.bucket, TUNDISH_LEASED, 20 * KIT_SECOND);
    struct tundish_sidecar_stats stats = stats_of(stage.bucket);
    bool crowded = stats.retries * TDI_ADAPT_CONTENDED > stats.granted;
    if (!crowded && stats.strategy == TUNDISH_DIRECT) {
        fprintf(stderr, "the machine is busy: the threads were seldom in each other's way\n");
        end(&stage, threads);
        return;
    }
    kit_expect(took_ns < 20 * KIT_SECOND, "strategy %u after %llu ms", stats.strategy,
               (unsigned long long)took_ns / 1000000);
    uint64_t before = stats_of(stage.bucket).switches;
    kit_sleep_ns(3 * KIT_SECOND);
    uint64_t switches = stats_of(stage.bucket).switches - before;
    kit_expect(switches <= 2, "%llu switches", (unsigned long long)switches);
    await_strategy(stage.bucket, TUNDISH_LEASED, 20 * KIT_SECOND);
    if (_i == 0)
        atomic_store(&stage.rests, 1);
    else
        ck_assert_int_eq(tundish_configure(stage.bucket, &dry), 0);
    took_ns = await_strategy(stage.bucket, TUNDISH_DIRECT, 20 * KIT_SECOND);
    kit_expect(took_ns < 10 * KIT_SECOND, "leases after %llu ms", (unsigned long long)took_ns / 1000000);
    end(&stage, threads);
}
END_TEST

static Suite *crowds(void)
{
    if (!has_two_processors())
        kit_skip("one processor: threads are seldom in each other's way");
    Suite *suite = suite_create("crowds");
    TCase *crowd = kit_case(suite, "crowd");
    tcase_add_loop_test(crowd, a_crowd_gets_leases_by_itself_and_loses_them, 0, 2);
    return suite;
}

KIT_MAIN(crowds)
