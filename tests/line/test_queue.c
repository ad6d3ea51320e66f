/* SPDX-License-Identifier: MIT */
/* The core's line on a simulated clock: rate, order, books, deaths. No sleeping, no threads: see sim.h. */
#include <errno.h>
#include <stdio.h>
#include <tundish/tundish.h>

#include "core/bucket.h"
#include "core/slots.h"
#include "line/sim.h"

#define START_US (7 * SECOND_US)
#define LEN(array) (sizeof(array) / sizeof(array)[0])

static struct sim *start(uint32_t capacity, uint32_t per_second, uint32_t tokens, uint32_t flags)
{
    struct tdi_config config = unit_config(capacity, per_second, SECOND_US, flags);
    return sim_start(&config, tokens, START_US);
}

static void expect_done(const struct sim *sim, unsigned i, uint64_t least_us, uint64_t most_us)
{
    const struct sim_waiter *waiter = &sim->waiter[i];
    unit_expect(waiter->state == SIM_DONE, "waiter %u is not done", i);
    uint64_t took_us = waiter->ended_us - waiter->began_us;
    unit_expect(took_us >= least_us && took_us <= most_us,
                "waiter %u took %" PRIu64 " us instead of %" PRIu64 " to %" PRIu64, i, took_us, least_us,
                most_us);
}

/* The books of a whole run in which nobody died in a step. */
static void expect_exact_books(const struct sim *sim)
{
    uint64_t drawn = 0;
    for (unsigned i = 0; i < sim->count; i++)
        drawn += sim->waiter[i].line.drawn;
    uint64_t seen = sim->granted + drawn + sim_tokens(sim) + sim->clamped;
    unit_expect(seen == sim_generated(sim), "%" PRIu64 " tokens generated, %" PRIu64 " accounted for",
                sim_generated(sim), seen);
}

/* Nothing was minted, whoever died where. Who is within a step may have given back what its books still have. */
static void expect_nothing_minted(const struct sim *sim)
{
    uint64_t drawn = 0;
    for (unsigned i = 0; i < sim->count; i++)
        drawn += sim->waiter[i].in_step ? 0 : sim->waiter[i].line.drawn;
    unit_expect(sim->granted + drawn + sim_tokens(sim) <= sim_generated(sim),
                "%" PRIu64 " tokens generated, %" PRIu64 " granted, %" PRIu64 " drawn, %" PRIu64 " left",
                sim_generated(sim), sim->granted, drawn, sim_tokens(sim));
}

static void expect_empty_line(const struct sim *sim)
{
    unit_expect(sim_waiting(sim) == 0, "%" PRIu32 " are still in line", sim_waiting(sim));
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++)
        unit_expect(tdi_queue_holder(sim->file, i) == 0, "slot %" PRIu32 " is not free", i);
}

/* Rate and fairness. */

static const unsigned crowds[] = {1, 2, 3, 8, 32, 64};

START_TEST(punctual_waiters_get_every_token_with_one_sleep_each)
{
    const uint32_t rates[] = {100, 1000, 10000};
    for (size_t r = 0; r < LEN(rates); r++) {
        unsigned crowd = crowds[_i];
        struct sim *sim = start(1, rates[r], 0, 0);
        for (unsigned i = 0; i < crowd; i++)
            sim_loop(sim, 1, 1);
        sim_pass(sim, 4 * SECOND_US);
        uint64_t due = tdi_rate_due(&sim->config, START_US, sim->now_us);
        uint32_t sleeps = 0;
        for (unsigned i = 0; i < crowd; i++)
            sleeps += sim->waiter[i].sleeps;
        unit_expect(sim->granted == due, "%" PRIu64 " of %" PRIu64 " granted", sim->granted, due);
        unit_expect(sim->clamped == 0, "%" PRIu64 " lost", sim->clamped);
        for (unsigned i = 1; i < crowd; i++)
            unit_expect(sim->waiter[i].grants + 1 >= sim->waiter[0].grants &&
                            sim->waiter[i].grants <= sim->waiter[0].grants + 1,
                        "waiter %u got %" PRIu32 ", the first %" PRIu32, i, sim->waiter[i].grants,
                        sim->waiter[0].grants);
        if ((crowd + 1) * SECOND_US / rates[r] < TDI_QUEUE_POLL_US * crowd)
            unit_expect(sleeps >= sim->grants && sleeps <= sim->grants + crowd,
                        "%" PRIu32 " sleeps for %u grants", sleeps, sim->grants);
        /* All came in one microsecond, and the word takes one of them each. */
        unit_expect(sim->steps <= 3 * (uint64_t)sleeps + crowd * crowd,
                    "%" PRIu64 " steps for %" PRIu32 " sleeps", sim->steps, sleeps);
        unit_expect(sim->bells == 0, "%" PRIu64 " bells were rung for nothing", sim->bells);
        unit_expect(sim->evictions == 0, "%" PRIu64 " evictions", sim->evictions);
        expect_exact_books(sim);
    }
}
END_TEST

START_TEST(waiters_up_to_10_ms_late_still_get_every_token)
{
    const struct {
        uint32_t rate, late_us, crowd;
        bool always;
    } cases[] = {{1000, 9900, 64, false}, {1000, 9900, 64, true}, {1000, 5000, 16, false},
                 {100, 9900, 3, true},    {3000, 9900, 64, true}, {10000, 2000, 64, false},
                 {10000, 100, 8, true},   {5000, 9900, 64, true}};
    for (size_t i = 0; i < LEN(cases); i++) {
        struct sim *sim = start(1, cases[i].rate, 0, 0);
        sim->late_us = cases[i].late_us;
        sim->always_late = cases[i].always;
        for (unsigned k = 0; k < cases[i].crowd; k++)
            sim_loop(sim, 1, 1);
        sim_pass(sim, 4 * SECOND_US);
        uint64_t due = tdi_rate_due(&sim->config, START_US, sim->now_us);
        uint64_t slack = (uint64_t)cases[i].rate * cases[i].late_us / SECOND_US + 1;
        unit_expect(sim->clamped == 0, "case %zu: %" PRIu64 " of %" PRIu64 " lost", i, sim->clamped, due);
        unit_expect(sim->granted + slack >= due, "case %zu: %" PRIu64 " of %" PRIu64 " granted", i,
                    sim->granted, due);
        unit_expect(sim_fairness(sim) > 0.99, "case %zu: fairness %f", i, sim_fairness(sim));
        expect_exact_books(sim);
    }
}
END_TEST

START_TEST(a_strict_bucket_never_holds_more_than_its_capacity)
{
    for (uint32_t capacity = 1; capacity <= 16; capacity *= 4) {
        struct sim *sim = start(capacity, 1000, capacity, TUNDISH_STRICT);
        sim->late_us = 20000;
        for (unsigned k = 0; k < 8; k++)
            sim_loop(sim, 1 + k % 3 % capacity, 1 + 1000 * k);
        for (unsigned ms = 0; ms < 3000; ms++) {
            sim_pass(sim, MILLISECOND_US);
            unit_expect(tdi_bucket_available(sim->file, sim->now_us) <= capacity &&
                            sim_tokens(sim) <= capacity,
                        "%" PRIu64 " tokens of %" PRIu32, sim_tokens(sim), capacity);
            unit_expect(sim->granted <= capacity + ms + 1, "%" PRIu64 " granted in %u ms", sim->granted, ms);
        }
        expect_exact_books(sim);
    }
}
END_TEST

START_TEST(stepped_refills_come_at_the_end_of_each_interval)
{
    struct tdi_config config = unit_config(10, 2, 100 * MILLISECOND_US, TUNDISH_STEPPED);
    struct sim *sim = sim_start(&config, 0, 0);
    for (unsigned i = 0; i < 7; i++)
        sim_begin(sim, 1, SIM_NEVER);
    sim_run(sim, SECOND_US);
    for (unsigned i = 0; i < 7; i++) {
        unit_expect(sim->waiter[i].state == SIM_DONE, "waiter %u", i);
        unit_expect(sim->waiter[i].ended_us == (i / 2 + 1) * 100 * MILLISECOND_US,
                    "waiter %u was served at %" PRIu64, i, sim->waiter[i].ended_us);
    }
    expect_exact_books(sim);
}
END_TEST

/* Order. */

/* A crowd that comes one by one, with needs from 1 to the capacity, expecting to leave in that order. */
static void queue_up_and_leave_in_order(struct sim *sim, unsigned crowd)
{
    uint64_t needed = 0;
    for (unsigned i = 0; i < crowd; i++) {
        uint32_t n = (uint32_t)unit_between(1, sim->config.capacity);
        needed += n;
        unsigned made = sim_begin(sim, n, SIM_NEVER);
        sim_pass(sim, unit_between(1, 300));
        unit_expect(made == i, "numbering");
    }
    sim_pass(sim, (needed + 1) * SECOND_US / sim->config.refill + SECOND_US);
    for (unsigned i = 0; i < crowd; i++)
        unit_expect(sim->waiter[i].order == i + 1, "waiter %u was served as number %u of %u", i,
                    sim->waiter[i].order, crowd);
    expect_empty_line(sim);
    unit_expect(!sim_is_queued(sim), "Q is still set");
    expect_exact_books(sim);
    unit_expect(sim->evictions == 0, "%" PRIu64 " evictions", sim->evictions);
}

START_TEST(waiters_are_served_in_order_of_arrival)
{
    for (unsigned round = 0; round < 40; round++) {
        struct sim *sim = start((uint32_t)unit_between(1, 20), (uint32_t)unit_log_between(10, 100000), 0, 0);
        queue_up_and_leave_in_order(sim, (unsigned)unit_between(1, 64));
    }
}
END_TEST

START_TEST(tickets_and_times_may_wrap)
{
    const uint64_t starts[] = {UINT64_C(1) << 30, UINT64_C(1) << 31, UINT64_C(1) << 32,
                               UINT64_C(3) << 31, UINT64_C(1) << 40, (UINT64_C(1) << 51)};
    const uint32_t tickets[] = {UINT32_MAX - 20, INT32_MAX - 20, UINT32_MAX};
    for (size_t s = 0; s < LEN(starts); s++) {
        for (size_t t = 0; t < LEN(tickets); t++) {
            struct tdi_config config = unit_config(5, 1000, SECOND_US, 0);
            struct sim *sim = sim_start(&config, 0, starts[s] - unit_between(0, 30000));
            atomic_store(&sim->file->line.ticket, tickets[t]);
            queue_up_and_leave_in_order(sim, 50);
            unit_expect(sim->waiter[49].line.owner == 50, "owner");
        }
    }
}
END_TEST

START_TEST(late_waiters_never_take_what_those_before_them_need)
{
    /* The simulator checks each draw. */
    for (unsigned round = 0; round < 60; round++) {
        uint32_t capacity = (uint32_t)unit_between(1, 12);
        struct sim *sim = start(capacity, (uint32_t)unit_log_between(100, 10000), 0, 0);
        sim->late_us = unit_log_between(1, 12000);
        for (unsigned i = 0; i < 40; i++) {
            struct sim_waiter *waiter = sim_add(sim, 1);
            waiter->most_n = capacity + 3;
            waiter->again_us = unit_between(1, 30000);
            waiter->patience_us = unit_chance(3) ? unit_between(1, 60000) : SIM_NEVER;
            waiter->at_us = sim->now_us + unit_between(0, 50000);
        }
        sim_pass(sim, SECOND_US);
        expect_exact_books(sim);
        unit_expect(sim->evictions == 0 || sim->late_us > TDI_QUEUE_SOFT_US, "evictions");
    }
}
END_TEST

START_TEST(a_try_behind_a_line_passes_only_if_it_delays_nobody)
{
    struct sim *sim = start(10, 1000, 4, 0);
    sim->late_us = 3000;
    sim->always_late = true;
    unsigned waiter = sim_begin(sim, 10, SIM_NEVER);
    unit_expect(sim_try(sim, 1) == -EAGAIN, "a try passed the line");
    unit_expect(tdi_bucket_available(sim->file, sim->now_us) == 0, "the line's tokens are on offer");
    sim_run(sim, START_US + 6000);
    unit_expect(sim_try(sim, 1) == -EAGAIN, "a try took what the first in line was about to draw");
    sim_run(sim, START_US + 8000);
    unit_expect(tdi_bucket_available(sim->file, sim->now_us) == 2, "two tokens are spare");
    unit_expect(sim_try(sim, 3) == -EAGAIN, "three of two");
    unit_expect(sim_try(sim, 2) == 0, "there are enough for both");
    unit_expect(sim->waiter[waiter].state == SIM_ASLEEP, "the waiter is late");
    sim_pass(sim, 1100);
    expect_done(sim, waiter, 6000, 9010);
    unit_expect(sim->waiter[waiter].sleeps == 1, "%" PRIu32 " sleeps", sim->waiter[waiter].sleeps);
    expect_exact_books(sim);
}
END_TEST

START_TEST(in_unfair_mode_newcomers_pass_and_the_first_keeps_what_it_finds)
{
    struct sim *sim = start(10, 1000, 0, TUNDISH_UNFAIR);
    unsigned first = sim_begin(sim, 8, SIM_NEVER);
    unsigned second = sim_begin(sim, 2, SIM_NEVER);
    uint32_t passed = 0;
    for (unsigned i = 0; i < 40; i++) {
        sim_pass(sim, 499);
        passed += sim_try(sim, 1) == 0;
    }
    unit_expect(passed > 3, "only %" PRIu32 " newcomers passed", passed);
    sim_pass(sim, SECOND_US);
    expect_done(sim, first, 8000, 40000);
    expect_done(sim, second, 9000, 60000);
    unit_expect(sim->waiter[first].order < sim->waiter[second].order, "the line itself is in order");
    expect_exact_books(sim);
    expect_empty_line(sim);
}
END_TEST

/* Large requests. */

START_TEST(requests_beyond_the_capacity_are_complete_in_time)
{
    for (uint32_t factor = 2; factor <= 20; factor++) {
        for (uint32_t capacity = 1; capacity <= 100; capacity *= 10) {
            struct sim *sim = start(capacity, 1000, 0, 0);
            unsigned big = sim_begin(sim, factor * capacity, SIM_NEVER);
            unsigned behind = sim_begin(sim, 1, SIM_NEVER);
            uint64_t time_us = factor * capacity * MILLISECOND_US;
            sim_pass(sim, time_us + SECOND_US);
            expect_done(sim, big, time_us, time_us + 2);
            expect_done(sim, behind, time_us + 998, time_us + 1002);
            expect_exact_books(sim);
        }
    }
}
END_TEST

START_TEST(late_wakers_do_not_slow_large_requests_down)
{
    for (uint32_t factor = 2; factor <= 20; factor += 3) {
        struct sim *sim = start(5, 1000, 0, 0);
        sim->late_us = 9000;
        sim_begin(sim, factor * 5, SIM_NEVER);
        sim_begin(sim, factor * 5, SIM_NEVER);
        uint64_t time_us = factor * 5 * MILLISECOND_US;
        sim_pass(sim, 2 * time_us + SECOND_US);
        expect_done(sim, 0, time_us, time_us + 9100);
        expect_done(sim, 1, 2 * time_us - 5000, 2 * time_us + 9100);
        expect_exact_books(sim);
    }
}
END_TEST

START_TEST(a_need_of_more_than_31_bits_counts_for_those_behind)
{
    struct sim *sim = start(1000, 1000, 0, 0);
    sim_begin(sim, UINT32_C(1) << 31, SIM_NEVER);
    unsigned behind = sim_begin(sim, 1, SIM_NEVER);
    sim_pass(sim, SECOND_US / 2);
    unit_expect(sim->waiter[behind].state == SIM_ASLEEP, "it passed one who needs 2^31 tokens");
}
END_TEST

/* Leaving. */

START_TEST(a_timeout_is_exact_and_gives_everything_back)
{
    for (uint32_t n = 5; n <= 100; n += 5) {
        struct sim *sim = start(10, 100, 0, 0);
        unsigned waiter = sim_begin(sim, n, 45 * MILLISECOND_US);
        sim_pass(sim, SECOND_US / 10);
        unit_expect(sim->waiter[waiter].state == SIM_TIMED_OUT, "n %" PRIu32, n);
        unit_expect(sim->waiter[waiter].ended_us - START_US <= 45 * MILLISECOND_US + 2, "late");
        sim_pass(sim, 0);
        unit_expect(tdi_bucket_available(sim->file, sim->now_us) == 10, "n %" PRIu32 ": %" PRIu32, n,
                    tdi_bucket_available(sim->file, sim->now_us));
        expect_exact_books(sim);
        expect_empty_line(sim);
    }
}
END_TEST

START_TEST(a_large_request_that_times_out_gives_its_pieces_back)
{
    struct sim *sim = start(10, 1000, 0, 0);
    unsigned waiter = sim_begin(sim, 35, 23 * MILLISECOND_US);
    sim_run(sim, START_US + 22 * MILLISECOND_US);
    unit_expect(sim->waiter[waiter].line.drawn == 20, "%" PRIu32 " drawn", sim->waiter[waiter].line.drawn);
    sim_pass(sim, 2 * MILLISECOND_US);
    unit_expect(sim->waiter[waiter].state == SIM_TIMED_OUT, "not timed out");
    unit_expect(sim_tokens(sim) == 10, "%" PRIu64 " tokens", sim_tokens(sim));
    unit_expect(sim->clamped == 13, "%" PRIu64 " clamped", sim->clamped);
    expect_exact_books(sim);
}
END_TEST

START_TEST(cancelling_is_fine_in_every_state)
{
    struct sim *sim = start(10, 100, 3, 0);
    unsigned pieces = sim_begin(sim, 25, SIM_NEVER);
    sim_pass(sim, 80 * MILLISECOND_US);
    unit_expect(sim->waiter[pieces].line.drawn == 10, "%" PRIu32 " drawn", sim->waiter[pieces].line.drawn);
    unsigned plain = sim_begin(sim, 5, SIM_NEVER);
    unsigned evicted = sim_begin(sim, 5, SIM_NEVER);
    unsigned done = (unsigned)(sim_add(sim, 1) - sim->waiter); /* never begun */
    sim_evict(sim, evicted);
    sim_cancel(sim, evicted);
    sim_cancel(sim, plain);
    sim_cancel(sim, done);
    sim_evict(sim, pieces);
    sim_cancel(sim, pieces);
    expect_exact_books(sim);
    expect_empty_line(sim);
    unit_expect(sim_tokens(sim) == 10, "%" PRIu64 " tokens", sim_tokens(sim));
    unsigned quick = sim_begin(sim, 10, SIM_NEVER);
    unit_expect(sim->waiter[quick].state == SIM_DONE, "10 of 10");
    sim_cancel(sim, quick);
    unit_expect(sim_tokens(sim) == 0, "what was granted stays acquired");
}
END_TEST

START_TEST(a_departure_lets_those_behind_move_up_at_once)
{
    struct sim *sim = start(50, 10, 0, 0);
    unsigned first = sim_begin(sim, 50, SIM_NEVER);
    unsigned second = sim_begin(sim, 1, SIM_NEVER);
    unsigned third = sim_begin(sim, 5, SIM_NEVER);
    unsigned fourth = sim_begin(sim, 40, SIM_NEVER);
    sim_run(sim, START_US + SECOND_US + 10 * MILLISECOND_US);
    uint64_t bells = sim->bells;
    unit_expect(bells == 0, "%" PRIu64 " bells while nobody left", bells);
    sim_cancel(sim, first);
    sim_pass(sim, 3);
    unit_expect(sim->waiter[second].state == SIM_DONE && sim->waiter[third].state == SIM_DONE,
                "tokens for both are there");
    unit_expect(sim->waiter[fourth].state == SIM_ASLEEP, "there are not enough for this one");
    /* One for the second, whose departure rings the third; the fourth wakes up before it is due as it is. */
    unit_expect(sim->bells == 2, "%" PRIu64 " bells", sim->bells);
    sim_pass(sim, 4 * SECOND_US);
    expect_done(sim, fourth, 4590 * MILLISECOND_US, 4601 * MILLISECOND_US);
    expect_exact_books(sim);
}
END_TEST

START_TEST(a_departure_that_changes_nothing_wakes_nobody)
{
    struct sim *sim = start(50, 1000, 0, 0);
    sim_begin(sim, 4, SIM_NEVER);
    sim_begin(sim, 4, SIM_NEVER);
    unsigned last = sim_begin(sim, 4, SIM_NEVER);
    sim_pass(sim, 500);
    sim_cancel(sim, last);
    unit_expect(sim->bells == 0, "%" PRIu64 " bells", sim->bells);
    sim_pass(sim, 8 * MILLISECOND_US);
    unit_expect(sim->grants == 2 && sim->bells == 0, "%u grants, %" PRIu64 " bells", sim->grants, sim->bells);
}
END_TEST

START_TEST(given_back_tokens_serve_the_first_in_line_at_once)
{
    struct tdi_config config = unit_config(100, 1, HOUR_US, 0);
    struct sim *sim = sim_start(&config, 0, START_US);
    for (unsigned i = 0; i < 10; i++)
        sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, 5 * SECOND_US);
    sim_release(sim, 35);
    sim_pass(sim, 5);
    unit_expect(sim->grants == 3, "%u were served by 35 tokens", sim->grants);
    sim_release(sim, 5);
    sim_pass(sim, 5);
    unit_expect(sim->grants == 4, "%u were served by 40 tokens", sim->grants);
    for (unsigned i = 0; i < 4; i++)
        unit_expect(sim->waiter[i].order == i + 1, "order");
    expect_exact_books(sim);
}
END_TEST

START_TEST(an_empty_line_leaves_no_more_than_the_capacity_to_a_burst)
{
    /* After a timeout nobody has cleared Q yet; the next caller comes after a long idle time. */
    struct sim *sim = start(5, 1000, 0, _i ? TUNDISH_UNFAIR : 0);
    sim_begin(sim, 5, MILLISECOND_US);
    for (unsigned burst = 0; burst < 3; burst++) {
        sim_pass(sim, SECOND_US);
        unsigned got = 0;
        while (sim_try(sim, 1) == 0)
            got++;
        unit_expect(got <= 5, "burst %u of an idle bucket of 5 was %u", burst, got);
    }
    unit_expect(!sim_is_queued(sim), "Q is still set although nobody waits");
}
END_TEST

/* Deaths. */

START_TEST(a_death_anywhere_delays_others_no_longer_than_it_may)
{
    const bool blind = _i % 2;
    const int point = _i / 2;
    struct sim *sim = start(10, 1000, 0, 0);
    sim->blind = blind;
    struct sim_waiter *victim = sim_add(sim, 10);
    victim->die_at = point;
    if (point == TDI_CRASH_CLIMBED)
        sim->now_us += UINT64_C(3) << 30; /* so long has nobody come by */
    if (point == TDI_CRASH_REFUNDED) {
        victim->n = 20;
        victim->patience_us = 15 * MILLISECOND_US;
    }
    victim->at_us = sim->now_us;
    sim_pass(sim, 2);
    for (unsigned i = 1; i <= 6; i++)
        sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, 5 * SECOND_US);
    unit_expect(victim->state == SIM_DEAD, "point %d was not reached", point);
    /* 60 tokens take 60 ms, and the dead one's need at most once more. */
    uint64_t most_us = (60 + 20) * MILLISECOND_US + 65 * MILLISECOND_US;
    if (blind)
        most_us += TDI_QUEUE_HARD_US;
    for (unsigned i = 1; i <= 6; i++) {
        expect_done(sim, i, 0, most_us);
        unit_expect(sim->waiter[i].order == i, "waiter %u was served as number %u", i, sim->waiter[i].order);
    }
    expect_nothing_minted(sim);
    unit_expect(sim->wrong_evictions == 0, "a living one was evicted");
    /* And at full rate from then on. */
    for (unsigned i = 0; i < 3; i++)
        sim_loop(sim, 10, 1);
    sim_try(sim, (uint32_t)tdi_bucket_available(sim->file, sim->now_us));
    uint64_t granted = sim->granted;
    sim_pass(sim, 2 * SECOND_US);
    unit_expect(sim->granted - granted >= 1980, "%" PRIu64 " of 2000 granted", sim->granted - granted);
    for (unsigned i = 0; i < 3; i++)
        sim_cancel(sim, 7 + i);
    /* Only the blocked ask; who is refused is. */
    while (sim_try(sim, 1) == 0)
        ;
    unit_expect(sim_waiting(sim) == 0, "the dead one is still in line");
}
END_TEST

/* It is not known for dead before the time at which it promised to look again, which is a second at most. */
START_TEST(a_dead_one_in_the_middle_keeps_news_from_those_behind_for_little_more_than_a_second)
{
    struct tdi_config config = unit_config(100, 1, HOUR_US, 0);
    struct sim *sim = sim_start(&config, 0, START_US);
    for (unsigned i = 0; i < 40; i++) {
        sim_begin(sim, 2, SIM_NEVER);
        sim_pass(sim, 100);
    }
    sim_pass(sim, 5 * SECOND_US);
    sim_kill(sim, 20);
    sim_release(sim, 2 * 39);
    uint64_t told_us = sim->now_us;
    while (sim->grants < 39 && sim->now_us < told_us + 5 * SECOND_US)
        sim_pass(sim, MILLISECOND_US);
    unit_expect(sim->now_us <= told_us + SECOND_US + 100 * MILLISECOND_US,
                "%u of 39 living ones were served after %" PRIu64 " ms", sim->grants,
                (sim->now_us - told_us) / MILLISECOND_US);
    expect_exact_books(sim);
}
END_TEST

START_TEST(a_dead_head_with_a_small_need_delays_nobody)
{
    struct sim *sim = start(1, 1000, 0, 0);
    sim->blind = true;
    unsigned ghost = sim_begin(sim, 1, SIM_NEVER);
    sim_pass(sim, 100);
    sim_kill(sim, ghost);
    for (unsigned i = 0; i < 8; i++)
        sim_loop(sim, 1, 1);
    sim_pass(sim, 4 * SECOND_US);
    unit_expect(sim->granted >= 3998, "%" PRIu64 " of 4000 granted", sim->granted);
    expect_exact_books(sim);
}
END_TEST

START_TEST(a_stopped_waiter_loses_its_place_and_gets_the_rest_later)
{
    struct sim *sim = start(10, 1000, 0, 0);
    unsigned stopped = sim_begin(sim, 35, SIM_NEVER);
    unsigned behind = sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, 12 * MILLISECOND_US);
    unit_expect(sim->waiter[stopped].line.drawn == 10, "drawn");
    sim_stop(sim, stopped);
    sim_pass(sim, 5 * SECOND_US);
    expect_done(sim, behind, 0, 2200 * MILLISECOND_US);
    unsigned later = sim_begin(sim, 10, SIM_NEVER);
    unit_expect(sim->waiter[later].state == SIM_DONE, "the bucket is full and nobody waits");
    sim_continue(sim, stopped);
    unit_expect(sim->waiter[stopped].lost_places == 1, "lost its place");
    sim_pass(sim, 25 * MILLISECOND_US + 5);
    unit_expect(sim->waiter[stopped].state == SIM_DONE, "it needed only 25 more");
    expect_exact_books(sim);
}
END_TEST

START_TEST(a_wrongly_evicted_waiter_lines_up_again_with_what_it_still_needs)
{
    for (unsigned ms = 1; ms < 34; ms += 3) {
        struct sim *sim = start(10, 1000, 0, 0);
        unsigned waiter = sim_begin(sim, 35, SIM_NEVER);
        unsigned other = sim_begin(sim, 5, SIM_NEVER);
        sim_pass(sim, ms * MILLISECOND_US);
        sim_evict(sim, waiter);
        uint32_t drawn = sim->waiter[waiter].line.drawn;
        sim_pass(sim, SECOND_US);
        unit_expect(sim->waiter[waiter].state == SIM_DONE && sim->waiter[waiter].line.need == 0, "not done");
        expect_done(sim, waiter, 35 * MILLISECOND_US, 46 * MILLISECOND_US);
        expect_done(sim, other, 4990, 41 * MILLISECOND_US);
        unit_expect(sim->granted == 40, "%" PRIu64 " granted, %" PRIu32 " drawn before", sim->granted, drawn);
        expect_exact_books(sim);
        expect_empty_line(sim);
    }
}
END_TEST

START_TEST(a_scanner_whose_time_is_a_moment_old_takes_nobody_for_dead)
{
    /* Sixty in line; the one before the last has just promised to look again in a second. */
    struct sim *sim = start(100, 1, 0, 0);
    for (unsigned i = 0; i < 60; i++)
        sim_begin(sim, 50, SIM_NEVER);
    for (unsigned stale_us = 1; stale_us <= 100000; stale_us *= 10) {
        struct sim_waiter *last = &sim->waiter[59];
        uint64_t deadline_us = SIM_NEVER;
        sim_pass(sim, SECOND_US);
        struct sim_waiter *before = &sim->waiter[58];
        enum tdi_queue_result armed = tdi_queue_step(sim->file, &before->line, sim->now_us, deadline_us);
        unit_expect(armed == TDI_QUEUE_SLEEP, "the one before sleeps");
        enum tdi_queue_result result =
            tdi_queue_step(sim->file, &last->line, sim->now_us - stale_us, deadline_us);
        unit_expect(result == TDI_QUEUE_SLEEP,
                    "who read the clock %u us ago takes a live one for dead (evicts it at once: %d)",
                    stale_us, last->line.suspect.overdue_hard);
    }
}
END_TEST

START_TEST(the_dead_of_any_age_are_evicted)
{
    for (uint64_t age_us = 0; age_us < UINT64_C(5000) * SECOND_US; age_us += 487 * SECOND_US / 10) {
        struct tdi_config config = unit_config(10, 10, SECOND_US, 0);
        struct sim *sim = sim_start(&config, 0, UINT64_C(9000) * SECOND_US);
        sim->blind = true;
        atomic_store(&sim->file->line.ticket, 100);
        sim_write_ghost(sim, 3, 77, 99, 10, sim->now_us - age_us, age_us % 2);
        atomic_fetch_or(&sim->file->word, TDI_WORD_QUEUED);
        unsigned waiter = sim_begin(sim, 10, SIM_NEVER);
        sim_pass(sim, 6 * SECOND_US);
        expect_done(sim, waiter, SECOND_US, SECOND_US + TDI_QUEUE_HARD_US + TDI_QUEUE_LOOK_US + 50000);
        expect_exact_books(sim);
    }
}
END_TEST

START_TEST(a_ghost_that_never_set_q_does_no_harm)
{
    struct sim *sim = start(10, 1000, 5, 0);
    atomic_store(&sim->file->line.ticket, 100);
    sim_write_ghost(sim, 3, 77, 99, 10, sim->now_us, true);
    unit_expect(sim_try(sim, 5) == 0, "Q is clear: nobody looks");
    sim_pass(sim, 1);
    unsigned waiter = sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    expect_done(sim, waiter, 10 * MILLISECOND_US, 100 * MILLISECOND_US);
    expect_exact_books(sim);
    unit_expect(sim_try(sim, 1) == 0 && sim_is_queued(sim), "the ghost is in line until it is in the way");
}
END_TEST

/* All slots taken. */

START_TEST(who_finds_all_slots_taken_waits_at_the_door)
{
    struct sim *sim = start(10, 1000, 0, 0);
    for (unsigned i = 0; i < 80; i++)
        sim_begin(sim, 1, SIM_NEVER);
    unsigned refused = 0;
    for (unsigned i = 0; i < 80; i++)
        refused += sim->waiter[i].on_door;
    unit_expect(sim_waiting(sim) == TDI_LAYOUT_SLOTS && refused == 80 - TDI_LAYOUT_SLOTS,
                "%" PRIu32 " in line, %u at the door", sim_waiting(sim), refused);
    sim_pass(sim, 120 * MILLISECOND_US);
    unit_expect(sim->grants == 80, "%u of 80 were served in 120 ms", sim->grants);
    expect_exact_books(sim);
    expect_empty_line(sim);
}
END_TEST

START_TEST(a_timeout_at_the_door_is_kept)
{
    struct sim *sim = start(10, 1, 0, 0);
    for (unsigned i = 0; i < 64; i++)
        sim_begin(sim, 1, SIM_NEVER);
    unsigned waiter = sim_begin(sim, 1, 25 * MILLISECOND_US);
    sim_pass(sim, 100 * MILLISECOND_US);
    unit_expect(sim->waiter[waiter].state == SIM_TIMED_OUT, "not timed out");
    unit_expect(sim->waiter[waiter].ended_us - sim->waiter[waiter].began_us <= 35 * MILLISECOND_US, "late");
}
END_TEST

START_TEST(slots_that_the_dead_only_claimed_are_reclaimed_when_all_are_taken)
{
    struct sim *sim = start(10, 1000, 0, 0);
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++)
        atomic_store(&sim->file->line.id[i], tdi_slot_id(500 + i, 0));
    unsigned waiter = sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    expect_done(sim, waiter, 10 * MILLISECOND_US, 30 * MILLISECOND_US);
    expect_empty_line(sim);
}
END_TEST

/* Event loops, and who only looks. */

START_TEST(a_deaf_waiter_is_passed_over_by_bells_and_finds_out_itself)
{
    struct sim *sim = start(50, 10, 0, 0);
    sim->unchecked = true; /* its alarm may be later than its due time */
    unsigned first = sim_begin(sim, 50, SIM_NEVER);
    unsigned deaf = sim_begin_deaf(sim, 10, SIM_NEVER);
    unsigned third = sim_begin(sim, 1, SIM_NEVER);
    sim_pass(sim, 1010 * MILLISECOND_US);
    sim_cancel(sim, first);
    unit_expect(sim->bells <= 1, "%" PRIu64 " bells", sim->bells);
    sim_pass(sim, 100 * MILLISECOND_US);
    expect_done(sim, deaf, SECOND_US, 1060 * MILLISECOND_US);
    sim_pass(sim, 200 * MILLISECOND_US);
    unit_expect(sim->waiter[third].state == SIM_DONE, "the one behind");
    expect_exact_books(sim);
}
END_TEST

START_TEST(a_waiter_that_nobody_polls_delays_others_two_seconds_at_most)
{
    struct sim *sim = start(10, 100, 0, 0);
    unsigned deaf = sim_begin_deaf(sim, 10, SIM_NEVER);
    sim_stop(sim, deaf);
    unsigned other = sim_begin(sim, 10, SIM_NEVER);
    sim_pass(sim, 5 * SECOND_US);
    expect_done(sim, other, 100 * MILLISECOND_US, 2250 * MILLISECOND_US);
    sim_continue(sim, deaf);
    sim_pass(sim, SECOND_US);
    unit_expect(sim->waiter[deaf].state == SIM_DONE, "it lines up again");
    expect_exact_books(sim);
}
END_TEST

START_TEST(the_census_counts_who_is_in_line)
{
    struct sim *sim = start(100, 1, 0, 0);
    struct tdi_queue_census census;
    tdi_queue_count(sim->file, sim->now_us, &census);
    unit_expect(census.waiting == 0 && census.needs == 0 && census.oldest_wait_us == 0, "an empty line");
    sim_begin(sim, 60, SIM_NEVER);
    sim_pass(sim, 3 * SECOND_US);
    sim_begin(sim, 7, SIM_NEVER);
    sim_pass(sim, SECOND_US);
    tdi_queue_count(sim->file, sim->now_us, &census);
    unit_expect(census.waiting == 2 && census.needs == 67, "%" PRIu32 " need %" PRIu64, census.waiting,
                census.needs);
    unit_expect(census.oldest_wait_us >= 4 * SECOND_US && census.oldest_wait_us <= 4 * SECOND_US + 2,
                "%" PRIu64 " us", census.oldest_wait_us);
    sim_cancel(sim, 0);
    tdi_queue_count(sim->file, sim->now_us, &census);
    unit_expect(census.waiting == 1 && census.needs == 7, "%" PRIu32 " need %" PRIu64, census.waiting,
                census.needs);
    unit_expect(census.oldest_wait_us <= SECOND_US + 2, "%" PRIu64 " us", census.oldest_wait_us);
}
END_TEST

/* Everything at once. */

static void add_fuzz_waiter(struct sim *sim, uint32_t most_n)
{
    struct sim_waiter *waiter = sim_add(sim, 1);
    waiter->most_n = most_n;
    waiter->deaf = unit_chance(6);
    waiter->patience_us = unit_chance(3) ? unit_log_between(1, 200000) : SIM_NEVER;
    waiter->again_us = unit_chance(8) ? SIM_NEVER : unit_log_between(500, 50000);
    waiter->at_us = sim->now_us + unit_between(0, 20000);
    if (unit_chance(12))
        waiter->owner = (uint32_t)unit_between(1, sim->count); /* several waiters of one process */
    if (unit_chance(6))
        waiter->die_at = (int)unit_between(0, TDI_CRASH_POINTS - 1);
}

static void meddle(struct sim *sim, uint32_t most_n)
{
    unsigned i = (unsigned)unit_between(0, sim->count - 1);
    struct sim_waiter *waiter = &sim->waiter[i];
    switch (unit_between(0, 9)) {
    case 0:
        if (!waiter->in_step && waiter->state == SIM_ASLEEP)
            sim_cancel(sim, i);
        break;
    case 1:
        if (unit_chance(4) && waiter->state != SIM_DONE)
            sim_kill(sim, i);
        break;
    case 2:
        sim_stop(sim, i);
        break;
    case 3:
        sim_continue(sim, i);
        break;
    case 4:
        if (waiter->line.ticket != 0)
            sim_evict(sim, i);
        break;
    case 5:
        sim_release(sim, (uint32_t)unit_between(1, 5));
        break;
    case 6:
        if (sim->count < SIM_MOST)
            add_fuzz_waiter(sim, most_n);
        break;
    default:
        sim_try(sim, (uint32_t)unit_between(1, most_n));
        break;
    }
}

static void fuzz_once(bool pauses)
{
    uint32_t flags = (unit_chance(4) ? TUNDISH_UNFAIR : 0) | (unit_chance(4) ? TUNDISH_STEPPED : 0) |
                     (unit_chance(4) ? TUNDISH_STRICT : 0);
    uint32_t capacity = (uint32_t)unit_log_between(1, 50);
    struct tdi_config config =
        unit_config(capacity, (uint32_t)unit_log_between(1, 1000), unit_log_between(1000, 100000), flags);
    uint64_t start_us = unit_chance(2) ? (unit_between(1, 6) << 31) - unit_between(0, SECOND_US)
                                       : unit_log_between(1, UINT64_C(1) << 50);
    struct sim *sim = sim_start(&config, (uint32_t)unit_between(0, capacity), start_us);
    atomic_store(&sim->file->line.ticket, (uint32_t)unit_random());
    sim->unchecked = pauses;
    sim->blind = unit_chance(3);
    sim->late_us = unit_chance(2) ? 0 : unit_log_between(1, 20000);
    sim->pause_one_in = pauses ? (unsigned)unit_log_between(2, 200) : 0;
    sim->pause_us = unit_log_between(1, unit_chance(4) ? 4000000 : 5000);
    uint32_t most_n = (uint32_t)unit_between(1, 5 * (uint64_t)capacity);
    unsigned crowd = (unsigned)unit_between(1, 72);
    for (unsigned i = 0; i < crowd; i++)
        add_fuzz_waiter(sim, most_n);
    for (unsigned i = 0; i < 150; i++) {
        sim_pass(sim, unit_log_between(1, 20000));
        meddle(sim, most_n);
        expect_nothing_minted(sim);
    }
    /* Then everybody who lives is served. */
    sim_wind_down(sim);
    for (unsigned i = 0; i < sim->count; i++)
        sim->waiter[i].die_at = -1;
    uint64_t needed = (uint64_t)sim->count * 5 * capacity;
    uint64_t per_interval = config.refill;
    if (flags & (TUNDISH_STRICT | TUNDISH_STEPPED))
        per_interval = per_interval < capacity ? per_interval : capacity;
    uint64_t patience_us = (needed / per_interval + 2) * config.interval_us;
    sim_pass(sim, 2 * patience_us + sim->count * (sim->late_us + TDI_QUEUE_HARD_US + TDI_QUEUE_LOOK_US));
    expect_nothing_minted(sim);
    unit_expect(sim_pending(sim) == 0, "%u waiters were not served in the end", sim_pending(sim));
}

START_TEST(whatever_happens_between_steps_nothing_is_minted_and_all_are_served)
{
    for (unsigned round = 0; round < 150; round++)
        fuzz_once(false);
}
END_TEST

START_TEST(whatever_happens_within_steps_nothing_is_minted_and_all_are_served)
{
    for (unsigned round = 0; round < 100; round++)
        fuzz_once(true);
}
END_TEST

START_TEST(steps_that_interleave_keep_rate_and_order)
{
    for (unsigned round = 0; round < 40; round++) {
        struct sim *sim = start(1, 1000, 0, 0);
        sim->unchecked = true;
        sim->pause_one_in = (unsigned)unit_log_between(2, 100);
        sim->pause_us = unit_log_between(1, 3000);
        for (unsigned i = 0; i < 12; i++)
            sim_loop(sim, 1, 1);
        sim_pass(sim, SECOND_US);
        unit_expect(sim->granted >= 980, "%" PRIu64 " of 1000 granted", sim->granted);
        unit_expect(sim_fairness(sim) > 0.95, "fairness %f", sim_fairness(sim));
        unit_expect(sim->wrong_evictions == 0, "%" PRIu64 " of the living were evicted",
                    sim->wrong_evictions);
        expect_nothing_minted(sim);
    }
}
END_TEST

static Suite *line(void)
{
    Suite *suite = suite_create("line");

    TCase *rate = unit_case(suite, "rate");
    tcase_add_loop_test(rate, punctual_waiters_get_every_token_with_one_sleep_each, 0, (int)LEN(crowds));
    tcase_add_test(rate, waiters_up_to_10_ms_late_still_get_every_token);
    tcase_add_test(rate, a_strict_bucket_never_holds_more_than_its_capacity);
    tcase_add_test(rate, stepped_refills_come_at_the_end_of_each_interval);

    TCase *order = unit_case(suite, "order");
    tcase_add_test(order, waiters_are_served_in_order_of_arrival);
    tcase_add_test(order, tickets_and_times_may_wrap);
    tcase_add_test(order, late_waiters_never_take_what_those_before_them_need);
    tcase_add_test(order, a_try_behind_a_line_passes_only_if_it_delays_nobody);
    tcase_add_test(order, in_unfair_mode_newcomers_pass_and_the_first_keeps_what_it_finds);

    TCase *large = unit_case(suite, "large");
    tcase_add_test(large, requests_beyond_the_capacity_are_complete_in_time);
    tcase_add_test(large, late_wakers_do_not_slow_large_requests_down);
    tcase_add_test(large, a_need_of_more_than_31_bits_counts_for_those_behind);

    TCase *leaving = unit_case(suite, "leaving");
    tcase_add_test(leaving, a_timeout_is_exact_and_gives_everything_back);
    tcase_add_test(leaving, a_large_request_that_times_out_gives_its_pieces_back);
    tcase_add_test(leaving, cancelling_is_fine_in_every_state);
    tcase_add_test(leaving, a_departure_lets_those_behind_move_up_at_once);
    tcase_add_test(leaving, a_departure_that_changes_nothing_wakes_nobody);
    tcase_add_test(leaving, given_back_tokens_serve_the_first_in_line_at_once);
    tcase_add_loop_test(leaving, an_empty_line_leaves_no_more_than_the_capacity_to_a_burst, 0, 2);

    TCase *deaths = unit_case(suite, "deaths");
    tcase_add_loop_test(deaths, a_death_anywhere_delays_others_no_longer_than_it_may, 0,
                        2 * TDI_CRASH_POINTS);
    tcase_add_test(deaths,
                   a_dead_one_in_the_middle_keeps_news_from_those_behind_for_little_more_than_a_second);
    tcase_add_test(deaths, a_dead_head_with_a_small_need_delays_nobody);
    tcase_add_test(deaths, a_stopped_waiter_loses_its_place_and_gets_the_rest_later);
    tcase_add_test(deaths, a_wrongly_evicted_waiter_lines_up_again_with_what_it_still_needs);
    tcase_add_test(deaths, a_scanner_whose_time_is_a_moment_old_takes_nobody_for_dead);
    tcase_add_test(deaths, the_dead_of_any_age_are_evicted);
    tcase_add_test(deaths, a_ghost_that_never_set_q_does_no_harm);

    TCase *full = unit_case(suite, "full");
    tcase_add_test(full, who_finds_all_slots_taken_waits_at_the_door);
    tcase_add_test(full, a_timeout_at_the_door_is_kept);
    tcase_add_test(full, slots_that_the_dead_only_claimed_are_reclaimed_when_all_are_taken);

    TCase *lookers = unit_case(suite, "lookers");
    tcase_add_test(lookers, a_deaf_waiter_is_passed_over_by_bells_and_finds_out_itself);
    tcase_add_test(lookers, a_waiter_that_nobody_polls_delays_others_two_seconds_at_most);
    tcase_add_test(lookers, the_census_counts_who_is_in_line);

    TCase *all = unit_case(suite, "all");
    tcase_set_timeout(all, 90);
    tcase_add_test(all, whatever_happens_between_steps_nothing_is_minted_and_all_are_served);
    tcase_add_test(all, whatever_happens_within_steps_nothing_is_minted_and_all_are_served);
    tcase_add_test(all, steps_that_interleave_keep_rate_and_order);
    return suite;
}

KIT_MAIN(line)
