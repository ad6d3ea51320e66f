/* SPDX-License-Identifier: MIT */
/* Threads on one handle and on handles of their own. Nothing here forks but Check, so that ThreadSanitizer
 * can watch. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "proc/history.h"
#include "proc/proc.h"

#define THREADS_MOST 8
#define ASKING_NS (100 * KIT_MILLISECOND)

struct stage {
    struct kit_barrier barrier;
    struct tundish *bucket[THREADS_MOST]; /* the same one, or one each */
    uint64_t asking_ns;
    atomic_int over;
    struct history history[THREADS_MOST];
};

struct thread {
    struct stage *stage;
    unsigned index;
    pthread_t id;
};

static void run(struct stage *stage, unsigned count, void *(*first)(void *), void *(*others)(void *))
{
    struct thread thread[THREADS_MOST];
    kit_barrier_init(&stage->barrier, count);
    for (unsigned i = 0; i < count; i++) {
        thread[i].stage = stage;
        thread[i].index = i;
        ck_assert_int_eq(pthread_create(&thread[i].id, NULL, i == 0 ? first : others, &thread[i]), 0);
    }
    for (unsigned i = 0; i < count; i++)
        ck_assert_int_eq(pthread_join(thread[i].id, NULL), 0);
}

static struct stage *new_stage(const struct tundish_options *options)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    stage->bucket[0] = proc_create("threads", options);
    for (unsigned i = 1; i < THREADS_MOST; i++)
        stage->bucket[i] = i % 2 ? stage->bucket[0] : proc_open("threads");
    stage->asking_ns = ASKING_NS;
    return stage;
}

static void free_stage(struct stage *stage)
{
    for (unsigned i = 0; i < THREADS_MOST; i++)
        if (i % 2 == 0)
            tundish_close(stage->bucket[i]);
    ck_assert_int_eq(tundish_unlink("threads"), 0);
}

static void *ask(void *argument)
{
    struct thread *thread = argument;
    struct history *history = &thread->stage->history[thread->index];
    uint32_t random = thread->index + 1;
    kit_barrier_wait(&thread->stage->barrier);
    uint64_t end_ns = kit_now_ns() + thread->stage->asking_ns;
    while (!history->full && kit_now_ns() < end_ns) {
        uint32_t n = 1 + proc_random(&random, 3);
        int error = history_try(history, thread->stage->bucket[thread->index], n);
        kit_expect(error == 0 || error == -EAGAIN, "%s", tundish_strerror(error));
    }
    atomic_fetch_add(&thread->stage->over, 1);
    return NULL;
}

START_TEST(threads_get_no_more_than_was_promised)
{
    static const struct promise promises[] = {
        {.capacity = 3, .refill = 1000, .interval_us = 1000000},
        {.capacity = 50, .refill = 1500000, .interval_us = 1000000},
        {.capacity = 100, .refill = 30, .interval_us = 5000, .stepped = 1},
    };
    static const unsigned crowd[] = {2, 4, 8};
    const struct promise *promise = &promises[_i % 3];
    struct tundish_options options = proc_options(promise->capacity, promise->refill, promise->interval_us);
    options.flags = promise->stepped ? TUNDISH_STEPPED : 0;
    struct stage *stage = new_stage(&options);
    run(stage, crowd[_i / 3], ask, ask);
    history_check(stage->bucket[0], stage->history, crowd[_i / 3], promise);
    ck_assert_uint_gt(history_total(stage->history, crowd[_i / 3]), 0);
    free_stage(stage);
}
END_TEST

START_TEST(no_token_is_lost_or_minted_between_threads)
{
    struct promise promise = {.capacity = 1000000000, .refill = 1333333, .interval_us = 1000000};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    options.initial = 0;
    struct stage *stage = new_stage(&options);
    run(stage, 4, ask, ask);
    uint64_t total = history_total(stage->history, 4);
    uint64_t least = history_due_until(stage->bucket[0], &promise, tundish_now_ns());
    total += tundish_available(stage->bucket[0]);
    uint64_t most = history_due_until(stage->bucket[0], &promise, tundish_now_ns());
    kit_expect(least <= total && total <= most, "%llu tokens, %llu to %llu were due",
               (unsigned long long)total, (unsigned long long)least, (unsigned long long)most);
    free_stage(stage);
}
END_TEST

/* Takes and gives back the same again, with everything else that may be called at any time. */
static void *take_and_give_back(void *argument)
{
    struct thread *thread = argument;
    struct tundish *bucket = thread->stage->bucket[thread->index];
    uint32_t random = thread->index + 1;
    kit_barrier_wait(&thread->stage->barrier);
    for (unsigned i = 0; i < 5000; i++) {
        uint32_t n = 1 + proc_random(&random, 20);
        if (tundish_try_acquire(bucket, n) == 0)
            tundish_release(bucket, n);
        uint32_t available = tundish_available(bucket);
        kit_expect(available <= 1000, "%u tokens", available);
        tundish_wait_time_ns(bucket, n);
        if (i % 500 == 0)
            kit_expect(proc_info(bucket).capacity == 1000, "the configuration changed");
    }
    return NULL;
}

START_TEST(what_threads_give_back_is_all_there_again)
{
    struct tundish_options options = proc_still_options(1000, 700);
    struct stage *stage = new_stage(&options);
    run(stage, 6, take_and_give_back, take_and_give_back);
    ck_assert_uint_eq(tundish_available(stage->bucket[0]), 700);
    free_stage(stage);
}
END_TEST

static void *wait_in_turn(void *argument)
{
    struct thread *thread = argument;
    struct history *history = &thread->stage->history[thread->index];
    kit_barrier_wait(&thread->stage->barrier);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t before_ns = tundish_now_ns();
        kit_expect(tundish_acquire(thread->stage->bucket[thread->index], 2) == 0, "acquire failed");
        history_note(history, before_ns, tundish_now_ns(), 2);
    }
    return NULL;
}

START_TEST(waiting_threads_get_no_more_than_was_promised)
{
    struct promise promise = {.capacity = 10, .refill = 1000, .interval_us = 1000000};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    options.flags = TUNDISH_STRICT;
    struct stage *stage = new_stage(&options);
    run(stage, 6, wait_in_turn, wait_in_turn);
    ck_assert_uint_eq(history_total(stage->history, 6), 240);
    history_check(stage->bucket[0], stage->history, 6, &promise);
    free_stage(stage);
}
END_TEST

static void *change(void *argument)
{
    struct thread *thread = argument;
    struct tundish_options one = proc_options(40, 20000, 1000000), other = proc_options(20, 100, 700000);
    kit_barrier_wait(&thread->stage->barrier);
    for (unsigned i = 0; atomic_load(&thread->stage->over) < 3; i++) {
        int error = tundish_configure(thread->stage->bucket[0], i % 2 ? &one : &other);
        kit_expect(error == 0, "%s", tundish_strerror(error));
        struct tundish_info info = proc_info(thread->stage->bucket[0]);
        kit_expect(info.interval_us == (i % 2 ? one.interval_us : other.interval_us), "a change was lost");
    }
    return NULL;
}

START_TEST(threads_see_each_change_whole)
{
    struct promise promise = {.capacity = 40, .refill = 20000, .interval_us = 1000000, .slack = 1};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    struct stage *stage = new_stage(&options);
    run(stage, 4, change, ask);
    history_check(stage->bucket[0], stage->history + 1, 3, &promise);
    free_stage(stage);
}
END_TEST

static void *open_and_close(void *argument)
{
    struct thread *thread = argument;
    kit_barrier_wait(&thread->stage->barrier);
    for (unsigned i = 0; i < 100; i++) {
        struct tundish *bucket = proc_open("threads");
        kit_expect(tundish_try_acquire(bucket, 1) == 0, "no token");
        tundish_close(bucket);
    }
    return NULL;
}

START_TEST(threads_open_and_close_handles_of_their_own)
{
    struct tundish_options options = proc_still_options(1000, 1000);
    struct stage *stage = new_stage(&options);
    run(stage, 6, open_and_close, open_and_close);
    ck_assert_uint_eq(tundish_available(stage->bucket[0]), 400);
    ck_assert_uint_eq(proc_info(stage->bucket[0]).instances, 4);
    ck_assert_uint_eq(proc_info(stage->bucket[0]).unlisted, 0);
    free_stage(stage);
}
END_TEST

static Suite *threads(void)
{
    Suite *suite = suite_create("threads");
    TCase *all = kit_case(suite, "threads");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, threads_get_no_more_than_was_promised, 0, 9);
    tcase_add_test(all, no_token_is_lost_or_minted_between_threads);
    tcase_add_test(all, what_threads_give_back_is_all_there_again);
    tcase_add_test(all, waiting_threads_get_no_more_than_was_promised);
    tcase_add_test(all, threads_see_each_change_whole);
    tcase_add_test(all, threads_open_and_close_handles_of_their_own);
    return suite;
}

KIT_MAIN(threads)
