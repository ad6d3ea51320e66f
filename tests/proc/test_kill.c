/* SPDX-License-Identifier: MIT */
/*
 * kill -9 at random moments. What the victims did they count in shared memory, each count on the safe side of
 * its deed: tokens received are counted after the acquire and taken off the count before they are given back,
 * resets are counted before they are made. So what is counted is never more than what happened.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"
#include "lib/handle.h"
#include "proc/history.h"
#include "proc/proc.h"
#include "shm/layout.h"

#define WORKERS 4
#define KILLS 1000
#define STORM_NS (6 * KIT_SECOND)
#define CAPACITY_MOST 103

struct storm {
    struct tundish *bucket;
    _Atomic(int64_t) granted;
    _Atomic(uint64_t) resets;
    int changes; /* workers also reset and configure */
};

/* Configurations that are known by any of their numbers. */
static struct tundish_options options_of(unsigned kind)
{
    struct tundish_options options = proc_options(100 + kind, 2000 + kind, 1000000 + kind);
    options.flags = TUNDISH_STRICT | (kind == 2 ? TUNDISH_BYTES : 0);
    return options;
}

static void expect_one_of_ours(const struct tundish *bucket)
{
    struct tundish_info info = proc_info(bucket);
    unsigned kind = info.capacity - 100;
    struct tundish_options options = options_of(kind);
    kit_expect(kind < 4 && info.refill == options.refill && info.interval_us == options.interval_us &&
                   info.flags == options.flags,
               "capacity %u, refill %u, interval %llu, flags %u are no configuration that was ever set",
               info.capacity, info.refill, (unsigned long long)info.interval_us, info.flags);
    kit_expect(info.available <= info.capacity, "%u tokens", info.available);
}

static void take(struct storm *storm, struct tundish *bucket, uint32_t n, int waiting)
{
    int error =
        waiting ? tundish_acquire_for(bucket, n, KIT_MILLISECOND / 2) : tundish_try_acquire(bucket, n);
    kit_expect(error == 0 || error == -EAGAIN || error == -ETIMEDOUT, "%s", tundish_strerror(error));
    if (error == 0)
        atomic_fetch_add(&storm->granted, n);
}

static void change(struct storm *storm, struct tundish *bucket, uint32_t *random)
{
    struct tundish_options options = options_of(proc_random(random, 4));
    switch (proc_random(random, 16)) {
    case 0:
        atomic_fetch_add(&storm->resets, 1);
        tundish_reset(bucket);
        break;
    default:
        kit_expect(tundish_configure(bucket, &options) == 0, "configure failed");
        break;
    }
}

static _Noreturn void work(struct storm *storm)
{
    uint32_t random = (uint32_t)getpid() * 2654435761u + 1;
    struct tundish *bucket = proc_open("bucket");
    for (;;) {
        uint32_t n = 1 + proc_random(&random, 3);
        uint32_t choice = proc_random(&random, 16);
        if (choice < 10) {
            take(storm, bucket, n, choice < 3);
        } else if (choice < 12 && tundish_try_acquire(bucket, n) == 0) {
            tundish_release(bucket, n);
        } else if (choice == 13) {
            tundish_close(bucket);
            bucket = proc_open("bucket");
        } else if (choice > 13 && storm->changes) {
            change(storm, bucket, &random);
        } else if (choice > 13) {
            expect_one_of_ours(bucket);
        }
    }
}

static int work_until_killed(unsigned index, void *shared)
{
    (void)index;
    work(shared);
}

static unsigned rage(struct storm *storm)
{
    struct kit_children *worker[WORKERS];
    uint32_t random = 7;
    unsigned kills = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        worker[i] = kit_spawn(1, work_until_killed, storm);
    uint64_t end_ns = kit_now_ns() + STORM_NS;
    while (kills < KILLS && kit_now_ns() < end_ns) {
        kit_sleep_ns(proc_random(&random, 3000000));
        for (unsigned i = proc_random(&random, WORKERS); i < WORKERS; i += 2) {
            kit_child_kill(worker[i], 0);
            kit_collect(worker[i], 10 * KIT_SECOND);
            worker[i] = kit_spawn(1, work_until_killed, storm);
            kills++;
        }
        expect_one_of_ours(storm->bucket);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        kit_child_kill(worker[i], 0);
        kit_collect(worker[i], 10 * KIT_SECOND);
    }
    return kills;
}

/*
 * Entries of processes that were killed between taking one and signing it: only their process id is known, and
 * on a busy machine another process may have it by now.
 */
static uint32_t count_unsigned(const struct tundish *bucket)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++) {
        const struct tdi_layout_instance *entry = &bucket->file->instance[i];
        uint64_t owner = atomic_load(&entry->owner);
        count += owner != 0 && atomic_load(&entry->identified) != owner;
    }
    return count;
}

static void expect_a_working_bucket(struct tundish *bucket)
{
    struct tundish *handle[TDI_LAYOUT_INSTANCES - 1];
    struct tundish_options options = options_of(1);
    expect_one_of_ours(bucket);
    ck_assert_int_eq(tundish_configure(bucket, &options), 0);
    ck_assert_uint_eq(proc_info(bucket).capacity, options.capacity);
    ck_assert_int_eq(tundish_acquire_for(bucket, 150, 10 * KIT_SECOND), 0);
    ck_assert_int_eq(tundish_reset(bucket), 0);
    ck_assert_uint_eq(tundish_available(bucket), options.capacity);
    uint32_t unlisted = proc_info(bucket).unlisted;
    for (unsigned i = 0; i < PROC_LEN(handle); i++)
        handle[i] = proc_open("bucket");
    ck_assert_uint_eq(proc_info(bucket).instances, TDI_LAYOUT_INSTANCES);
    ck_assert_uint_le(proc_info(bucket).unlisted, unlisted + count_unsigned(bucket));
    for (unsigned i = 0; i < PROC_LEN(handle); i++)
        tundish_close(handle[i]);
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 1);
}

START_TEST(a_storm_of_kills_leaves_a_working_bucket_and_mints_nothing)
{
    struct storm *storm = kit_shared_new(sizeof *storm);
    struct tundish_options options = options_of(0);
    storm->changes = _i;
    storm->bucket = proc_create("bucket", &options);
    unsigned kills = rage(storm);
    uint64_t due = history_due_until(
        storm->bucket, &(struct promise){.refill = storm->changes ? 2003 : 2000, .interval_us = 1000000},
        tundish_now_ns());
    uint64_t allowed = CAPACITY_MOST + due + atomic_load(&storm->resets) * CAPACITY_MOST;
    if (!storm->changes)
        allowed = 100 + due;
    uint64_t granted = (uint64_t)atomic_load(&storm->granted);
    kit_expect(granted <= allowed, "%llu granted, %llu allowed", (unsigned long long)granted,
               (unsigned long long)allowed);
    ck_assert_uint_gt(granted, 0);
    ck_assert_uint_ge(kills, 100);
    expect_a_working_bucket(storm->bucket);
    tundish_close(storm->bucket);
}
END_TEST

static _Noreturn void configure_for_ever(unsigned index)
{
    uint32_t random = index + 1;
    struct tundish *bucket = proc_open("bucket");
    for (;;) {
        struct tundish_options options = options_of(proc_random(&random, 4));
        kit_expect(tundish_configure(bucket, &options) == 0, "configure failed");
    }
}

struct queue {
    struct kit_barrier barrier;
    struct tundish *bucket;
};

static int wait_until_killed(unsigned index, void *shared)
{
    struct queue *queue = shared;
    kit_barrier_wait(&queue->barrier);
    tundish_acquire(queue->bucket,
                    index % 3 ? 2 : 1000000); /* one of three gathers more than there will be */
    return 0;
}

START_TEST(waiters_killed_in_line_hold_nobody_up)
{
    enum {
        WAITERS = 9
    };
    struct tundish_options options = proc_options(10, 1000, 1000000);
    struct queue *queue = kit_shared_new(sizeof *queue);
    queue->bucket = proc_create("bucket", &options);
    for (unsigned round = 0; round < 10; round++) {
        kit_barrier_init(&queue->barrier, WAITERS + 1);
        struct kit_children *waiters = kit_spawn(WAITERS, wait_until_killed, queue);
        kit_barrier_wait(&queue->barrier);
        kit_sleep_ns(round * KIT_MILLISECOND / 2);
        for (unsigned i = 0; i < WAITERS; i++)
            kit_child_kill(waiters, i);
        kit_collect(waiters, 10 * KIT_SECOND);
        uint64_t start_ns = kit_now_ns();
        ck_assert_int_eq(tundish_acquire_for(queue->bucket, 20, 10 * KIT_SECOND), 0);
        kit_expect(kit_now_ns() - start_ns < 5 * KIT_SECOND, "round %u took too long", round);
    }
    kit_sleep_ns(50 * KIT_MILLISECOND);
    ck_assert_int_eq(tundish_try_acquire(queue->bucket, 10), 0);
    ck_assert_uint_eq(proc_info(queue->bucket).waiting, 0);
    tundish_close(queue->bucket);
}
END_TEST

static int configure_until_killed(unsigned index, void *shared)
{
    (void)shared;
    configure_for_ever(index);
}

/* More writers at once than there are records, stopped anywhere by the scheduler, at last for good. */
START_TEST(a_crowd_of_configurers_never_leaves_a_mixture)
{
    enum {
        CROWD = 24
    };
    struct tundish_options options = options_of(0);
    struct tundish *bucket = proc_create("bucket", &options);
    for (unsigned round = 0; round < 2; round++) {
        struct kit_children *crowd = kit_spawn(CROWD, configure_until_killed, NULL);
        uint64_t end_ns = kit_now_ns() + 700 * KIT_MILLISECOND;
        while (kit_now_ns() < end_ns) {
            expect_one_of_ours(bucket);
            struct tundish *another = proc_open("bucket");
            tundish_close(another);
        }
        for (unsigned i = 0; i < CROWD; i++)
            kit_child_kill(crowd, i);
        kit_collect(crowd, 10 * KIT_SECOND);
        expect_one_of_ours(bucket);
    }
    expect_a_working_bucket(bucket);
    tundish_close(bucket);
}
END_TEST

/*
 * Seven writers were killed just after taking their numbers, so that the next number falls on the record in
 * force for a writer who knows only the one before it.
 */
START_TEST(a_late_configurer_never_writes_into_the_configuration_in_force)
{
    struct tundish_options first = options_of(0), second = options_of(1), third = options_of(2);
    struct tundish *bucket = proc_create_private(&first);
    struct tdi_config late;
    struct tdi_clock_base base;
    tdi_config_read(bucket->file, &late);
    tdi_config_read_base(bucket->file, &base);
    ck_assert_int_eq(tundish_configure(bucket, &second), 0);
    uint32_t current = (uint32_t)atomic_load(&bucket->file->head.current);
    atomic_store(&bucket->file->head.next, current + TDI_LAYOUT_RECORDS);
    late.capacity = third.capacity;
    late.refill = third.refill;
    late.interval_us = third.interval_us;
    tdi_config_prepare(&late);
    int error = tdi_config_publish(bucket->file, &late, &base);
    ck_assert_int_eq(error, -EAGAIN);
    struct tundish_info info = proc_info(bucket);
    kit_expect(info.capacity == second.capacity && info.refill == second.refill,
               "capacity %u and refill %u are in force, which nobody put in force", info.capacity,
               info.refill);
    tundish_close(bucket);
}
END_TEST

static Suite *kills(void)
{
    Suite *suite = suite_create("kills");
    TCase *storms = kit_case(suite, "storms");
    tcase_set_timeout(storms, 60);
    tcase_add_loop_test(storms, a_storm_of_kills_leaves_a_working_bucket_and_mints_nothing, 0, 2);
    tcase_add_test(storms, waiters_killed_in_line_hold_nobody_up);
    tcase_add_test(storms, a_late_configurer_never_writes_into_the_configuration_in_force);
    tcase_add_test(storms, a_crowd_of_configurers_never_leaves_a_mixture);
    return suite;
}

KIT_MAIN(kills)
