/* SPDX-License-Identifier: MIT */
/*
 * Who may have tokens out, and what that leaves for the others: the seats, the limit while somebody has one, and
 * every operation in every order beside a ledger (model.h) that knows what is out.
 */
#include <errno.h>
#include <string.h>
#include <tundish/tundish.h>

#include "core/bucket.h"
#include "core/lease.h"
#include "model.h"
#include "unit.h"
#include "unit/step.h"

#define PART 20 /* what is held back is one in so many */

static struct tdi_layout *new_file(uint32_t capacity, uint32_t tokens)
{
    struct tdi_config config = unit_config(capacity, 1000, SECOND_US, 0);
    return unit_file(&config, tokens);
}

/* A handle in the table, of a process of that number. */
static struct tdi_instance enter(struct tdi_layout *file, uint32_t pid)
{
    struct tdi_identity who = {.pid = pid, .program = "test"};
    struct tdi_instance instance;
    ck_assert_int_eq(tdi_instance_enter(file, &who, tdi_instance_number(file), &instance), 0);
    return instance;
}

/* ---- seats ---- */

START_TEST(seven_can_be_lessees_and_the_eighth_when_one_leaves)
{
    struct tdi_layout *file = new_file(10000, 10000);
    struct tdi_instance instance[TDI_LEASE_LESSEES + 1];
    ck_assert(!tdi_lease_any(file));
    for (uint32_t i = 0; i <= TDI_LEASE_LESSEES; i++)
        instance[i] = enter(file, i + 1);
    for (uint32_t i = 0; i < TDI_LEASE_LESSEES; i++) {
        ck_assert(!tdi_lease_is_lessee(file, instance[i].index));
        ck_assert(tdi_lease_claim(file, &instance[i]));
        ck_assert(tdi_lease_claim(file, &instance[i])); /* it is one already */
        ck_assert(tdi_lease_is_lessee(file, instance[i].index) && tdi_lease_any(file));
    }
    ck_assert(!tdi_lease_claim(file, &instance[TDI_LEASE_LESSEES]));
    ck_assert(!tdi_lease_is_lessee(file, instance[TDI_LEASE_LESSEES].index));
    tdi_lease_release(file, &instance[TDI_LEASE_LESSEES]); /* it was none */
    for (uint32_t i = 0; i < TDI_LEASE_LESSEES; i++)
        ck_assert(tdi_lease_is_lessee(file, instance[i].index));
    tdi_lease_release(file, &instance[3]);
    ck_assert(!tdi_lease_is_lessee(file, instance[3].index));
    ck_assert(tdi_lease_claim(file, &instance[TDI_LEASE_LESSEES]));
    ck_assert(!tdi_lease_claim(file, &instance[3]));
    for (uint32_t i = 0; i <= TDI_LEASE_LESSEES; i++)
        tdi_lease_release(file, &instance[i]);
    ck_assert(!tdi_lease_any(file));
}
END_TEST

START_TEST(any_place_of_the_table_can_be_a_lessee)
{
    struct tdi_layout *file = new_file(10000, 10000);
    struct tdi_instance instance[TDI_LAYOUT_INSTANCES];
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        instance[i] = enter(file, i + 1);
    for (int round = 0; round < 20000; round++) { /* the count of changes goes round, too */
        uint32_t i = (uint32_t)unit_between(0, TDI_LAYOUT_INSTANCES - 1);
        bool was = tdi_lease_is_lessee(file, i), is = tdi_lease_claim(file, &instance[i]);
        ck_assert(is || !was);
        ck_assert_int_eq(tdi_lease_is_lessee(file, i), is);
        if (unit_chance(2))
            tdi_lease_release(file, &instance[unit_between(0, TDI_LAYOUT_INSTANCES - 1)]);
        uint32_t seats = 0;
        for (uint32_t k = 0; k < TDI_LAYOUT_INSTANCES; k++)
            seats += tdi_lease_is_lessee(file, k);
        unit_expect(seats <= TDI_LEASE_LESSEES, "%" PRIu32 " lessees", seats);
        ck_assert_int_eq(tdi_lease_any(file), seats > 0);
    }
}
END_TEST

START_TEST(leaving_the_table_gives_up_the_seat)
{
    struct tdi_layout *file = new_file(10000, 10000);
    struct tdi_instance one = enter(file, 1), other = enter(file, 2);
    ck_assert(tdi_lease_claim(file, &one) && tdi_lease_claim(file, &other));
    tdi_instance_leave(file, &one);
    ck_assert(!tdi_lease_is_lessee(file, one.index) && tdi_lease_is_lessee(file, other.index));
    tdi_instance_leave(file, &other);
    ck_assert(!tdi_lease_any(file));
}
END_TEST

START_TEST(who_clears_up_late_does_not_unseat_the_next_owner)
{
    struct tdi_layout *file = new_file(10000, 10000);
    struct tdi_instance dead = enter(file, 1);
    ck_assert(tdi_lease_claim(file, &dead));
    tdi_instance_leave(file, &dead);
    struct tdi_instance next = enter(file, 2);
    ck_assert_uint_eq(next.index, dead.index);
    ck_assert(tdi_lease_claim(file, &next));
    tdi_lease_release(file, &dead);
    ck_assert(tdi_lease_is_lessee(file, next.index));
    tdi_instance_leave(file, &dead);
    ck_assert(tdi_lease_is_lessee(file, next.index));
    struct tdi_instance found;
    struct tdi_identity who;
    ck_assert(tdi_instance_get(file, next.index, &found, &who) && found.owner == next.owner);
}
END_TEST

struct late {
    struct tdi_layout *file;
    struct tdi_instance dead;
    struct tdi_instance next;
};

static void act_clear_up(void *context)
{
    struct late *late = context;
    tdi_instance_leave(late->file, &late->dead);
}

/* Somebody else clears up first, and the place finds another owner, who becomes a lessee. */
static void intrude_clear_up_and_move_in(void *context)
{
    struct late *late = context;
    struct tdi_identity who = {.pid = 2, .program = "test"};
    tdi_instance_leave(late->file, &late->dead);
    if (tdi_instance_enter(late->file, &who, tdi_instance_number(late->file), &late->next) == 0)
        (void)tdi_lease_claim(late->file, &late->next);
}

START_TEST(two_who_clear_up_at_once_do_not_unseat_the_next_owner)
{
    bool in_time = true;
    for (unsigned long at = 1; in_time; at++) {
        struct late late = {.file = new_file(10000, 10000)};
        late.dead = enter(late.file, 1);
        ck_assert(tdi_lease_claim(late.file, &late.dead));
        in_time = step_intrude(act_clear_up, intrude_clear_up_and_move_in, &late, at);
        if (!in_time)
            ck_assert(!tdi_lease_any(late.file));
        else
            unit_expect(tdi_lease_is_lessee(late.file, late.next.index), "unseated after instruction %lu",
                        at);
    }
}
END_TEST

START_TEST(any_seats_do_no_harm)
{
    struct tdi_layout *file = new_file(10000, 5000);
    struct tdi_instance instance = enter(file, 1);
    for (int i = 0; i < 20000; i++) {
        atomic_store(&file->head.lessees, i == 0 ? UINT64_MAX : unit_random());
        bool is = tdi_lease_claim(file, &instance);
        ck_assert_int_eq(is, tdi_lease_is_lessee(file, instance.index));
        tdi_lease_release(file, &instance);
        uint64_t now_us = unit_log_between(1, DAY_US);
        unit_expect(tdi_bucket_available(file, now_us) <= 10000, "%" PRIu32 " tokens",
                    tdi_bucket_available(file, now_us));
        (void)tdi_bucket_try(file, now_us, 10);
        tdi_bucket_refund(file, now_us, 10);
    }
}
END_TEST

/* ---- what is held back ---- */

START_TEST(a_bucket_with_a_lessee_fills_up_to_a_twentieth_less)
{
    static const uint32_t capacities[] = {1, 19, 20, 100, 12345, TUNDISH_CAPACITY_MAX - 10};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        uint32_t capacity = capacities[i], limit = capacity - capacity / PART;
        struct tdi_config config = unit_config(capacity, capacity, SECOND_US, TUNDISH_STRICT);
        struct tdi_layout *file = unit_file(&config, 0);
        struct tdi_instance lessee = enter(file, 1);
        ck_assert(tdi_lease_claim(file, &lessee));
        ck_assert_uint_eq(tdi_bucket_available(file, HOUR_US), limit);
        tdi_bucket_reset(file, HOUR_US);
        ck_assert_uint_eq(tdi_bucket_available(file, HOUR_US), limit);
        ck_assert_uint_eq(tdi_bucket_available(file, 2 * HOUR_US), limit);
        tdi_lease_release(file, &lessee);
        ck_assert_uint_eq(tdi_bucket_available(file, 3 * HOUR_US), capacity);
    }
}
END_TEST

START_TEST(what_is_there_when_a_lessee_comes_stays)
{
    struct tdi_layout *file = new_file(1000, 1000);
    struct tdi_instance lessee = enter(file, 1);
    ck_assert(tdi_lease_claim(file, &lessee));
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 1000);
    ck_assert_uint_eq(tdi_bucket_available(file, HOUR_US), 1000);
    ck_assert_int_eq(tdi_bucket_try(file, HOUR_US, 10), 0);
    ck_assert_uint_eq(tdi_bucket_available(file, HOUR_US), 990);
    ck_assert_uint_eq(tdi_bucket_available(file, 2 * HOUR_US), 990);
    tdi_bucket_refund(file, 2 * HOUR_US, 5); /* above the limit: dropped, but nothing is cut */
    ck_assert_uint_eq(tdi_bucket_available(file, 2 * HOUR_US), 990);
    ck_assert_int_eq(tdi_bucket_try(file, 2 * HOUR_US, 100), 0);
    ck_assert_uint_eq(tdi_bucket_available(file, 3 * HOUR_US), 950);
}
END_TEST

START_TEST(outsiders_give_back_up_to_the_limit_and_lessees_up_to_the_capacity)
{
    struct tdi_layout *file = new_file(1000, 900);
    struct tdi_instance lessee = enter(file, 1);
    ck_assert(tdi_lease_claim(file, &lessee));
    tdi_bucket_refund(file, 0, 100);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 950);
    tdi_bucket_end_lease(file, 0, 30);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 980);
    tdi_bucket_refund(file, 0, 10);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 980);
    tdi_bucket_end_lease(file, 0, 30);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 1000);
    tdi_bucket_end_lease(file, 0, UINT32_MAX);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 1000);
}
END_TEST

START_TEST(tokens_are_leased_only_where_they_are_plenty_and_nobody_waits)
{
    struct tdi_layout *file = new_file(1000, 1000);
    struct tdi_instance lessee = enter(file, 1);
    ck_assert(tdi_lease_claim(file, &lessee));
    ck_assert_int_eq(tdi_bucket_lease(file, 0, 7), 0);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 993);
    ck_assert_int_eq(tdi_bucket_try(file, 0, 993 - 256), 0);
    ck_assert_int_eq(tdi_bucket_lease(file, 0, 7), -EAGAIN);
    ck_assert_int_eq(tdi_bucket_lease(file, 0, 6), 0);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 250);
    tdi_bucket_reset(file, 0);
    atomic_fetch_or(&file->word, TDI_WORD_QUEUED);
    ck_assert_int_eq(tdi_bucket_lease(file, 0, 7), -EAGAIN);
}
END_TEST

/* Whoever asks: what the capacity was when it came to lease is not what it is now. */
START_TEST(nobody_is_given_more_than_its_share)
{
    struct tdi_layout *file = new_file(1000, 1000);
    struct tdi_instance lessee = enter(file, 1);
    ck_assert(tdi_lease_claim(file, &lessee));
    ck_assert_uint_eq(tdi_lease_share(1000), 1000 / PART / TDI_LEASE_LESSEES);
    ck_assert_int_eq(tdi_bucket_lease(file, 0, tdi_lease_share(1000) + 1), -EAGAIN);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 1000);
    ck_assert_int_eq(tdi_bucket_lease(file, 0, tdi_lease_share(1000)), 0);
}
END_TEST

/* ---- beside a ledger ---- */

#define LESSEES (TDI_LEASE_LESSEES + 2) /* some find no seat */

struct run {
    struct tdi_layout *file;
    struct tdi_config config;
    struct model model;
    struct tdi_instance instance[LESSEES];
    uint32_t out[LESSEES]; /* on lease */
    uint64_t taken;        /* for good */
    uint64_t now_us;
    int step;
};

#define run_expect(run, condition, ...)                                                                      \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            run_fail(run, __LINE__, #condition, __VA_ARGS__);                                                \
    } while (0)

_Noreturn static void run_fail(const struct run *run, int line, const char *condition, const char *what,
                               uint64_t is, uint64_t should_be)
{
    unit_fail_at(__FILE__, line, condition,
                 "step %d, now %" PRIu64 ", %" PRIu32 " per %" PRIu64 " us of %" PRIu32 ", flags %" PRIx32
                 ": %s %" PRIu64 " instead of %" PRIu64,
                 run->step, run->now_us, run->config.refill, run->config.interval_us, run->config.capacity,
                 run->config.flags, what, is, should_be);
}

static bool any_seated(const struct run *run)
{
    bool any = false;
    for (uint32_t i = 0; i < LESSEES; i++)
        any |= tdi_lease_is_lessee(run->file, run->instance[i].index);
    return any;
}

static uint64_t limit(const struct run *run)
{
    return run->config.capacity - (any_seated(run) ? run->config.capacity / PART : 0);
}

/* What there would be, were nothing taken now: what is above the limit stays, what is below gains up to it. */
static uint64_t tokens_now(const struct run *run)
{
    struct model then = run->model;
    wide sum = then.tokens + model_gained(&then, run->now_us);
    if (then.tokens >= limit(run))
        return then.tokens;
    return sum < limit(run) ? (uint64_t)sum : limit(run);
}

static void settle(struct run *run)
{
    uint64_t tokens = tokens_now(run);
    model_settle(&run->model, run->now_us); /* for the instant and the fraction */
    run->model.tokens = tokens;
}

static void add(struct run *run, uint64_t n, uint64_t most)
{
    settle(run);
    uint64_t sum = run->model.tokens + n;
    if (run->model.tokens < most)
        run->model.tokens = sum < most ? sum : most;
}

static void take_some(struct run *run)
{
    uint32_t n = (uint32_t)unit_log_between(1, run->config.capacity);
    uint64_t there = tokens_now(run);
    int error = tdi_bucket_try(run->file, run->now_us, n);
    run_expect(run, error == (there < n ? -EAGAIN : 0), "an attempt gave", (uint64_t)-error, there < n);
    if (error)
        return;
    settle(run);
    run->model.tokens -= n;
    run->taken += n;
}

static void lease_some(struct run *run, uint32_t who)
{
    uint32_t share = tdi_lease_share(run->config.capacity);
    if (!tdi_lease_claim(run->file, &run->instance[who]) || share <= run->out[who])
        return;
    uint32_t n = (uint32_t)unit_between(1, share - run->out[who]);
    uint64_t there = tokens_now(run);
    int error = tdi_bucket_lease(run->file, run->now_us, n);
    run_expect(run, error == 0 || error == -EAGAIN, "leasing gave", (uint64_t)-error, 0);
    run_expect(run, error != 0 || there >= run->config.capacity / 4 + n, "leased of", there, n);
    if (error)
        return;
    settle(run);
    run->model.tokens -= n;
    run->out[who] += n;
}

/* A part of what is out is spent, and all or a part of the rest comes back. */
static void end_some(struct run *run, uint32_t who)
{
    uint32_t spent = (uint32_t)unit_between(0, run->out[who]);
    run->taken += spent;
    run->out[who] -= spent;
    uint32_t n = (uint32_t)unit_between(0, run->out[who]);
    if (n == 0)
        return;
    settle(run);
    uint64_t before = run->model.tokens;
    add(run, n, run->config.capacity);
    run->out[who] -= n;
    tdi_bucket_end_lease(run->file, run->now_us, n);
    run_expect(run, run->model.tokens == before + n, "of a lease came back", run->model.tokens - before, n);
}

static void leave(struct run *run, uint32_t who)
{
    if (run->out[who] > 0) { /* all comes back, and the seat is given up after that */
        add(run, run->out[who], run->config.capacity);
        tdi_bucket_end_lease(run->file, run->now_us, run->out[who]);
        run->out[who] = 0;
    }
    tdi_lease_release(run->file, &run->instance[who]);
}

static void give_back(struct run *run)
{
    uint32_t n = (uint32_t)unit_log_between(1, run->config.capacity);
    n = n < run->taken ? n : (uint32_t)run->taken;
    if (n == 0)
        return;
    tdi_bucket_refund(run->file, run->now_us, n);
    add(run, n, limit(run));
    run->taken -= n;
}

/* Its process was killed: what it had out is lost, and somebody clears up. */
static void die(struct run *run, uint32_t who)
{
    run->out[who] = 0;
    tdi_instance_leave(run->file, &run->instance[who]);
    run->instance[who] = enter(run->file, 100 + who);
}

static void do_something(struct run *run)
{
    uint32_t who = (uint32_t)unit_between(0, LESSEES - 1);
    uint64_t span_us = 4 * (run->config.interval_us / run->config.refill + 1);
    run->now_us += unit_chance(3) ? unit_between(0, span_us) : 0;
    run->now_us += unit_chance(30) ? unit_log_between(1, 30 * DAY_US) : 0;
    switch (unit_between(0, 11)) {
    case 0:
    case 1:
        take_some(run);
        break;
    case 2:
    case 3:
    case 4:
        lease_some(run, who);
        break;
    case 5:
    case 6:
        end_some(run, who);
        break;
    case 7:
        leave(run, who);
        break;
    case 8:
        give_back(run);
        break;
    case 9:
        if (unit_chance(8))
            die(run, who);
        break;
    case 10:
        if (unit_chance(8)) {
            tdi_bucket_reset(run->file, run->now_us);
            add(run, UINT32_MAX, limit(run));
        }
        break;
    default:
        (void)tdi_lease_claim(run->file, &run->instance[who]);
    }
}

static void expect_agreement(struct run *run)
{
    uint64_t stamp = tdi_bucket_stamp(run->file), out = 0;
    uint64_t now_us = run->now_us;
    run->now_us = stamp; /* a refusal may have had to climb, which counts until there */
    settle(run);
    run->now_us = now_us;
    for (uint32_t i = 0; i < LESSEES; i++) {
        out += run->out[i];
        run_expect(run, run->out[i] == 0 || tdi_lease_is_lessee(run->file, run->instance[i].index),
                   "out without a seat:", run->out[i], 0);
    }
    uint64_t there = tokens_now(run), available = tdi_bucket_available(run->file, run->now_us);
    run_expect(run, available == there, "tokens available:", available, there);
    uint64_t tokens = atomic_load(&run->file->word) & TDI_WORD_TOKENS;
    run_expect(run, tokens + out <= run->config.capacity, "tokens and leases:", tokens + out,
               run->config.capacity);
    run_expect(run, available + out <= run->config.capacity, "tokens and leases:", available + out,
               run->config.capacity);
}

START_TEST(tokens_and_leases_are_the_ledgers_at_every_step)
{
    for (int i = 0; i < 200; i++) {
        struct run run = {.config = unit_random_config()};
        uint32_t initial =
            unit_chance(2) ? run.config.capacity : (uint32_t)unit_between(0, run.config.capacity);
        run.file = unit_file(&run.config, initial);
        run.model = model_new(&run.config, initial);
        run.taken = run.config.capacity - initial;
        for (uint32_t k = 0; k < LESSEES; k++)
            run.instance[k] = enter(run.file, k + 1);
        for (run.step = 0; run.step < 400; run.step++) {
            do_something(&run);
            expect_agreement(&run);
        }
    }
}
END_TEST

static Suite *lease(void)
{
    Suite *suite = suite_create("lease");
    TCase *seats = unit_case(suite, "seats");
    tcase_add_test(seats, seven_can_be_lessees_and_the_eighth_when_one_leaves);
    tcase_add_test(seats, any_place_of_the_table_can_be_a_lessee);
    tcase_add_test(seats, leaving_the_table_gives_up_the_seat);
    tcase_add_test(seats, who_clears_up_late_does_not_unseat_the_next_owner);
    tcase_add_test(seats, two_who_clear_up_at_once_do_not_unseat_the_next_owner);
    tcase_add_test(seats, any_seats_do_no_harm);
    TCase *held_back = unit_case(suite, "held_back");
    tcase_add_test(held_back, a_bucket_with_a_lessee_fills_up_to_a_twentieth_less);
    tcase_add_test(held_back, what_is_there_when_a_lessee_comes_stays);
    tcase_add_test(held_back, outsiders_give_back_up_to_the_limit_and_lessees_up_to_the_capacity);
    tcase_add_test(held_back, tokens_are_leased_only_where_they_are_plenty_and_nobody_waits);
    tcase_add_test(held_back, nobody_is_given_more_than_its_share);
    TCase *ledger = unit_case(suite, "ledger");
    tcase_add_test(ledger, tokens_and_leases_are_the_ledgers_at_every_step);
    return suite;
}

KIT_MAIN(lease)
