/* SPDX-License-Identifier: MIT */
/* Waiting for tokens: how much passes, what comes back, who may disturb it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "proc/history.h"
#include "proc/proc.h"

#define PATIENCE_NS (20 * KIT_SECOND)

/* A cancelled thread leaves its stack without a word to AddressSanitizer, which then takes it for spoilt. */
#ifdef __SANITIZE_ADDRESS__
#define MAY_CANCEL 0
#else
#define MAY_CANCEL 1
#endif

struct stage {
    struct kit_barrier barrier;
    struct tundish *bucket[2];
    uint64_t asking_ns;
    _Atomic(uint64_t) start_ns;
    struct history history[6];
};

static struct stage *new_stage(unsigned parties)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    kit_barrier_init(&stage->barrier, parties);
    return stage;
}

static int wait_over_and_over(unsigned index, void *shared)
{
    struct stage *stage = shared;
    uint32_t random = index + 1;
    kit_barrier_wait(&stage->barrier);
    uint64_t end_ns = kit_now_ns() + stage->asking_ns;
    while (kit_now_ns() < end_ns) {
        uint32_t n = 1 + proc_random(&random, 4);
        uint64_t before_ns = tundish_now_ns();
        int error = proc_random(&random, 3) ? tundish_acquire(stage->bucket[0], n)
                                            : tundish_acquire_for(stage->bucket[0], n, KIT_MILLISECOND);
        kit_expect(error == 0 || error == -ETIMEDOUT, "%s", tundish_strerror(error));
        if (error == 0)
            history_note(&stage->history[index], before_ns, tundish_now_ns(), n);
    }
    return 0;
}

START_TEST(waiting_processes_together_keep_the_rate)
{
    struct promise promise = {.capacity = 600, .refill = 3000, .interval_us = 1000000};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    struct stage *stage = new_stage(6);
    options.initial = 0;
    options.flags = TUNDISH_STRICT | (_i ? TUNDISH_UNFAIR : 0);
    stage->bucket[0] = proc_create_private(&options);
    stage->asking_ns = 600 * KIT_MILLISECOND;
    kit_collect(kit_spawn(6, wait_over_and_over, stage), PATIENCE_NS);
    uint64_t total = history_total(stage->history, 6);
    history_check(stage->bucket[0], stage->history, 6, &promise);
    /* Up to the capacity may be lost if the machine leaves all of us asleep for 200 ms, once. */
    kit_expect(total + promise.capacity >= 1800, "only %llu of 1800 tokens were granted in 600 ms",
               (unsigned long long)total);
    tundish_close(stage->bucket[0]);
}
END_TEST

START_TEST(a_timeout_gives_everything_back)
{
    struct tundish_options options = proc_still_options(10, 7);
    struct tundish *bucket = proc_create_private(&options);
    static const uint32_t demand[] = {8, 10, 11, 100};
    for (size_t i = 0; i < PROC_LEN(demand); i++) {
        uint64_t start_ns = tundish_now_ns();
        ck_assert_int_eq(tundish_acquire_for(bucket, demand[i], 20 * KIT_MILLISECOND), -ETIMEDOUT);
        uint64_t took_ns = tundish_now_ns() - start_ns;
        kit_expect(took_ns >= 20 * KIT_MILLISECOND && took_ns < PATIENCE_NS, "took %llu ns",
                   (unsigned long long)took_ns);
        ck_assert_int_eq(tundish_acquire_until(bucket, demand[i], tundish_now_ns() + KIT_MILLISECOND),
                         -ETIMEDOUT);
        ck_assert_uint_eq(tundish_available(bucket), 7);
    }
    tundish_close(bucket);
}
END_TEST

START_TEST(a_deadline_that_is_past_tries_once)
{
    struct tundish_options options = proc_still_options(10, 7);
    struct tundish *bucket = proc_create_private(&options);
    uint64_t start_ns = kit_now_ns();
    ck_assert_int_eq(tundish_acquire_until(bucket, 3, 0), 0);
    ck_assert_int_eq(tundish_acquire_until(bucket, 5, 0), -ETIMEDOUT);
    ck_assert_int_eq(tundish_acquire_until(bucket, 50, tundish_now_ns() - 1), -ETIMEDOUT);
    ck_assert_int_eq(tundish_acquire_for(bucket, 3, 0), 0);
    ck_assert_int_eq(tundish_acquire_for(bucket, 2, 0), -ETIMEDOUT);
    ck_assert_int_eq(tundish_acquire_for(bucket, 0, 0), 0);
    ck_assert_uint_eq(tundish_available(bucket), 1);
    struct tundish_demand demand = {bucket, 1};
    ck_assert_int_eq(tundish_acquire_all(&demand, 1, 0), 0);
    ck_assert_int_eq(tundish_acquire_all(&demand, 1, 0), -ETIMEDOUT);
    ck_assert_uint_lt(kit_now_ns() - start_ns, 5 * KIT_SECOND);
    tundish_close(bucket);
}
END_TEST

static int gather_more_than_the_capacity(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    kit_barrier_wait(&stage->barrier);
    kit_expect(tundish_acquire(stage->bucket[0], 150) == 0, "acquire failed");
    return 0;
}

START_TEST(more_than_the_capacity_is_gathered_completely)
{
    struct tundish_options options = proc_options(10, 5000, 1000000);
    struct promise promise = {.refill = 5000, .interval_us = 1000000};
    struct stage *stage = new_stage(4);
    options.flags = TUNDISH_STRICT;
    stage->bucket[0] = proc_create_private(&options);
    kit_collect(kit_spawn(4, gather_more_than_the_capacity, stage), PATIENCE_NS);
    uint64_t due = history_due_until(stage->bucket[0], &promise, tundish_now_ns());
    kit_expect(due + 10 >= 600, "600 were granted, %llu and 10 were there", (unsigned long long)due);
    ck_assert_uint_le(tundish_available(stage->bucket[0]), 10);
    tundish_close(stage->bucket[0]);
}
END_TEST

static void *gather_for_ever(void *argument)
{
    struct tundish *bucket = argument;
    tundish_acquire(bucket, 1000);
    return NULL;
}

static void *want_all_for_ever(void *argument)
{
    struct tundish **bucket = argument;
    struct tundish_demand demands[] = {{bucket[0], 5}, {bucket[1], 9}};
    tundish_acquire_all(demands, 2, TUNDISH_NO_DEADLINE);
    return NULL;
}

START_TEST(a_cancelled_wait_gives_everything_back)
{
    struct tundish_options options = proc_still_options(10, 8);
    struct tundish *bucket[] = {proc_create_private(&options), proc_create_private(&options)};
    for (int round = 0; round < 20; round++) {
        pthread_t one, other;
        void *result;
        ck_assert_int_eq(pthread_create(&one, NULL, gather_for_ever, bucket[0]), 0);
        uint64_t end_ns = kit_now_ns() + PATIENCE_NS;
        while (tundish_available(bucket[0]) > 0 && kit_now_ns() < end_ns)
            kit_sleep_ns(KIT_MILLISECOND / 10);
        ck_assert_uint_eq(tundish_available(bucket[0]), 0); /* it has gathered what there is */
        ck_assert_int_eq(pthread_cancel(one), 0);
        ck_assert_int_eq(pthread_join(one, &result), 0);
        ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        ck_assert_uint_eq(tundish_available(bucket[0]), 8);

        ck_assert_int_eq(pthread_create(&other, NULL, want_all_for_ever, bucket), 0);
        kit_sleep_ns((uint64_t)round * KIT_MILLISECOND / 10);
        ck_assert_int_eq(pthread_cancel(other), 0);
        ck_assert_int_eq(pthread_join(other, &result), 0);
        ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        ck_assert_uint_eq(tundish_available(bucket[0]), 8);
        ck_assert_uint_eq(tundish_available(bucket[1]), 8);
    }
    tundish_close(bucket[0]);
    tundish_close(bucket[1]);
}
END_TEST

/* Everything but the waiting functions must go through although the thread is to be cancelled. */
static void *use_though_cancelled(void *argument)
{
    atomic_int *steps = argument;
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket, *again;
    pthread_cancel(pthread_self());
    tundish_create(&bucket, "bucket", &options);
    atomic_store(steps, 1);
    tundish_open(&again, "bucket");
    atomic_store(steps, 2);
    tundish_try_acquire(again, 1);
    tundish_acquire(again, 1); /* nothing to wait for: it may be cancelled here, or not */
    tundish_configure(bucket, &options);
    proc_info(bucket);
    atomic_store(steps, 3);
    tundish_flush(bucket);
    atomic_store(steps, 4);
    tundish_close(again);
    tundish_close(bucket);
    tundish_unlink("bucket");
    atomic_store(steps, 5);
    return NULL;
}

START_TEST(only_waiting_is_a_cancellation_point)
{
    atomic_int steps = 0;
    pthread_t thread;
    unsigned before = proc_count_descriptors();
    ck_assert_int_eq(pthread_create(&thread, NULL, use_though_cancelled, &steps), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(proc_count_descriptors(), before);
    static const char *const last[] = {"create", "open", "info", "flush", "close"};
    kit_expect(atomic_load(&steps) == 5, "cancelled in %s or just before", last[atomic_load(&steps)]);
}
END_TEST

static int want_both_crosswise(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct tundish_demand demands[] = {{stage->bucket[index % 2], 2}, {stage->bucket[1 - index % 2], 2}};
    kit_barrier_wait(&stage->barrier);
    for (int i = 0; i < 50; i++) {
        int error = tundish_acquire_all(demands, 2, tundish_now_ns() + PATIENCE_NS);
        kit_expect(error == 0, "round %d: %s", i, tundish_strerror(error));
    }
    return 0;
}

START_TEST(crossed_orders_of_acquire_all_do_not_block_each_other)
{
    struct promise promise = {.capacity = 1000000, .refill = 2000, .interval_us = 1000000};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    struct stage *stage = new_stage(4);
    options.initial = 0;
    for (int i = 0; i < 2; i++)
        stage->bucket[i] = proc_create_private(&options);
    kit_collect(kit_spawn(4, want_both_crosswise, stage), PATIENCE_NS);
    for (int i = 0; i < 2; i++) {
        uint64_t least = history_due_until(stage->bucket[i], &promise, tundish_now_ns());
        uint64_t total = tundish_available(stage->bucket[i]) + UINT64_C(4) * 50 * 2;
        uint64_t most = history_due_until(stage->bucket[i], &promise, tundish_now_ns());
        kit_expect(least <= total && total <= most, "%llu tokens, %llu to %llu were due",
                   (unsigned long long)total, (unsigned long long)least, (unsigned long long)most);
        tundish_close(stage->bucket[i]);
    }
}
END_TEST

START_TEST(crossed_orders_over_a_small_bucket_all_get_there)
{
    struct tundish_options options = proc_options(3, 2000, 1000000);
    struct stage *stage = new_stage(4);
    for (int i = 0; i < 2; i++)
        stage->bucket[i] = proc_create_private(&options);
    kit_collect(kit_spawn(4, want_both_crosswise, stage), PATIENCE_NS);
    for (int i = 0; i < 2; i++)
        tundish_close(stage->bucket[i]);
}
END_TEST

static struct tundish *handlers_bucket;
static atomic_uint handled, handler_granted;

static void take_in_the_handler(int signal)
{
    (void)signal;
    atomic_fetch_add(&handled, 1);
    if (handlers_bucket && tundish_try_acquire(handlers_bucket, 1) == 0)
        atomic_fetch_add(&handler_granted, 1);
}

static void start_timer(long interval_us)
{
    struct sigaction action = {.sa_handler = take_in_the_handler};
    struct itimerval timer = {{0, interval_us}, {0, interval_us}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

START_TEST(handlers_run_during_a_wait_and_the_wait_goes_on)
{
    struct tundish_options options = proc_options(100, 1000, 1000000);
    options.initial = 0;
    uint64_t start_ns = tundish_now_ns();
    struct tundish *bucket = proc_create_private(&options);
    start_timer(1000);
    ck_assert_int_eq(tundish_acquire(bucket, 50), 0);
    ck_assert_uint_ge(tundish_now_ns() - start_ns, 49 * KIT_MILLISECOND);
    start_ns = tundish_now_ns();
    ck_assert_int_eq(tundish_acquire_for(bucket, 90000, 30 * KIT_MILLISECOND), -ETIMEDOUT);
    ck_assert_uint_ge(tundish_now_ns() - start_ns, 30 * KIT_MILLISECOND);
    struct tundish_demand demand = {bucket, 60};
    do /* who gets no processor for a while finds many of the timer's signals as one */
        ck_assert_int_eq(tundish_acquire_all(&demand, 1, tundish_now_ns() + PATIENCE_NS), 0);
    while (atomic_load(&handled) < 5);
    start_timer(0);
    tundish_close(bucket);
}
END_TEST

START_TEST(a_handler_may_take_from_the_very_bucket_it_interrupts)
{
    struct promise promise = {.capacity = 1000000000, .refill = 4000, .interval_us = 1000000};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    options.initial = 0;
    struct tundish *bucket = proc_create_private(&options);
    uint64_t total = 0;
    handlers_bucket = bucket;
    start_timer(200);
    uint64_t end_ns = kit_now_ns() + 400 * KIT_MILLISECOND;
    while (kit_now_ns() < end_ns) {
        for (int i = 0; i < 100; i++)
            total += tundish_try_acquire(bucket, 1) == 0;
        total += tundish_acquire_for(bucket, 3, KIT_MILLISECOND) == 0 ? 3 : 0;
        if (tundish_try_acquire(bucket, 2) == 0)
            tundish_release(bucket, 2);
    }
    start_timer(0);
    total += atomic_load(&handler_granted);
    uint64_t least = history_due_until(bucket, &promise, tundish_now_ns());
    total += tundish_available(bucket);
    uint64_t most = history_due_until(bucket, &promise, tundish_now_ns());
    kit_expect(least <= total && total <= most, "%llu tokens, %llu to %llu were due",
               (unsigned long long)total, (unsigned long long)least, (unsigned long long)most);
    ck_assert_uint_gt(atomic_load(&handled), 20);
    handlers_bucket = NULL;
    tundish_close(bucket);
}
END_TEST

static int reset_later(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    kit_barrier_wait(&stage->barrier);
    kit_sleep_ns(30 * KIT_MILLISECOND);
    tundish_reset(stage->bucket[0]);
    return 0;
}

/* The waiter had computed a wait of a year. */
START_TEST(a_wait_notices_that_another_process_filled_the_bucket)
{
    struct tundish_options options = proc_still_options(10, 0);
    struct stage *stage = new_stage(2);
    stage->bucket[0] = proc_create_private(&options);
    struct kit_children *child = kit_spawn(1, reset_later, stage);
    kit_barrier_wait(&stage->barrier);
    ck_assert_int_eq(tundish_acquire_for(stage->bucket[0], 10, 10 * KIT_SECOND), 0);
    kit_collect(child, PATIENCE_NS);
    tundish_close(stage->bucket[0]);
}
END_TEST

static Suite *waiting(void)
{
    Suite *suite = suite_create("waiting");
    TCase *amounts = kit_case(suite, "amounts");
    tcase_set_timeout(amounts, 40);
    tcase_add_loop_test(amounts, waiting_processes_together_keep_the_rate, 0, 2);
    tcase_add_test(amounts, a_timeout_gives_everything_back);
    tcase_add_test(amounts, a_deadline_that_is_past_tries_once);
    tcase_add_test(amounts, more_than_the_capacity_is_gathered_completely);
    tcase_add_test(amounts, a_wait_notices_that_another_process_filled_the_bucket);
    TCase *all = kit_case(suite, "all");
    tcase_set_timeout(all, 40);
    tcase_add_test(all, crossed_orders_of_acquire_all_do_not_block_each_other);
    tcase_add_test(all, crossed_orders_over_a_small_bucket_all_get_there);
    TCase *disturbed = kit_case(suite, "disturbed");
    tcase_set_timeout(disturbed, 40);
    if (MAY_CANCEL) {
        tcase_add_test(disturbed, a_cancelled_wait_gives_everything_back);
        tcase_add_test(disturbed, only_waiting_is_a_cancellation_point);
    }
    tcase_add_test(disturbed, handlers_run_during_a_wait_and_the_wait_goes_on);
    tcase_add_test(disturbed, a_handler_may_take_from_the_very_bucket_it_interrupts);
    return suite;
}

KIT_MAIN(waiting)
