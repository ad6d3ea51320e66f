/* SPDX-License-Identifier: MIT */
/*
 * Exact refill. The tokens due between two instants are
 *
 *     floor(((now - since) * refill + carry) / interval)
 *         - floor(((last - since) * refill + carry) / interval)
 *
 * so the differences telescope: however often a bucket is looked at, nothing is lost or minted by rounding.
 * Stepped buckets count whole intervals the same way, with 1 for refill, and multiply by refill.
 *
 * The division is a product with the rate as a fixed-point number of 52 fractional bits, as many as an
 * instant has, so that it is short by at most 2 (the fraction is rounded down, the product too, what is added
 * is left out), which looking at the remainder puts right. The difference is what was left over at `last`
 * plus what came since, divided the same way; spans of more than 2^31 us are divided the long way.
 */
#ifndef TUNDISH_CORE_RATE_H
#define TUNDISH_CORE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "plat/atom.h"

#define TDI_RATE_SPAN_MAX_US (UINT64_C(1) << 31)
#define TDI_RATE_CHANGE_US 1000 /* the longest that a change of the configuration may take */

/* A configuration as the acquire path uses it, copied from a record of the mapped file. */
struct tdi_config {
    uint64_t interval_us;
    uint64_t since_us;
    uint64_t carry;
    uint64_t rate_fraction; /* of units per us; 52 bits, in the high end */
    uint64_t rate_whole;
    uint32_t units_per_interval; /* a unit is one token, or a step of `refill` tokens */
    uint32_t tokens_per_unit;
    uint32_t refill;
    uint32_t capacity;
    uint32_t extra;
    uint32_t held_back; /* for what may be out on lease, see core/lease */
    uint32_t flags;
    bool spoilt;      /* the file says 0 where that makes no sense; here it is 1 */
    uint64_t current; /* the head's word that it was read under */
};

struct tdi_count {
    uint64_t units; /* tokens or steps, modulo 2^64 */
    uint64_t rest;  /* numerator of the fraction over interval_us; < interval_us */
};

/* Fills in what follows from refill, interval_us and flags. */
void tdi_rate_prepare(struct tdi_config *config);

/* Tokens that fall due in a span starting anywhere, rounded up; saturates. */
uint64_t tdi_rate_tokens_in(const struct tdi_config *config, uint64_t span_us);

/* Tokens due in more than TDI_RATE_SPAN_MAX_US. */
uint64_t tdi_rate_due_in_long(const struct tdi_config *config, uint64_t last_us, uint64_t now_us);

/* First instant at or after `from` by which `tokens` more than at `from` are due; saturates. */
uint64_t tdi_rate_when(const struct tdi_config *config, uint64_t from_us, uint64_t tokens);

/* Whether the two count alike, so that a change from one to the other may leave the counting alone. */
bool tdi_rate_is_same(const struct tdi_config *a, const struct tdi_config *b);

/*
 * The fraction of a token at the instant `at`, expressed in `next`'s interval and rounded down, so that no
 * change mints one: 0 where the old configuration might complete it while the change is being made.
 */
uint64_t tdi_rate_carry_over(const struct tdi_config *config, uint64_t at_us, const struct tdi_config *next);

/* How many units in a span, short by up to 2: see the top of the file. */
static inline uint64_t tdi_rate_estimate(const struct tdi_config *config, uint64_t span_us)
{
    return span_us * config->rate_whole + tdi_atom_mul_high(span_us, config->rate_fraction);
}

/* Units counted from since_us to `at`, and what is left over. */
static inline struct tdi_count tdi_rate_count(const struct tdi_config *config, uint64_t at_us)
{
    uint64_t span = at_us > config->since_us ? at_us - config->since_us : 0;
    uint64_t units = tdi_rate_estimate(config, span);
    /* The true remainder is below 3 * interval < 2^47, so its low 64 bits are all of it. */
    uint64_t rest = span * config->units_per_interval + config->carry - units * config->interval_us;
    for (int short_by = 0; short_by < 2 && rest >= config->interval_us; short_by++) {
        units++;
        rest -= config->interval_us;
    }
    return (struct tdi_count){units, rest};
}

/* Units due in `elapsed` < 2^32 us from `last` on: what was left over then and what came since. */
static inline uint64_t tdi_rate_units_in(const struct tdi_config *config, uint64_t last_us,
                                         uint64_t elapsed_us)
{
    /* Below 2^64: elapsed and units_per_interval are below 2^32, the rest below interval < 2^45. */
    uint64_t sum = tdi_rate_count(config, last_us).rest + elapsed_us * config->units_per_interval;
    if (sum < config->interval_us)
        return 0;
    uint64_t units = tdi_rate_estimate(config, elapsed_us);
    uint64_t rest = sum - units * config->interval_us;
    return units + (rest >= config->interval_us) + (rest >= 2 * config->interval_us);
}

/* Tokens due from `last` to `now`, 0 if now <= last; saturates. */
static inline uint64_t tdi_rate_due(const struct tdi_config *config, uint64_t last_us, uint64_t now_us)
{
    uint64_t tokens;
    if (now_us <= last_us)
        return 0;
    if (tdi_unlikely(now_us - last_us > TDI_RATE_SPAN_MAX_US))
        return tdi_rate_due_in_long(config, last_us, now_us);
    uint64_t units = tdi_rate_units_in(config, last_us, now_us - last_us);
    if (tdi_unlikely(__builtin_mul_overflow(units, (uint64_t)config->tokens_per_unit, &tokens)))
        return UINT64_MAX;
    return tokens;
}

#endif
