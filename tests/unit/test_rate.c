/* SPDX-License-Identifier: MIT */
/*
 * Refill arithmetic against the definition, written out in 128 bits: a time below 2^64 times a refill below
 * 2^32 plus a carry below 2^45 is below 2^97, and no other product here is larger than 2^122.
 */
#include <tundish/tundish.h>

#include "core/rate.h"
#include "unit.h"

/* Any rate there is, not only those a bucket may have. */
static struct tdi_config any_rate(void)
{
    uint64_t interval_us = unit_chance(4) ? SECOND_US : unit_log_between(1, TUNDISH_INTERVAL_US_MAX);
    uint64_t refill = unit_log_between(1, UINT32_MAX);
    if (unit_chance(8)) {
        interval_us = unit_chance(2) ? DAY_US : 1;
        refill = unit_chance(2) ? UINT32_MAX - unit_between(0, 2) : unit_between(1, 3);
    }
    struct tdi_config config =
        unit_config(1, (uint32_t)refill, interval_us, unit_chance(3) ? TUNDISH_STEPPED : 0);
    config.since_us = unit_chance(2) ? 0 : unit_log_between(1, TIME_MAX_US / 2);
    config.carry = unit_chance(3) ? 0 : unit_between(0, interval_us - 1);
    if (unit_chance(8))
        config.carry = interval_us - 1;
    return config;
}

static bool is_stepped(const struct tdi_config *config)
{
    return config->flags & TUNDISH_STEPPED;
}

/* Tokens from since_us to at_us, by definition. */
static wide counted(const struct tdi_config *config, uint64_t at_us)
{
    wide units =
        ((wide)(at_us - config->since_us) * (is_stepped(config) ? 1 : config->refill) + config->carry) /
        config->interval_us;
    return units * (is_stepped(config) ? config->refill : 1);
}

static uint64_t saturated(wide tokens)
{
    return tokens > UINT64_MAX ? UINT64_MAX : (uint64_t)tokens;
}

/* Spans from 0 to years, with the borders of the two ways of counting among them. */
static uint64_t any_span(void)
{
    static const uint64_t border[] = {0,           1,       WRAP_US - 2, WRAP_US - 1, WRAP_US,
                                      WRAP_US + 1, HOUR_US, DAY_US,      YEAR_US,     50 * YEAR_US};
    if (unit_chance(3))
        return border[unit_between(0, sizeof border / sizeof border[0] - 1)];
    return unit_log_between(1, TIME_MAX_US / 4);
}

static uint64_t any_instant(const struct tdi_config *config)
{
    return config->since_us + any_span();
}

START_TEST(tokens_due_are_exact_at_any_rate_and_span)
{
    for (int i = 0; i < 400000; i++) {
        struct tdi_config config = any_rate();
        uint64_t last_us = any_instant(&config), now_us = last_us + any_span();
        uint64_t due = tdi_rate_due(&config, last_us, now_us);
        uint64_t exact = saturated(counted(&config, now_us) - counted(&config, last_us));
        unit_expect(due == exact,
                    "%" PRIu32 " per %" PRIu64 " us, flags %" PRIx32 ", since %" PRIu64 " carry %" PRIu64
                    ": from %" PRIu64 " to %" PRIu64 " %" PRIu64 " instead of %" PRIu64,
                    config.refill, config.interval_us, config.flags, config.since_us, config.carry, last_us,
                    now_us, due, exact);
        unit_expect(tdi_rate_due(&config, now_us, last_us) == 0, "time going back gives tokens");
    }
}
END_TEST

START_TEST(counting_leaves_the_exact_remainder)
{
    for (int i = 0; i < 200000; i++) {
        struct tdi_config config = any_rate();
        uint64_t at_us = any_instant(&config);
        struct tdi_count count = tdi_rate_count(&config, at_us);
        wide numerator =
            (wide)(at_us - config.since_us) * (is_stepped(&config) ? 1 : config.refill) + config.carry;
        unit_expect(count.units == (uint64_t)(numerator / config.interval_us) &&
                        count.rest == (uint64_t)(numerator % config.interval_us),
                    "%" PRIu32 " per %" PRIu64 " us, since %" PRIu64 " carry %" PRIu64 ", at %" PRIu64,
                    config.refill, config.interval_us, config.since_us, config.carry, at_us);
    }
}
END_TEST

START_TEST(polling_in_any_pattern_neither_loses_nor_mints)
{
    for (int i = 0; i < 4000; i++) {
        struct tdi_config config = any_rate();
        uint64_t start_us = any_instant(&config), now_us = start_us;
        uint64_t step_us = unit_log_between(1, WRAP_US);
        wide sum = 0;
        for (int poll = 0; poll < 100; poll++) {
            uint64_t next_us = now_us + (unit_chance(20) ? any_span() / 100 : unit_between(0, step_us));
            uint64_t due = tdi_rate_due(&config, now_us, next_us);
            if (due == UINT64_MAX)
                break;
            sum += due;
            now_us = next_us;
        }
        unit_expect(sum == counted(&config, now_us) - counted(&config, start_us),
                    "%" PRIu32 " per %" PRIu64 " us, flags %" PRIx32 ", since %" PRIu64 " carry %" PRIu64
                    ", from %" PRIu64 " to %" PRIu64,
                    config.refill, config.interval_us, config.flags, config.since_us, config.carry, start_us,
                    now_us);
    }
}
END_TEST

START_TEST(when_is_the_first_instant_that_has_the_tokens)
{
    for (int i = 0; i < 400000; i++) {
        struct tdi_config config = any_rate();
        uint64_t from_us = any_instant(&config);
        uint64_t tokens = unit_log_between(1, unit_chance(4) ? UINT64_MAX : UINT32_MAX);
        uint64_t at_us = tdi_rate_when(&config, from_us, tokens);
        wide before = counted(&config, from_us);
        unit_expect(at_us > from_us, "tokens fall due at once");
        unit_expect(at_us == UINT64_MAX || counted(&config, at_us) - before >= tokens,
                    "%" PRIu64 " tokens are not there at %" PRIu64 " (from %" PRIu64 ", %" PRIu32
                    " per %" PRIu64 " us)",
                    tokens, at_us, from_us, config.refill, config.interval_us);
        unit_expect(counted(&config, at_us - 1) - before < tokens,
                    "%" PRIu64 " tokens are there before %" PRIu64 " (from %" PRIu64 ", %" PRIu32
                    " per %" PRIu64 " us)",
                    tokens, at_us, from_us, config.refill, config.interval_us);
    }
}
END_TEST

START_TEST(no_tokens_are_there_at_once_and_the_end_of_time_saturates)
{
    struct tdi_config config = unit_config(1, 1, TUNDISH_INTERVAL_US_MAX, 0);
    ck_assert_uint_eq(tdi_rate_when(&config, 12345, 0), 12345);
    ck_assert_uint_eq(tdi_rate_when(&config, 12345, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(tdi_rate_when(&config, UINT64_MAX - 5, 1), UINT64_MAX);
    config = unit_config(1, UINT32_MAX, 1, 0);
    ck_assert_uint_eq(tdi_rate_due(&config, 0, TIME_MAX_US), UINT64_MAX);
    config = unit_config(1, UINT32_MAX, 1, TUNDISH_STEPPED);
    ck_assert_uint_eq(tdi_rate_due(&config, 0, TIME_MAX_US), UINT64_MAX);
    ck_assert_uint_eq(tdi_rate_tokens_in(&config, UINT64_MAX), UINT64_MAX);
}
END_TEST

START_TEST(steps_come_at_the_end_of_each_interval_and_not_before)
{
    for (int i = 0; i < 100000; i++) {
        struct tdi_config config = any_rate();
        config.flags = TUNDISH_STEPPED;
        config.carry = 0;
        tdi_rate_prepare(&config);
        uint64_t steps = unit_log_between(1, 1 + TIME_MAX_US / 4 / config.interval_us);
        uint64_t end_us = config.since_us + steps * config.interval_us;
        unit_expect(tdi_rate_due(&config, end_us - 1, end_us) == config.refill, "no step at %" PRIu64,
                    end_us);
        unit_expect(tdi_rate_due(&config, end_us - config.interval_us, end_us - 1) == 0,
                    "a step before %" PRIu64, end_us);
        unit_expect(tdi_rate_due(&config, config.since_us, end_us) == saturated((wide)steps * config.refill),
                    "not %" PRIu64 " steps until %" PRIu64, steps, end_us);
        unit_expect(tdi_rate_when(&config, end_us - 1, 1) == end_us, "the step is announced elsewhere");
    }
}
END_TEST

START_TEST(no_span_gives_more_than_what_is_said_to_fall_due_in_it)
{
    for (int i = 0; i < 200000; i++) {
        struct tdi_config config = any_rate();
        uint64_t from_us = any_instant(&config), span_us = any_span();
        uint64_t most = tdi_rate_tokens_in(&config, span_us);
        unit_expect(tdi_rate_due(&config, from_us, from_us + span_us) <= most,
                    "more than %" PRIu64 " within %" PRIu64 " us of %" PRIu64 ", %" PRIu32 " per %" PRIu64
                    " us",
                    most, span_us, from_us, config.refill, config.interval_us);
    }
}
END_TEST

/* In the numerators of token over both intervals: what was there and what is there, at most 2^122. */
START_TEST(a_change_carries_the_fraction_over_and_rounds_it_down)
{
    for (int i = 0; i < 200000; i++) {
        struct tdi_config old = any_rate(), next = any_rate();
        uint64_t at_us = any_instant(&old);
        uint64_t carry = tdi_rate_carry_over(&old, at_us, &next);
        unit_expect(carry < next.interval_us, "a carry of a whole unit");
        if (is_stepped(&old) != is_stepped(&next)) {
            unit_expect(carry == 0, "a part of a step became a part of a token");
            continue;
        }
        wide rest = ((wide)(at_us - old.since_us) * (is_stepped(&old) ? 1 : old.refill) + old.carry) %
                    old.interval_us;
        /* A millisecond, which a change may take, must not complete what is carried over. */
        if (rest + (wide)1000 * (is_stepped(&old) ? 1 : old.refill) >= old.interval_us) {
            unit_expect(carry == 0, "a token may be had twice, before and after the change");
            continue;
        }
        if (!is_stepped(&old)) {
            unit_expect(carry == rest * next.interval_us / old.interval_us,
                        "the fraction is not rounded down");
            continue;
        }
        wide had = rest * next.interval_us * old.refill, has = (wide)carry * old.interval_us * next.refill;
        unit_expect(has <= had, "a change of step mints");
        unit_expect((wide)carry * old.interval_us <= rest * next.interval_us, "the step ends too early");
    }
}
END_TEST

static Suite *rate(void)
{
    Suite *suite = suite_create("rate");
    TCase *exact = unit_case(suite, "exact");
    tcase_add_test(exact, tokens_due_are_exact_at_any_rate_and_span);
    tcase_add_test(exact, counting_leaves_the_exact_remainder);
    tcase_add_test(exact, polling_in_any_pattern_neither_loses_nor_mints);
    tcase_add_test(exact, when_is_the_first_instant_that_has_the_tokens);
    tcase_add_test(exact, no_tokens_are_there_at_once_and_the_end_of_time_saturates);
    tcase_add_test(exact, steps_come_at_the_end_of_each_interval_and_not_before);
    tcase_add_test(exact, no_span_gives_more_than_what_is_said_to_fall_due_in_it);
    tcase_add_test(exact, a_change_carries_the_fraction_over_and_rounds_it_down);
    return suite;
}

KIT_MAIN(rate)
