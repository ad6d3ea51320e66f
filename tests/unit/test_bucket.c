/* SPDX-License-Identifier: MIT */
/*
 * The bucket beside a ledger (model.h): every operation in every order, with time going forward in steps from
 * nothing to years, standing still and going back. The ledger may be off by nothing at any step.
 */
#include <errno.h>
#include <tundish/tundish.h>

#include "core/bucket.h"
#include "model.h"
#include "unit.h"

#define HALF_WRAP_US (WRAP_US / 2)
#define STEP_US (WRAP_US / 4) /* the furthest that the stamp may run ahead of the hint */

struct run {
    struct tdi_layout *file;
    struct model model;
    struct tdi_config config;
    uint64_t now_us;
    uint64_t latest_us;
    int step;
};

static uint64_t hint_of(const struct tdi_layout *file)
{
    return atomic_load(&file->head.hint_us);
}

static uint64_t word_of(const struct tdi_layout *file)
{
    return atomic_load(&file->word);
}

static bool is_far(const struct run *run)
{
    return run->now_us > hint_of(run->file) + STEP_US;
}

#define run_expect(run, condition, ...)                                                                      \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            run_fail(run, __LINE__, #condition, __VA_ARGS__);                                                \
    } while (0)

_Noreturn static void run_fail(const struct run *run, int line, const char *condition, const char *what,
                               uint64_t is, uint64_t should_be)
{
    unit_fail_at(__FILE__, line, condition,
                 "step %d, now %" PRIu64 ", stamp %" PRIu64 ", %" PRIu32 " per %" PRIu64 " us of %" PRIu32
                 ", flags %" PRIx32 ": %s %" PRIu64 " instead of %" PRIu64,
                 run->step, run->now_us, run->model.at_us, run->config.refill, run->config.interval_us,
                 run->config.capacity, run->config.flags, what, is, should_be);
}

static void move_time(struct run *run)
{
    static const uint64_t jump[] = {0,           1,       1000,        SECOND_US, HOUR_US,
                                    WRAP_US - 1, WRAP_US, WRAP_US + 1, DAY_US};
    uint64_t back;
    switch (unit_between(0, 5)) {
    case 0:
        run->now_us += jump[unit_between(0, sizeof jump / sizeof jump[0] - 1)];
        break;
    case 1:
        run->now_us += unit_log_between(1, HOUR_US);
        break;
    case 2: /* about as long as a few tokens take */
        run->now_us += unit_between(0, 4 * (run->config.interval_us / run->config.refill + 1)) % YEAR_US;
        break;
    case 3:
        run->now_us += unit_chance(40) ? YEAR_US : 0;
        break;
    case 4:
        back = unit_chance(4) ? unit_log_between(1, 2 * HOUR_US) : unit_between(0, 2);
        run->now_us -= back < run->now_us ? back : run->now_us;
        break;
    default:
        break;
    }
    run->latest_us = run->now_us > run->latest_us ? run->now_us : run->latest_us;
}

/* At least one. */
static uint32_t some_count(const struct run *run)
{
    if (unit_chance(3))
        return (uint32_t)unit_between(1, 3);
    uint64_t there = model_tokens(&run->model, run->now_us);
    if (there > 0 && unit_chance(2)) /* as many as there are, or one more or less */
        return (uint32_t)unit_between(there > 1 ? there - 1 : 1, there + 1);
    return (uint32_t)unit_log_between(1, unit_chance(8) ? UINT32_MAX : run->config.capacity);
}

/* Whoever looks at the line finds it empty, and an idle bucket holds its capacity and no more. */
static struct model unqueued(const struct model *model)
{
    struct model idle = *model;
    idle.queued = false;
    return idle;
}

static void try_some_tokens(struct run *run, bool part)
{
    uint32_t n = some_count(run), taken = n;
    struct model idle = unqueued(&run->model);
    uint64_t there = model_tokens(&idle, run->now_us);
    uint32_t least = part ? 1 : n;
    bool far = is_far(run); /* has a test of its own */
    unit_remember(run->file);
    int error = part ? tdi_bucket_try_some(run->file, run->now_us, n, &taken)
                     : tdi_bucket_try(run->file, run->now_us, n);
    int expected = least > run->config.capacity ? -E2BIG : there < least ? -EAGAIN : 0;
    run_expect(run, error == expected, "an attempt gave", (uint64_t)-error, (uint64_t)-expected);
    if (error) {
        run_expect(run, far || unit_is_as_remembered(run->file), "a refusal wrote", 1, 0);
        return;
    }
    uint64_t due = part && there < n ? there : n;
    run_expect(run, taken == due, "tokens taken:", taken, due);
    run->model = idle;
    model_settle(&run->model, run->now_us);
    run->model.tokens -= taken;
}

static void refund(struct run *run)
{
    uint32_t n = unit_chance(8) ? UINT32_MAX : some_count(run);
    tdi_bucket_refund(run->file, run->now_us, n);
    model_settle(&run->model, run->now_us);
    uint64_t sum = run->model.tokens + n;
    if (run->model.tokens < run->model.capacity)
        run->model.tokens = sum < run->model.capacity ? sum : run->model.capacity;
}

static void reset(struct run *run)
{
    tdi_bucket_reset(run->file, run->now_us);
    model_settle(&run->model, run->now_us);
    if (run->model.tokens < run->model.capacity)
        run->model.tokens = run->model.capacity;
}

static void configure(struct run *run)
{
    struct tdi_config next = unit_random_config(), in_force;
    if (unit_chance(2)) /* a neighbour of what there is */
        next = unit_config(run->config.capacity, next.refill, run->config.interval_us, run->config.flags);
    if (tdi_config_check(next.capacity, next.refill, next.interval_us, next.flags) != 0)
        return;
    model_settle(&run->model, run->now_us);
    uint64_t fraction = run->model.fraction, interval_us = run->model.interval_us;
    bool was_stepped = run->model.stepped;
    bool same = tdi_rate_is_same(&next, &run->config);
    unit_configure(run->file, run->now_us, &next);
    tdi_config_read(run->file, &in_force);
    if (same) { /* the counting goes on as if nothing had happened */
        model_configure(&run->model, &next, fraction);
        run->config = next;
        return;
    }
    run_expect(run, in_force.since_us == run->model.at_us, "counting from", in_force.since_us,
               run->model.at_us);
    /* What is left of the fraction is the change's to choose, within what test_rate holds it to. */
    uint64_t most = was_stepped == !!(next.flags & TUNDISH_STEPPED)
                        ? (uint64_t)((wide)fraction * next.interval_us / interval_us)
                        : 0;
    run_expect(run, in_force.carry == most || in_force.carry == 0 || (was_stepped && in_force.carry < most),
               "a carry of", in_force.carry, most);
    model_configure(&run->model, &next, in_force.carry);
    run->config = next;
}

/* As who gets in line does, but for the time; and back. What is above the limit is dropped on the way. */
static void change_queued(struct run *run)
{
    uint64_t tokens = model_tokens(&run->model, 0);
    run->model.queued = !run->model.queued;
    uint64_t queued = run->model.queued ? TDI_WORD_QUEUED : 0;
    atomic_store(&run->file->word, word_of(run->file) >> 32 << 32 | queued | tokens);
}

/* As if somebody had been killed between settling the word and moving the hint. */
static void crash_in_climb(struct run *run)
{
    uint64_t target_us = hint_of(run->file) + STEP_US;
    if (!is_far(run) || run->model.at_us >= target_us)
        return;
    model_settle(&run->model, target_us);
    uint64_t queued = word_of(run->file) & TDI_WORD_QUEUED;
    atomic_store(&run->file->word, target_us << 32 | queued | run->model.tokens);
}

static void expect_agreement(struct run *run)
{
    uint64_t stamp = tdi_bucket_stamp(run->file), hint = hint_of(run->file);
    run_expect(run, stamp <= run->latest_us, "a stamp of", stamp, run->latest_us);
    run_expect(run, stamp >= run->model.at_us, "a stamp of", stamp, run->model.at_us);
    /* A refusal may have had to climb; counting until there is the ledger's to follow. */
    model_settle(&run->model, stamp);
    uint64_t apart = stamp > hint ? stamp - hint : hint - stamp;
    run_expect(run, apart < HALF_WRAP_US, "stamp and hint apart by", apart, HALF_WRAP_US - 1);
    run_expect(run, word_of(run->file) >> 32 == (uint32_t)stamp, "a word's time of", word_of(run->file) >> 32,
               (uint32_t)stamp);
    run_expect(run, !(word_of(run->file) & TDI_WORD_QUEUED) == !run->model.queued, "the queued bit is",
               word_of(run->file) & TDI_WORD_QUEUED, run->model.queued);

    struct model idle = unqueued(&run->model);
    uint64_t there = model_tokens(&idle, run->now_us), capacity = run->model.capacity;
    uint64_t available = tdi_bucket_available(run->file, run->now_us);
    unit_remember(run->file);
    run_expect(run, available == (there < capacity ? there : capacity), "tokens available:", available,
               there);
    if (unit_chance(4)) {
        uint32_t n = some_count(run);
        uint64_t when = tdi_bucket_when(run->file, run->now_us, n);
        uint64_t exact = model_when(&idle, run->now_us, n);
        run_expect(run, when == exact, "tokens announced for", when, exact);
    }
    run_expect(run, unit_is_as_remembered(run->file), "looking wrote", 1, 0);
}

static void do_something(struct run *run)
{
    switch (unit_between(0, 11)) {
    case 0:
    case 1:
    case 2:
    case 3:
        try_some_tokens(run, false);
        break;
    case 4:
    case 5:
        try_some_tokens(run, true);
        break;
    case 6:
    case 7:
        refund(run);
        break;
    case 8:
        if (unit_chance(4))
            reset(run);
        break;
    case 9:
        if (unit_chance(2))
            configure(run);
        break;
    case 10:
        if (unit_chance(4))
            change_queued(run);
        break;
    default:
        crash_in_climb(run);
    }
}

START_TEST(tokens_are_the_ledgers_at_every_step)
{
    for (int i = 0; i < 200; i++) {
        struct run run = {.config = unit_random_config()};
        uint32_t initial =
            unit_chance(2) ? run.config.capacity : (uint32_t)unit_between(0, run.config.capacity);
        run.file = unit_file(&run.config, initial);
        run.model = model_new(&run.config, initial);
        for (run.step = 0; run.step < 300; run.step++) {
            move_time(&run);
            do_something(&run);
            expect_agreement(&run);
        }
    }
}
END_TEST

/* A bucket that is never full in `longest_us`, drained at the instant 0. */
static struct tdi_layout *drained(const struct tdi_config *config)
{
    return unit_file(config, 0);
}

START_TEST(idleness_of_any_length_gives_exactly_its_tokens)
{
    static const uint64_t idle_us[] = {1,           STEP_US - 1, STEP_US,     HALF_WRAP_US, HALF_WRAP_US + 1,
                                       WRAP_US - 1, WRAP_US,     WRAP_US + 1, 2 * WRAP_US,  DAY_US,
                                       YEAR_US,     10 * YEAR_US};
    static const uint32_t per_hour[] = {1, 7, 3600, 20000};
    for (size_t rate = 0; rate < sizeof per_hour / sizeof per_hour[0]; rate++) {
        for (size_t i = 0; i < sizeof idle_us / sizeof idle_us[0]; i++) {
            struct tdi_config config = unit_config(TUNDISH_CAPACITY_MAX - 1, per_hour[rate], HOUR_US, 0);
            struct tdi_layout *file = drained(&config);
            uint32_t due = (uint32_t)((wide)idle_us[i] * per_hour[rate] / HOUR_US);
            ck_assert_uint_eq(tdi_bucket_available(file, idle_us[i]), due);
            uint32_t taken = 0;
            ck_assert_int_eq(tdi_bucket_try(file, idle_us[i], due + 1), -EAGAIN);
            if (due > 0)
                ck_assert_int_eq(tdi_bucket_try_some(file, idle_us[i], UINT32_MAX, &taken), 0);
            ck_assert_uint_eq(taken, due);
            ck_assert_uint_eq(tdi_bucket_available(file, idle_us[i]), 0);
        }
    }
}
END_TEST

START_TEST(a_full_bucket_of_100_gives_100_at_once_and_never_101)
{
    static const uint64_t idle_us[] = {0, SECOND_US, WRAP_US - 1, WRAP_US, WRAP_US + 1, DAY_US, YEAR_US};
    for (size_t i = 0; i < sizeof idle_us / sizeof idle_us[0]; i++) {
        struct tdi_config config = unit_config(100, 10, SECOND_US, 0);
        struct tdi_layout *file = unit_file(&config, 100);
        uint64_t start_us = 12345 + idle_us[i];
        for (int n = 0; n < 100; n++)
            ck_assert_int_eq(tdi_bucket_try(file, start_us, 1), 0);
        ck_assert_int_eq(tdi_bucket_try(file, start_us, 1), -EAGAIN);
        ck_assert_int_eq(tdi_bucket_try(file, start_us - 1, 1), -EAGAIN);
    }
}
END_TEST

/* Takes all there is at each instant that `step` makes; the sum must be what the definition says. */
static void poll_tightly(uint32_t per_second, uint64_t span_us, uint64_t most_us)
{
    struct tdi_config config = unit_config(1000, per_second, SECOND_US, 0);
    struct tdi_layout *file = drained(&config);
    uint64_t now_us = 0, granted = 0;
    while (now_us < span_us) {
        uint32_t taken = 0;
        now_us += most_us > 1 ? unit_between(0, most_us) : 1;
        if (tdi_bucket_try_some(file, now_us, UINT32_MAX, &taken) == 0)
            granted += taken;
        uint64_t due = now_us * per_second / SECOND_US;
        if (granted != due)
            unit_fail_at(__FILE__, __LINE__, NULL,
                         "%" PRIu32 "/s at %" PRIu64 " us: %" PRIu64 " instead of %" PRIu64, per_second,
                         now_us, granted, due);
    }
}

START_TEST(polling_333333_per_second_tightly_loses_nothing)
{
    poll_tightly(333333, 10 * SECOND_US, 1);
    poll_tightly(333333, 10 * SECOND_US, 40);
    poll_tightly(333333, 10 * SECOND_US, 900);
}
END_TEST

START_TEST(polling_1500000_per_second_tightly_loses_nothing)
{
    poll_tightly(1500000, 10 * SECOND_US, 1);
    poll_tightly(1500000, 10 * SECOND_US, 40);
    poll_tightly(1500000, 10 * SECOND_US, 600);
}
END_TEST

START_TEST(polling_1999999_per_second_tightly_loses_nothing)
{
    poll_tightly(1999999, 10 * SECOND_US, 1);
    poll_tightly(1999999, 10 * SECOND_US, 40);
    poll_tightly(1999999, 10 * SECOND_US, 500);
}
END_TEST

/* Takes all there is after each pause; tokens granted until each instant are the definition's. */
static void drain_each(uint32_t per_second, uint64_t pause_us, int pauses)
{
    struct tdi_config config = unit_config(100, per_second, SECOND_US, 0);
    struct tdi_layout *file = unit_file(&config, 100);
    uint64_t granted = 0;
    for (int i = 0; i < pauses; i++) {
        uint64_t now_us = (uint64_t)i * pause_us;
        while (tdi_bucket_try(file, now_us, 1) == 0)
            granted++;
        ck_assert_uint_eq(granted, 100 + now_us * per_second / SECOND_US);
    }
}

START_TEST(draining_3_per_second_each_600_ms_loses_nothing)
{
    drain_each(3, 600000, 20000);
}
END_TEST

START_TEST(draining_900_per_second_each_2_ms_loses_nothing)
{
    drain_each(900, 2000, 200000);
}
END_TEST

/* Tries to take more than there is, at an instant so far from the last one. */
static void expect_refusal_writes_nothing(uint64_t idle_us)
{
    struct tdi_config config = unit_config(10, 1, 366 * DAY_US, 0);
    struct tdi_layout *file = unit_file(&config, 3);
    uint32_t taken = 77;
    ck_assert_int_eq(tdi_bucket_try(file, 1000, 3), 0);
    unit_remember(file);
    ck_assert_int_eq(tdi_bucket_try(file, 1000 + idle_us, 2), -EAGAIN);
    ck_assert_msg(unit_is_as_remembered(file), "-EAGAIN wrote after %" PRIu64 " us", idle_us);
    ck_assert_int_eq(tdi_bucket_try(file, 1000 + idle_us, 11), -E2BIG);
    ck_assert_msg(unit_is_as_remembered(file), "-E2BIG wrote after %" PRIu64 " us", idle_us);
    ck_assert_int_eq(tdi_bucket_try_some(file, 1000 + idle_us, 11, &taken), -EAGAIN);
    ck_assert_msg(unit_is_as_remembered(file), "-EAGAIN wrote after %" PRIu64 " us", idle_us);
    ck_assert_uint_eq(taken, 77);
}

START_TEST(a_refusal_writes_nothing)
{
    expect_refusal_writes_nothing(0);
    expect_refusal_writes_nothing(SECOND_US);
    expect_refusal_writes_nothing(STEP_US - 1000);
}
END_TEST

START_TEST(a_refusal_after_long_idleness_writes_nothing)
{
    expect_refusal_writes_nothing(STEP_US);
    expect_refusal_writes_nothing(HALF_WRAP_US + 5);
    expect_refusal_writes_nothing(DAY_US);
}
END_TEST

START_TEST(looking_writes_nothing_however_late)
{
    struct tdi_config config = unit_config(10, 1, DAY_US, 0);
    struct tdi_layout *file = unit_file(&config, 3);
    unit_remember(file);
    for (uint64_t now_us = 1; now_us < TIME_MAX_US; now_us *= 3) {
        tdi_bucket_available(file, now_us);
        tdi_bucket_when(file, now_us, UINT32_MAX);
        tdi_bucket_stamp(file);
    }
    ck_assert(unit_is_as_remembered(file));
}
END_TEST

START_TEST(more_than_the_capacity_is_too_big_whatever_is_there)
{
    struct tdi_config config = unit_config(10, 5, SECOND_US, 0);
    struct tdi_layout *file = unit_file(&config, 10);
    ck_assert_int_eq(tdi_bucket_try(file, 0, 11), -E2BIG);
    ck_assert_int_eq(tdi_bucket_try(file, 0, UINT32_MAX), -E2BIG);
    ck_assert_int_eq(tdi_bucket_try(file, 0, 10), 0);
    ck_assert_int_eq(tdi_bucket_try(file, 0, 11), -E2BIG);
    ck_assert_int_eq(tdi_bucket_try(file, YEAR_US, 11), -E2BIG);
    ck_assert_int_eq(tdi_bucket_try(file, YEAR_US, 10), 0);
}
END_TEST

START_TEST(what_is_given_back_beyond_the_capacity_is_dropped)
{
    struct tdi_config config = unit_config(10, 1, DAY_US, 0);
    struct tdi_layout *file = unit_file(&config, 4);
    tdi_bucket_refund(file, 5, 0);
    ck_assert_uint_eq(tdi_bucket_available(file, 5), 4);
    tdi_bucket_refund(file, 5, 5);
    ck_assert_uint_eq(tdi_bucket_available(file, 5), 9);
    tdi_bucket_refund(file, 5, UINT32_MAX);
    ck_assert_uint_eq(tdi_bucket_available(file, 5), 10);
    tdi_bucket_refund(file, 5, UINT32_MAX);
    ck_assert_uint_eq(tdi_bucket_available(file, 5), 10);
}
END_TEST

START_TEST(the_largest_bucket_and_the_fastest_rate_saturate)
{
    struct tdi_config config = unit_config(TUNDISH_CAPACITY_MAX, UINT32_MAX, 1, TUNDISH_STRICT);
    struct tdi_layout *file = unit_file(&config, TUNDISH_CAPACITY_MAX);
    ck_assert_int_eq(tdi_bucket_try(file, 0, TUNDISH_CAPACITY_MAX), 0);
    ck_assert_int_eq(tdi_bucket_try(file, 0, 1), -EAGAIN);
    ck_assert_int_eq(tdi_bucket_try(file, 1, TUNDISH_CAPACITY_MAX), 0);
    tdi_bucket_refund(file, 1, UINT32_MAX);
    ck_assert_uint_eq(tdi_bucket_available(file, 1), TUNDISH_CAPACITY_MAX);
    ck_assert_uint_eq(tdi_bucket_available(file, YEAR_US), TUNDISH_CAPACITY_MAX);
    ck_assert_int_eq(tdi_bucket_try(file, YEAR_US, TUNDISH_CAPACITY_MAX), 0);
    ck_assert_uint_eq(tdi_bucket_available(file, YEAR_US), 0);
    ck_assert_uint_eq(word_of(file) & TDI_WORD_QUEUED, 0);
}
END_TEST

START_TEST(the_first_step_comes_one_interval_after_creation)
{
    struct tdi_config config = unit_config(10, 5, SECOND_US, TUNDISH_STEPPED);
    struct tdi_layout *file = unit_file(&config, 0);
    ck_assert_uint_eq(tdi_bucket_available(file, SECOND_US - 1), 0);
    ck_assert_int_eq(tdi_bucket_try(file, SECOND_US - 1, 1), -EAGAIN);
    ck_assert_uint_eq(tdi_bucket_when(file, 3, 1), SECOND_US);
    ck_assert_uint_eq(tdi_bucket_when(file, 3, 5), SECOND_US);
    ck_assert_uint_eq(tdi_bucket_when(file, 3, 6), 2 * SECOND_US);
    ck_assert_uint_eq(tdi_bucket_available(file, SECOND_US), 5);
    ck_assert_int_eq(tdi_bucket_try(file, SECOND_US, 5), 0);
    ck_assert_uint_eq(tdi_bucket_available(file, 2 * SECOND_US - 1), 0);
    ck_assert_uint_eq(tdi_bucket_available(file, 2 * SECOND_US), 5);
}
END_TEST

START_TEST(lowering_and_raising_the_capacity_mints_nothing)
{
    struct tdi_config high = unit_config(100, 1, DAY_US, 0), low = unit_config(10, 1, DAY_US, 0);
    struct tdi_layout *file = unit_file(&high, 100);
    unit_configure(file, 10, &low);
    ck_assert_uint_eq(tdi_bucket_available(file, 10), 10);
    ck_assert_int_eq(tdi_bucket_try(file, 10, 11), -E2BIG);
    unit_configure(file, 20, &high);
    ck_assert_uint_eq(tdi_bucket_available(file, 20), 10);
    unit_configure(file, 20, &low);
    unit_configure(file, 20, &high);
    ck_assert_uint_eq(tdi_bucket_available(file, 20), 10);
    ck_assert_int_eq(tdi_bucket_try(file, 20, 10), 0);
    unit_configure(file, 30, &low);
    unit_configure(file, 30, &high);
    ck_assert_uint_eq(tdi_bucket_available(file, 30), 0);
}
END_TEST

/* Due so far in parts of a token, 1 / (both intervals): below 2^64 * 2^32. */
static void toggle(const struct tdi_config both[2], int changes)
{
    const wide token = (wide)both[0].interval_us * both[1].interval_us;
    struct tdi_layout *file = unit_file(&both[0], 0);
    uint64_t now_us = 0, granted = 0;
    wide due = 0;
    for (int i = 1; i <= changes; i++) {
        uint64_t step_us = unit_chance(3) ? unit_log_between(1, SECOND_US) : unit_between(0, 20);
        const struct tdi_config *in_force = &both[(i - 1) % 2], *other = &both[i % 2];
        now_us += step_us;
        due += (wide)step_us * in_force->refill * other->interval_us;
        unit_configure(file, now_us, other);
        uint32_t taken = 0;
        if (tdi_bucket_try_some(file, now_us, UINT32_MAX, &taken) == 0)
            granted += taken;
        unit_expect(granted * token <= due, "minted by change %d", i);
        unit_expect((granted + (unsigned)i + 1) * token > due, "%d changes lost more than as many tokens", i);
    }
}

START_TEST(changing_between_two_rates_at_every_step_mints_nothing)
{
    struct tdi_config both[2] = {unit_config(1000000000, 999983, SECOND_US, 0),
                                 unit_config(1000000000, 1999999, 3 * SECOND_US, 0)};
    toggle(both, 20000);
    for (int i = 0; i < 300; i++) {
        for (int j = 0; j < 2; j++)
            both[j] = unit_config(1000000000, (uint32_t)unit_log_between(1, 1000000),
                                  unit_log_between(1000, UINT32_MAX), TUNDISH_STRICT);
        toggle(both, 200);
    }
}
END_TEST

START_TEST(changing_to_the_same_rules_at_every_step_loses_nothing)
{
    struct tdi_config same = unit_config(1000, 333333, SECOND_US, 0);
    struct tdi_layout *file = unit_file(&same, 0);
    uint64_t granted = 0;
    for (uint64_t now_us = 1; now_us <= 200000; now_us++) {
        uint32_t taken = 0;
        unit_configure(file, now_us, &same);
        if (tdi_bucket_try_some(file, now_us, UINT32_MAX, &taken) == 0)
            granted += taken;
        ck_assert_uint_eq(granted, now_us * 333333 / SECOND_US);
    }
}
END_TEST

START_TEST(a_crash_between_settling_and_moving_the_hint_is_healed_exactly)
{
    struct tdi_config config = unit_config(1000000, 3, 7 * SECOND_US, 0);
    for (int after = 0; after < 8; after++) {
        struct tdi_layout *file = drained(&config);
        struct model model = model_new(&config, 0);
        model_settle(&model, STEP_US);
        atomic_store(&file->word, STEP_US << 32 | model.tokens);
        ck_assert_uint_eq(tdi_bucket_stamp(file), STEP_US);
        for (int i = 0; i <= after; i++) {
            uint64_t now_us = STEP_US + (uint64_t)i * (HALF_WRAP_US - 1);
            ck_assert_uint_eq(tdi_bucket_available(file, now_us), model_tokens(&model, now_us));
            ck_assert_int_eq(tdi_bucket_try(file, now_us, 1), 0);
            model_settle(&model, now_us);
            model.tokens--;
        }
        ck_assert_uint_eq(tdi_bucket_stamp(file), model.at_us);
    }
}
END_TEST

START_TEST(a_stamp_from_the_future_adds_nothing_and_is_not_moved_back)
{
    struct tdi_config config = unit_config(10, 1, SECOND_US, 0);
    struct tdi_layout *file = unit_file(&config, 10);
    ck_assert_int_eq(tdi_bucket_try(file, 100 * SECOND_US, 10), 0);
    for (uint64_t now_us = 100 * SECOND_US; now_us > 0; now_us -= SECOND_US)
        ck_assert_int_eq(tdi_bucket_try(file, now_us, 1), -EAGAIN);
    tdi_bucket_refund(file, 5, 1);
    ck_assert_uint_eq(tdi_bucket_stamp(file), 100 * SECOND_US);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 1);
    ck_assert_uint_eq(tdi_bucket_available(file, 101 * SECOND_US), 2);
}
END_TEST

START_TEST(another_boot_keeps_the_tokens_and_changes_only_the_base)
{
    struct tdi_config config = unit_config(10, 1, DAY_US, 0), before, after;
    struct tdi_clock_base base = {.shift_us = -123456, .boot_id = {~UINT64_C(0), 3}}, read;
    struct tdi_layout *file = unit_file(&config, 7);
    tdi_config_read(file, &before);
    ck_assert_int_eq(tdi_bucket_rebase(file, before.current + 1, &base), -EAGAIN);
    ck_assert_int_eq(tdi_bucket_rebase(file, before.current, &base), 0);
    ck_assert_int_eq(tdi_bucket_rebase(file, before.current, &base), -EAGAIN);
    tdi_config_read(file, &after);
    ck_assert_uint_eq(tdi_config_read_base(file, &read), after.current);
    ck_assert_int_eq(read.shift_us, base.shift_us);
    ck_assert_uint_eq(read.boot_id[0], base.boot_id[0]);
    ck_assert_uint_eq(read.boot_id[1], base.boot_id[1]);
    ck_assert_uint_eq(after.refill, before.refill);
    ck_assert_uint_eq(after.interval_us, before.interval_us);
    ck_assert_uint_eq(after.capacity, before.capacity);
    ck_assert_uint_eq(after.since_us, before.since_us);
    ck_assert_uint_eq(after.carry, before.carry);
    ck_assert_uint_eq(tdi_bucket_available(file, 0), 7);
}
END_TEST

static Suite *bucket(void)
{
    Suite *suite = suite_create("bucket");
    TCase *ledger = unit_case(suite, "ledger");
    tcase_add_test(ledger, tokens_are_the_ledgers_at_every_step);
    TCase *idle = unit_case(suite, "idle");
    tcase_add_test(idle, idleness_of_any_length_gives_exactly_its_tokens);
    tcase_add_test(idle, a_full_bucket_of_100_gives_100_at_once_and_never_101);
    TCase *polled = unit_case(suite, "polled");
    tcase_add_test(polled, polling_333333_per_second_tightly_loses_nothing);
    tcase_add_test(polled, polling_1500000_per_second_tightly_loses_nothing);
    tcase_add_test(polled, polling_1999999_per_second_tightly_loses_nothing);
    tcase_add_test(polled, draining_3_per_second_each_600_ms_loses_nothing);
    tcase_add_test(polled, draining_900_per_second_each_2_ms_loses_nothing);
    TCase *refusals = unit_case(suite, "refusals");
    tcase_add_test(refusals, a_refusal_writes_nothing);
    tcase_add_test(refusals, a_refusal_after_long_idleness_writes_nothing);
    tcase_add_test(refusals, looking_writes_nothing_however_late);
    tcase_add_test(refusals, more_than_the_capacity_is_too_big_whatever_is_there);
    TCase *bounds = unit_case(suite, "bounds");
    tcase_add_test(bounds, what_is_given_back_beyond_the_capacity_is_dropped);
    tcase_add_test(bounds, the_largest_bucket_and_the_fastest_rate_saturate);
    tcase_add_test(bounds, the_first_step_comes_one_interval_after_creation);
    TCase *changes = unit_case(suite, "changes");
    tcase_add_test(changes, lowering_and_raising_the_capacity_mints_nothing);
    tcase_add_test(changes, changing_between_two_rates_at_every_step_mints_nothing);
    tcase_add_test(changes, changing_to_the_same_rules_at_every_step_loses_nothing);
    TCase *time = unit_case(suite, "time");
    tcase_add_test(time, a_crash_between_settling_and_moving_the_hint_is_healed_exactly);
    tcase_add_test(time, a_stamp_from_the_future_adds_nothing_and_is_not_moved_back);
    tcase_add_test(time, another_boot_keeps_the_tokens_and_changes_only_the_base);
    return suite;
}

KIT_MAIN(bucket)
