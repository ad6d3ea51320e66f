/* SPDX-License-Identifier: MIT */
/*
 * What users of a rate limiter inside one program expect of it, scenario by scenario: on the simulator where
 * times are to be exact, in real time where threads and the clock matter.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <tundish/tundish.h>

#include "core/bucket.h"
#include "line/sim.h"
#include "proc/proc.h"

#define MS_NS KIT_MILLISECOND
#define LONG_NS (20 * KIT_SECOND)
#define LATE_NS (800 * KIT_MILLISECOND)

/* A bucket of steps: `refill` tokens each interval, the first one interval after its birth at 0. */
static struct sim *steps(uint32_t capacity, uint32_t refill, uint64_t interval_us, uint32_t initial,
                         uint32_t more_flags)
{
    struct tdi_config config = unit_config(capacity, refill, interval_us, TUNDISH_STEPPED | more_flags);
    return sim_start(&config, initial, 0);
}

static void expect_ended(const struct sim *sim, unsigned i, uint64_t at_us)
{
    unit_expect(sim->waiter[i].state == SIM_DONE, "waiter %u is not done", i);
    unit_expect(sim->waiter[i].ended_us >= at_us && sim->waiter[i].ended_us <= at_us + 2,
                "waiter %u was served at %" PRIu64 " instead of %" PRIu64, i, sim->waiter[i].ended_us, at_us);
}

#define TENTH_US (100 * MILLISECOND_US)

START_TEST(what_is_there_initially_is_free_and_the_rest_waits_for_the_interval)
{
    struct sim *sim = steps(50, 1, TENTH_US, 5, 0);
    sim->now_us = 1;
    for (unsigned i = 0; i < 10; i++)
        sim_begin(sim, 1, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    for (unsigned i = 0; i < 10; i++)
        expect_ended(sim, i, i < 5 ? sim->waiter[i].began_us : (i - 4) * TENTH_US);
}
END_TEST

START_TEST(five_initial_and_ten_needed_take_five_intervals)
{
    struct sim *sim = steps(10, 1, TENTH_US, 5, 0);
    sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    expect_ended(sim, 0, 5 * TENTH_US);
}
END_TEST

START_TEST(the_first_refill_comes_one_interval_after_creation_not_after_first_use)
{
    struct sim *sim = steps(10, 1, TENTH_US, 0, 0);
    sim_run(sim, 70 * MILLISECOND_US);
    sim_begin(sim, 1, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    expect_ended(sim, 0, TENTH_US);
}
END_TEST

START_TEST(one_by_one_at_one_per_interval_takes_an_interval_each)
{
    const uint64_t intervals[] = {TENTH_US, 2 * SECOND_US};
    for (unsigned k = 0; k < 2; k++) {
        struct sim *sim = steps(10, 1, intervals[k], 0, 0);
        sim_loop(sim, 1, 1);
        sim_run(sim, 10 * intervals[k]);
        unit_expect(sim->grants == 10, "%u in 10 intervals", sim->grants);
    }
}
END_TEST

START_TEST(each_refill_serves_as_many_as_it_has_tokens_for)
{
    struct sim *sim = steps(10, 4, TENTH_US, 0, 0);
    for (unsigned i = 0; i < 12; i++)
        sim_begin(sim, 1, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    for (unsigned i = 0; i < 12; i++)
        expect_ended(sim, i, (i / 4 + 1) * TENTH_US);
}
END_TEST

START_TEST(more_than_the_capacity_is_gathered)
{
    const struct {
        uint32_t capacity, refill, n;
        uint64_t at_us;
    } cases[] = {{5, 5, 20, 4 * TENTH_US},
                 {3, 5, 10, 4 * TENTH_US},
                 {10, 5, 20, 4 * TENTH_US},
                 {1, 100, 10, SECOND_US}};
    for (size_t i = 0; i < PROC_LEN(cases); i++) {
        struct sim *sim = steps(cases[i].capacity, cases[i].refill, TENTH_US, 0, TUNDISH_STRICT);
        sim_begin(sim, cases[i].n, SIM_NEVER);
        sim_pass(sim, 2 * SECOND_US);
        expect_ended(sim, 0, cases[i].at_us);
        /* With room for late waiters it may come earlier, never later. */
        sim = steps(cases[i].capacity, cases[i].refill, TENTH_US, 0, 0);
        sim_begin(sim, cases[i].n, SIM_NEVER);
        sim_pass(sim, 2 * SECOND_US);
        unit_expect(sim->waiter[0].state == SIM_DONE && sim->waiter[0].ended_us <= cases[i].at_us + 2,
                    "case %zu: at %" PRIu64, i, sim->waiter[0].ended_us);
    }
}
END_TEST

START_TEST(seven_three_and_ten_of_five_per_interval)
{
    struct sim *sim = steps(10, 5, TENTH_US, 0, 0);
    sim_begin(sim, 7, SIM_NEVER);
    sim_begin(sim, 3, SIM_NEVER);
    sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    expect_ended(sim, 0, 2 * TENTH_US);
    expect_ended(sim, 1, 2 * TENTH_US);
    expect_ended(sim, 2, 4 * TENTH_US);
}
END_TEST

START_TEST(idling_gives_everything_up_to_the_capacity_and_keeps_the_phase)
{
    struct sim *sim = steps(50, 1, TENTH_US, 0, 0);
    sim_run(sim, 5 * SECOND_US + 30 * MILLISECOND_US);
    unit_expect(tdi_bucket_available(sim->file, sim->now_us) == 50, "the balance is what is there now");
    unit_expect(sim_try(sim, 50) == 0, "fifty intervals");
    sim_begin(sim, 1, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    expect_ended(sim, 0, 5 * SECOND_US + TENTH_US);
    sim_run(sim, 3600 * SECOND_US);
    unit_expect(tdi_bucket_available(sim->file, sim->now_us) == 50, "the capacity is the most");
    unit_expect(sim_try(sim, 51) == -E2BIG, "never");
}
END_TEST

START_TEST(a_try_takes_what_is_there)
{
    struct sim *sim = steps(10, 1, TENTH_US, 1, 0);
    unit_expect(sim_try(sim, 0) == 0, "none");
    unit_expect(sim_try(sim, 1) == 0 && sim_try(sim, 1) == -EAGAIN, "one");
    sim_run(sim, 2 * TENTH_US);
    unit_expect(sim_try(sim, 1) == 0 && sim_try(sim, 1) == 0 && sim_try(sim, 1) == -EAGAIN, "two");
}
END_TEST

START_TEST(a_try_does_not_pass_who_waits)
{
    struct sim *sim = steps(10, 1, TENTH_US, 0, 0);
    unsigned waiter = sim_begin(sim, 3, SIM_NEVER);
    sim_run(sim, 2 * TENTH_US + 1);
    unit_expect(sim_try(sim, 1) == -EAGAIN, "somebody waits for three");
    sim_cancel(sim, waiter);
    sim_run(sim, 3 * TENTH_US);
    unit_expect(sim_try(sim, 1) == 0 && sim_try(sim, 2) == 0 && sim_try(sim, 1) == -EAGAIN, "three");
}
END_TEST

START_TEST(in_unfair_mode_a_newcomer_may_pass_and_the_first_is_not_starved)
{
    struct sim *sim = steps(10, 1, 10 * MILLISECOND_US, 0, TUNDISH_UNFAIR);
    unsigned first = sim_begin(sim, 2, SIM_NEVER);
    for (unsigned i = 0; i < 8; i++)
        sim_loop(sim, 1, 1);
    sim_pass(sim, SECOND_US);
    expect_ended(sim, first, 20 * MILLISECOND_US);
    unit_expect(sim->granted >= 100, "%" PRIu64 " of 100", sim->granted);
    unit_expect(sim_fairness(sim) > 0.99, "fairness %f", sim_fairness(sim));
}
END_TEST

START_TEST(dropping_a_giant_frees_those_it_blocked_at_once)
{
    struct sim *sim = steps(10000, 10, 10 * MILLISECOND_US, 0, 0);
    unsigned giant = sim_begin(sim, 10000, SIM_NEVER);
    for (unsigned i = 0; i < 10; i++)
        sim_begin(sim, 10, SIM_NEVER);
    sim_run(sim, SECOND_US);
    unit_expect(sim->grants == 0, "they passed the giant");
    sim_cancel(sim, giant);
    sim_pass(sim, 10 * MILLISECOND_US);
    unit_expect(sim->grants == 10, "%u of 10", sim->grants);
}
END_TEST

START_TEST(who_is_next_hears_of_a_departure_whoever_else_leaves)
{
    for (unsigned leaver = 2; leaver <= 4; leaver++) {
        struct sim *sim = steps(1000, 1, 10 * MILLISECOND_US, 0, 0);
        unsigned first = sim_begin(sim, 1000, SIM_NEVER);
        for (unsigned i = 1; i <= 4; i++)
            sim_begin(sim, 10, SIM_NEVER);
        sim_run(sim, SECOND_US / 2 + 3);
        sim_cancel(sim, first);
        sim_cancel(sim, leaver); /* before anybody had time to move */
        sim_pass(sim, 5);
        for (unsigned i = 1; i <= 4; i++)
            unit_expect(i == leaver || sim->waiter[i].state == SIM_DONE, "waiter %u when %u leaves", i,
                        leaver);
    }
}
END_TEST

START_TEST(a_hundred_with_ten_acquires_each_keep_to_the_rate)
{
    struct sim *sim = steps(100, 100, 200 * MILLISECOND_US, 0, 0);
    for (unsigned i = 0; i < 100; i++)
        sim_loop(sim, 1, 1);
    uint64_t at_us = 0;
    while (sim->grants < 1000 && at_us < 10 * SECOND_US)
        sim_run(sim, at_us += MILLISECOND_US);
    unit_expect(at_us >= 2 * SECOND_US && at_us <= 2 * SECOND_US + 2 * TDI_QUEUE_DOOR_US, "%" PRIu64 " us",
                at_us);
}
END_TEST

START_TEST(the_largest_numbers_work)
{
    struct sim *sim = steps(TUNDISH_CAPACITY_MAX, UINT32_MAX, TENTH_US, 0, TUNDISH_STRICT);
    sim_begin(sim, TUNDISH_CAPACITY_MAX, SIM_NEVER);
    sim_begin(sim, TUNDISH_CAPACITY_MAX - 1, SIM_NEVER);
    sim_begin(sim, 2, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    expect_ended(sim, 0, TENTH_US);
    expect_ended(sim, 1, 2 * TENTH_US);
    expect_ended(sim, 2, 3 * TENTH_US);
    unsigned all = sim_begin(sim, UINT32_MAX, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    unit_expect(sim->waiter[all].state == SIM_DONE, "2^32 - 1 in three steps");
}
END_TEST

START_TEST(eight_loops_share_evenly_at_any_refill)
{
    for (uint32_t refill = 1; refill <= 8; refill *= 2) {
        for (int thinks = 0; thinks < 2; thinks++) {
            struct sim *sim = steps(10, refill, 10 * MILLISECOND_US, 0, 0);
            for (unsigned i = 0; i < 8; i++)
                sim_loop(sim, 1, thinks && refill < 8 ? 3 * MILLISECOND_US : 1);
            sim_pass(sim, 4 * SECOND_US);
            unit_expect(sim_fairness(sim) > 0.999, "refill %" PRIu32 ": fairness %f", refill,
                        sim_fairness(sim));
            unit_expect(sim->granted + 2 >= 400 * refill, "refill %" PRIu32 ": %" PRIu64, refill,
                        sim->granted);
        }
    }
}
END_TEST

START_TEST(short_intervals_deliver_everything_to_late_wakers)
{
    const struct {
        uint32_t refill;
        uint64_t interval_us;
    } cases[] = {{1, 1000}, {10, 1000}, {1000, 1000}, {1, 3000}, {1, 1500}, {10, 1999}, {1, 100999}};
    for (size_t i = 0; i < PROC_LEN(cases); i++) {
        struct sim *sim = steps(cases[i].refill, cases[i].refill, cases[i].interval_us, 0, 0);
        sim->late_us = 1000;
        for (unsigned k = 0; k < 8; k++)
            sim_loop(sim, 1 + cases[i].refill / 4, 1);
        sim_pass(sim, 5 * SECOND_US);
        uint64_t due = tdi_rate_due(&sim->config, 0, sim->now_us);
        unit_expect(sim->granted + 8 * cases[i].refill >= due && sim->granted <= due + cases[i].refill,
                    "case %zu: %" PRIu64 " of %" PRIu64, i, sim->granted, due);
        unit_expect(sim->clamped == 0, "case %zu: %" PRIu64 " lost", i, sim->clamped);
    }
}
END_TEST

START_TEST(a_stall_of_everybody_loses_nothing_that_fits)
{
    struct sim *sim = steps(60, 1, TENTH_US, 0, 0);
    for (unsigned i = 0; i < 4; i++)
        sim_loop(sim, 1, 1);
    sim_run(sim, SECOND_US);
    uint64_t granted = sim->granted;
    for (unsigned i = 0; i < 4; i++)
        sim_stop(sim, i);
    sim_run(sim, 6 * SECOND_US);
    for (unsigned i = 0; i < 4; i++)
        sim_continue(sim, i);
    sim_pass(sim, MILLISECOND_US);
    unit_expect(sim->granted - granted == 50, "%" PRIu64 " of 50", sim->granted - granted);
}
END_TEST

/* In real time. */

static struct tundish *real(uint32_t capacity, uint32_t refill, uint64_t interval_us, uint32_t initial,
                            uint32_t flags)
{
    struct tundish_options options = proc_options(capacity, refill, interval_us);
    options.initial = initial;
    options.flags = flags;
    return proc_create_private(&options);
}

static uint64_t since(uint64_t start_ns)
{
    return tundish_now_ns() - start_ns;
}

START_TEST(real_refills_take_their_intervals)
{
    uint64_t start_ns = tundish_now_ns();
    struct tundish *bucket = real(10, 1, 20000, 5, TUNDISH_STEPPED);
    uint64_t made_ns = tundish_now_ns();
    kit_expect(tundish_acquire(bucket, 10) == 0, "10 of 5");
    kit_expect(since(start_ns) >= 100 * MS_NS && since(made_ns) < 100 * MS_NS + LATE_NS, "%llu ms",
               (unsigned long long)(since(made_ns) / MS_NS));
    kit_expect(tundish_acquire(bucket, 25) == 0, "25 of 0, capacity 10");
    kit_expect(since(start_ns) >= 600 * MS_NS && since(made_ns) < 600 * MS_NS + LATE_NS, "%llu ms",
               (unsigned long long)(since(made_ns) / MS_NS));
    tundish_close(bucket);
}
END_TEST

struct crowd {
    struct tundish *bucket;
    uint32_t n;
    unsigned times;
    uint64_t end_ns;
    _Atomic(uint64_t) granted;
};

static void *acquire_times(void *argument)
{
    struct crowd *crowd = argument;
    for (unsigned i = 0; i < crowd->times && tundish_now_ns() < crowd->end_ns; i++) {
        int error = tundish_acquire_for(crowd->bucket, crowd->n, LONG_NS);
        kit_expect(error == 0, "%s", tundish_strerror(error));
        atomic_fetch_add(&crowd->granted, crowd->n);
    }
    return NULL;
}

static void run_crowd(struct crowd *crowd, unsigned threads)
{
    pthread_t thread[100];
    for (unsigned i = 0; i < threads; i++)
        kit_expect(pthread_create(&thread[i], NULL, acquire_times, crowd) == 0, "no thread");
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

START_TEST(a_hundred_threads_never_wait_for_what_is_there)
{
    for (int unfair = 0; unfair < 2; unfair++) {
        struct crowd crowd = {.bucket =
                                  real(10000, 1, TUNDISH_INTERVAL_US_MAX, 10000, unfair ? TUNDISH_UNFAIR : 0),
                              .n = 1,
                              .times = 100,
                              .end_ns = UINT64_MAX};
        run_crowd(&crowd, 100);
        kit_expect(atomic_load(&crowd.granted) == 10000, "granted");
        kit_expect(tundish_available(crowd.bucket) == 0, "left");
        kit_expect(proc_info(crowd.bucket).waiting == 0, "in line");
        tundish_close(crowd.bucket);
    }
}
END_TEST

START_TEST(ten_threads_get_ten_times_ten)
{
    struct crowd crowd = {
        .bucket = real(20, 100, 50000, 0, TUNDISH_STEPPED), .n = 10, .times = 10, .end_ns = UINT64_MAX};
    uint64_t start_ns = tundish_now_ns();
    run_crowd(&crowd, 10);
    kit_expect(atomic_load(&crowd.granted) == 1000, "granted");
    kit_expect(since(start_ns) < 10 * KIT_SECOND, "%llu ms", (unsigned long long)(since(start_ns) / MS_NS));
    tundish_close(crowd.bucket);
}
END_TEST

START_TEST(intervals_of_a_millisecond_are_delivered)
{
    double best = 0;
    for (int round = 0; round < 3 && best < 0.99; round++) {
        struct crowd crowd = {.bucket = real(1, 1, 1000, 0, TUNDISH_STEPPED), .n = 1, .times = UINT32_MAX};
        uint64_t start_ns = tundish_now_ns();
        crowd.end_ns = start_ns + KIT_SECOND;
        run_crowd(&crowd, 8);
        double got = (double)atomic_load(&crowd.granted) * 1e6 / (double)since(start_ns);
        printf("one token a millisecond, eight threads: %.2f %%\n", 100 * got);
        best = got > best ? got : best;
        kit_expect(got < 1.02, "%f", got);
        tundish_close(crowd.bucket);
    }
    kit_expect(best > 0.8, "%f of the tokens at best", best);
}
END_TEST

static int loop_alone(unsigned index, void *shared)
{
    struct crowd *crowd = (struct crowd *)shared + index;
    acquire_times(crowd);
    return 0;
}

START_TEST(eight_processes_that_loop_share_evenly)
{
    double best = 0;
    for (int round = 0; round < 3 && best < 0.99; round++) {
        struct crowd *crowd = kit_shared_new(8 * sizeof *crowd);
        struct tundish *bucket = real(10, 1, 4000, 0, TUNDISH_STEPPED);
        for (unsigned i = 0; i < 8; i++)
            crowd[i] = (struct crowd){
                .bucket = bucket, .n = 1, .times = UINT32_MAX, .end_ns = tundish_now_ns() + KIT_SECOND};
        kit_collect(kit_spawn(8, loop_alone, crowd), LONG_NS);
        double sum = 0, squares = 0;
        for (unsigned i = 0; i < 8; i++) {
            double got = (double)atomic_load(&crowd[i].granted);
            sum += got;
            squares += got * got;
        }
        best = sum * sum / (8 * squares) > best ? sum * sum / (8 * squares) : best;
        tundish_close(bucket);
    }
    kit_expect(best >= 0.99, "Jain's index is %f at best", best);
}
END_TEST

START_TEST(real_numbers_may_be_as_large_as_they_go)
{
    struct tundish *bucket =
        real(TUNDISH_CAPACITY_MAX, UINT32_MAX, 20000, 0, TUNDISH_STEPPED | TUNDISH_STRICT);
    uint64_t start_ns = tundish_now_ns();
    kit_expect(tundish_acquire_for(bucket, TUNDISH_CAPACITY_MAX, LONG_NS) == 0, "2^31 - 1");
    kit_expect(tundish_acquire_for(bucket, UINT32_MAX, LONG_NS) == 0, "2^32 - 1");
    kit_expect(since(start_ns) >= 55 * MS_NS && since(start_ns) < 80 * MS_NS + LATE_NS, "%llu ms",
               (unsigned long long)(since(start_ns) / MS_NS));
    tundish_close(bucket);
}
END_TEST

static Suite *parity(void)
{
    Suite *suite = suite_create("parity");

    TCase *amounts = unit_case(suite, "amounts");
    tcase_add_test(amounts, what_is_there_initially_is_free_and_the_rest_waits_for_the_interval);
    tcase_add_test(amounts, five_initial_and_ten_needed_take_five_intervals);
    tcase_add_test(amounts, the_first_refill_comes_one_interval_after_creation_not_after_first_use);
    tcase_add_test(amounts, one_by_one_at_one_per_interval_takes_an_interval_each);
    tcase_add_test(amounts, each_refill_serves_as_many_as_it_has_tokens_for);
    tcase_add_test(amounts, more_than_the_capacity_is_gathered);
    tcase_add_test(amounts, seven_three_and_ten_of_five_per_interval);
    tcase_add_test(amounts, idling_gives_everything_up_to_the_capacity_and_keeps_the_phase);
    tcase_add_test(amounts, a_try_takes_what_is_there);
    tcase_add_test(amounts, the_largest_numbers_work);

    TCase *others = unit_case(suite, "others");
    tcase_add_test(others, a_try_does_not_pass_who_waits);
    tcase_add_test(others, in_unfair_mode_a_newcomer_may_pass_and_the_first_is_not_starved);
    tcase_add_test(others, dropping_a_giant_frees_those_it_blocked_at_once);
    tcase_add_test(others, who_is_next_hears_of_a_departure_whoever_else_leaves);
    tcase_add_test(others, a_hundred_with_ten_acquires_each_keep_to_the_rate);
    tcase_add_test(others, eight_loops_share_evenly_at_any_refill);
    tcase_add_test(others, short_intervals_deliver_everything_to_late_wakers);
    tcase_add_test(others, a_stall_of_everybody_loses_nothing_that_fits);

    TCase *reality = kit_case(suite, "reality");
    tcase_add_test(reality, real_refills_take_their_intervals);
    tcase_add_test(reality, a_hundred_threads_never_wait_for_what_is_there);
    tcase_add_test(reality, ten_threads_get_ten_times_ten);
    tcase_add_test(reality, intervals_of_a_millisecond_are_delivered);
    tcase_add_test(reality, eight_processes_that_loop_share_evenly);
    tcase_add_test(reality, real_numbers_may_be_as_large_as_they_go);
    return suite;
}

KIT_MAIN(parity)
