/* SPDX-License-Identifier: MIT */
/* What others leave in the way: places that the stopped and the dead hold, and what looking for them costs. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <tundish/tundish.h>
#include <unistd.h>

#include "kit/kit.h"
#include "lib/handle.h"
#include "proc/proc.h"
#include "shm/layout.h"

#ifdef __SANITIZE_ADDRESS__
#define CANCELLATION false /* it does not outlive a cancelled thread */
#else
#define CANCELLATION true
#endif
#define DEADLINE_NS (12 * KIT_SECOND) /* far more than what is promised, for a loaded machine */

static void *wait_long(void *bucket)
{
    tundish_acquire(bucket, 1);
    return NULL;
}

/* A child that stops itself once so many of its threads stand in line. */
static pid_t stopped_child(struct tundish *bucket, uint32_t threads)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pthread_t thread;
        for (uint32_t i = 0; i < threads; i++)
            if (pthread_create(&thread, NULL, wait_long, bucket) != 0)
                _exit(1);
        for (;;)
            pause();
    }
    proc_expect_in_line(bucket, threads);
    while (!(atomic_load(&bucket->file->word) & TDI_WORD_QUEUED))
        kit_sleep_ns(KIT_MILLISECOND);
    ck_assert_int_eq(kill(child, SIGSTOP), 0);
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

START_TEST(a_stopped_process_with_all_places_keeps_nobody_out)
{
    struct tundish_options options = proc_still_options(1000, 0);
    struct tundish *bucket = proc_create_private(&options);
    pid_t child = stopped_child(bucket, TDI_LAYOUT_SLOTS);
    tundish_release(bucket, 1000);
    /* Its places are 64 tokens' worth; with more than all the rest it takes a place in line to get them. */
    int error = tundish_acquire_for(bucket, 990, DEADLINE_NS);
    end_child(child);
    ck_assert_int_eq(error, 0);
    tundish_close(bucket);
}
END_TEST

START_TEST(who_delays_nobody_needs_no_place)
{
    struct tundish_options options = proc_still_options(1000, 0);
    struct tundish *bucket = proc_create_private(&options);
    pid_t child = stopped_child(bucket, TDI_LAYOUT_SLOTS);
    tundish_release(bucket, 1000);
    ck_assert_int_eq(tundish_acquire_for(bucket, 1, DEADLINE_NS), 0);
    end_child(child);
    tundish_close(bucket);
}
END_TEST

START_TEST(places_that_the_dead_only_claimed_come_back)
{
    struct tundish_options options = proc_options(10, 1000, 1000000);
    struct tundish *bucket = proc_create_private(&options);
    for (uint64_t i = 0; i < TDI_LAYOUT_SLOTS; i++)
        atomic_store(&bucket->file->line.id[i], (4000 + i) << 32); /* in no entry: nobody can be asked */
    ck_assert_int_eq(tundish_acquire_for(bucket, 20, DEADLINE_NS), 0);
    tundish_close(bucket);
}
END_TEST

struct pair {
    struct tundish *full, *blocked;
    bool all; /* wait, or try */
    _Atomic(bool) returned;
};

/* With a cancellation pending from the start. */
static void *ask_for_both(void *argument)
{
    struct pair *pair = argument;
    const struct tundish_demand demands[] = {{pair->full, 10}, {pair->blocked, 1}};
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    if (pair->all)
        tundish_acquire_all(demands, 2, TUNDISH_NO_DEADLINE);
    else
        tundish_try_acquire_all(demands, 2);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    atomic_store(&pair->returned, true);
    return NULL;
}

static void cancel_among_suspects(bool all)
{
    struct tundish_options still = proc_still_options(10, 10), empty = proc_still_options(10, 0);
    struct pair pair = {proc_create_private(&still), proc_create_private(&empty), all, false};
    pid_t child = stopped_child(pair.blocked, 1);
    kit_sleep_ns(1300 * KIT_MILLISECOND); /* it is late by now: worth asking the kernel about */
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_for_both, &pair), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    end_child(child);
    ck_assert_msg(atomic_load(&pair.returned) == !all, "a cancellation point, or none");
    ck_assert_uint_eq(tundish_available(pair.full), 10);
    tundish_close(pair.full);
    tundish_close(pair.blocked);
}

START_TEST(trying_several_buckets_is_no_cancellation_point)
{
    cancel_among_suspects(false);
}
END_TEST

START_TEST(a_cancelled_wait_for_several_buckets_gives_all_back)
{
    cancel_among_suspects(true);
}
END_TEST

START_TEST(a_refused_try_asks_about_the_late_only_now_and_then)
{
    struct tundish_options empty = proc_still_options(100, 0);
    struct tundish *bucket = proc_create_private(&empty);
    pid_t child = stopped_child(bucket, 60);
    kit_sleep_ns(1300 * KIT_MILLISECOND);
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t start_ns = kit_now_ns();
        ck_assert_int_eq(tundish_try_acquire(bucket, 100), -EAGAIN);
        uint64_t took_ns = kit_now_ns() - start_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    end_child(child);
    ck_assert_uint_lt(least_ns, 100000); /* asking about sixty takes several times as long */
    tundish_close(bucket);
}
END_TEST

static Suite *obstacles(void)
{
    Suite *suite = suite_create("obstacles");
    TCase *places = kit_case(suite, "places");
    tcase_set_timeout(places, 60);
    tcase_add_test(places, a_stopped_process_with_all_places_keeps_nobody_out);
    tcase_add_test(places, who_delays_nobody_needs_no_place);
    tcase_add_test(places, places_that_the_dead_only_claimed_come_back);
    TCase *asking = kit_case(suite, "asking");
    tcase_set_timeout(asking, 60);
    if (CANCELLATION) {
        tcase_add_test(asking, trying_several_buckets_is_no_cancellation_point);
        tcase_add_test(asking, a_cancelled_wait_for_several_buckets_gives_all_back);
    }
    tcase_add_test(asking, a_refused_try_asks_about_the_late_only_now_and_then);
    return suite;
}

KIT_MAIN(obstacles)
