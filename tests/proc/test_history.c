/* SPDX-License-Identifier: MIT */
/* Several processes ask for tokens and write down what they get; the promise is checked afterwards. */
#include <errno.h>
#include <string.h>

#include "proc/history.h"
#include "proc/proc.h"

#define PARTIES_MOST 8
#define ASKING_NS (90 * KIT_MILLISECOND)

struct stage {
    struct kit_barrier barrier;
    struct tundish *bucket;
    uint32_t tokens_most; /* 1 .. so many at a time */
    int leisurely;
    uint64_t asking_ns;
    _Atomic(uint64_t) changes;
    atomic_int over;
    struct history history[PARTIES_MOST];
};

static const struct promise promises[] = {
    {.capacity = 1, .refill = 333333, .interval_us = 1000000},
    {.capacity = 10, .refill = 1000, .interval_us = 1000000},
    {.capacity = 50, .refill = 1999999, .interval_us = 1000000},
    {.capacity = 3, .refill = 44, .interval_us = 10000000},
    {.capacity = 7, .refill = 3, .interval_us = 7},
    {.capacity = 100, .refill = 30, .interval_us = 5000, .stepped = 1},
};

static struct tundish_options options_of(const struct promise *promise)
{
    struct tundish_options options = proc_options(promise->capacity, promise->refill, promise->interval_us);
    options.flags = promise->stepped ? TUNDISH_STEPPED : 0;
    return options;
}

static int ask(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct history *history = &stage->history[index];
    uint32_t random = index + 1;
    kit_barrier_wait(&stage->barrier);
    uint64_t end_ns = kit_now_ns() + stage->asking_ns;
    while (!history->full && kit_now_ns() < end_ns) {
        int error = history_try(history, stage->bucket, 1 + proc_random(&random, stage->tokens_most));
        kit_expect(error == 0 || error == -EAGAIN || error == -E2BIG, "%s", tundish_strerror(error));
        if (stage->leisurely && proc_random(&random, 4) == 0)
            kit_sleep_ns(proc_random(&random, 300000));
    }
    return 0;
}

static struct stage *new_stage(const struct tundish_options *options, unsigned parties)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    stage->bucket = proc_create_private(options);
    stage->asking_ns = ASKING_NS;
    stage->tokens_most = 1;
    kit_barrier_init(&stage->barrier, parties);
    return stage;
}

START_TEST(processes_as_fast_as_they_can_get_no_more_than_was_promised)
{
    const struct promise *promise = &promises[_i];
    struct tundish_options options = options_of(promise);
    static const unsigned crowd[] = {2, 4, 8};
    for (unsigned i = 0; i < PROC_LEN(crowd); i++) {
        struct stage *stage = new_stage(&options, crowd[i]);
        stage->tokens_most = promise->capacity < 3 ? 1 : 3;
        kit_collect(kit_spawn(crowd[i], ask, stage), 30 * KIT_SECOND);
        history_check(stage->bucket, stage->history, crowd[i], promise);
        ck_assert_uint_gt(history_total(stage->history, crowd[i]), 0);
        tundish_close(stage->bucket);
    }
}
END_TEST

START_TEST(processes_at_random_times_get_no_more_than_was_promised)
{
    const struct promise *promise = &promises[_i];
    struct tundish_options options = options_of(promise);
    struct stage *stage = new_stage(&options, 6);
    stage->leisurely = 1;
    stage->tokens_most = promise->capacity;
    kit_collect(kit_spawn(6, ask, stage), 30 * KIT_SECOND);
    history_check(stage->bucket, stage->history, 6, promise);
    tundish_close(stage->bucket);
}
END_TEST

/* A bucket that never gets full: then each token due must have been granted or still be there. */
START_TEST(no_token_is_lost_or_minted_between_processes)
{
    struct promise promise = promises[_i];
    struct tundish_options options = options_of(&promise);
    options.capacity = promise.capacity = 1000000000;
    options.initial = 0;
    struct stage *stage = new_stage(&options, 4);
    stage->tokens_most = 5;
    kit_collect(kit_spawn(4, ask, stage), 30 * KIT_SECOND);
    uint64_t total = history_total(stage->history, 4);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(stage->history[i].full, 0);
    uint64_t least = history_due_until(stage->bucket, &promise, tundish_now_ns());
    total += tundish_available(stage->bucket);
    uint64_t most = history_due_until(stage->bucket, &promise, tundish_now_ns());
    kit_expect(least <= total && total <= most, "%llu tokens, %llu to %llu were due",
               (unsigned long long)total, (unsigned long long)least, (unsigned long long)most);
    tundish_close(stage->bucket);
}
END_TEST

/* Child 0 changes the rate, the others ask. */
static int change_or_ask(unsigned index, void *shared)
{
    struct stage *stage = shared;
    if (index > 0) {
        int status = ask(index, shared);
        atomic_fetch_add(&stage->over, 1);
        return status;
    }
    struct tundish_options slow = proc_options(20, 100, 1000000);
    struct tundish_options fast = proc_options(40, 20000, 1000000);
    kit_barrier_wait(&stage->barrier);
    while (atomic_load(&stage->over) < 4) {
        int error = tundish_configure(stage->bucket, atomic_load(&stage->changes) % 2 ? &fast : &slow);
        kit_expect(error == 0, "%s", tundish_strerror(error));
        atomic_fetch_add(&stage->changes, 1);
        if (stage->leisurely)
            kit_sleep_ns(3 * KIT_MILLISECOND);
    }
    return 0;
}

/* However often the rate changes, the higher one bounds what passes. */
START_TEST(live_changes_of_the_rate_let_no_more_pass_than_the_higher_one)
{
    struct promise promise = {.capacity = 40, .refill = 20000, .interval_us = 1000000};
    struct tundish_options options = options_of(&promise);
    struct stage *stage = new_stage(&options, 5);
    stage->leisurely = _i;
    stage->asking_ns = 400 * KIT_MILLISECOND;
    promise.slack = 1; /* where in the window the fraction of a token stands is not known after a change */
    kit_collect(kit_spawn(5, change_or_ask, stage), 30 * KIT_SECOND);
    ck_assert_uint_gt(atomic_load(&stage->changes), 10);
    history_check(stage->bucket, stage->history + 1, 4, &promise);
    tundish_close(stage->bucket);
}
END_TEST

/* A change to a rate that is slow enough mints nothing: what was there is all there is. */
START_TEST(changes_between_slow_rates_mint_nothing)
{
    struct tundish_options one = proc_still_options(1000, 100), other = one;
    struct stage *stage = new_stage(&one, 2);
    other.capacity = 2000;
    other.refill = 2;
    for (unsigned i = 0; i < 20000; i++)
        ck_assert_int_eq(tundish_configure(stage->bucket, i % 2 ? &one : &other), 0);
    ck_assert_uint_eq(tundish_available(stage->bucket), 100);
    tundish_close(stage->bucket);
}
END_TEST

/* Child 0 keeps the promise, child 1 gets two more at the end, which is one too many wherever in a token's
 * time the window begins. */
static int judge_a_made_up_history(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct promise promise = {.capacity = 5, .refill = 1000, .interval_us = 1000000};
    struct history *history = &stage->history[2 * index];
    uint64_t now_ns = tundish_now_ns() + KIT_SECOND;
    history_note(history, now_ns, now_ns + 100, 3);
    history_note(&history[1], now_ns + 2 * KIT_MILLISECOND, now_ns + 2 * KIT_MILLISECOND + 50, 3);
    history_note(history, now_ns + 3 * KIT_MILLISECOND, now_ns + 4 * KIT_MILLISECOND, 2);
    history_check(stage->bucket, history, 2, &promise);
    /* 5 and the 7 or 8 that fall due until the last are promised, 8 are gone. */
    history_note(&history[1], now_ns + 7 * KIT_MILLISECOND, now_ns + 7 * KIT_MILLISECOND, 4 + 2 * index);
    history_check(stage->bucket, history, 2, &promise);
    return 0;
}

START_TEST(the_check_itself_finds_one_token_too_many)
{
    struct tundish_options options = proc_options(5, 1000, 1000000);
    struct stage *stage = new_stage(&options, 1);
    ck_assert_uint_eq(kit_collect_failures(kit_spawn(1, judge_a_made_up_history, stage), 30 * KIT_SECOND), 0);
    memset(stage->history, 0, sizeof stage->history);
    ck_assert_uint_eq(kit_collect_failures(kit_spawn(2, judge_a_made_up_history, stage), 30 * KIT_SECOND), 1);
    tundish_close(stage->bucket);
}
END_TEST

static Suite *histories(void)
{
    Suite *suite = suite_create("histories");
    TCase *promise = kit_case(suite, "promise");
    tcase_set_timeout(promise, 60);
    tcase_add_loop_test(promise, processes_as_fast_as_they_can_get_no_more_than_was_promised, 0,
                        PROC_LEN(promises));
    tcase_add_loop_test(promise, processes_at_random_times_get_no_more_than_was_promised, 0,
                        PROC_LEN(promises));
    tcase_add_loop_test(promise, no_token_is_lost_or_minted_between_processes, 0, PROC_LEN(promises));
    TCase *changes = kit_case(suite, "changes");
    tcase_set_timeout(changes, 60);
    tcase_add_loop_test(changes, live_changes_of_the_rate_let_no_more_pass_than_the_higher_one, 0, 2);
    tcase_add_test(changes, changes_between_slow_rates_mint_nothing);
    TCase *check = kit_case(suite, "check");
    tcase_add_test(check, the_check_itself_finds_one_token_too_many);
    return suite;
}

KIT_MAIN(histories)
