/* SPDX-License-Identifier: MIT */
/* See rate.h for the idea and the bounds. */
#include "core/rate.h"

#include <tundish/tundish.h>

#define FRACTION_BITS 52

static bool is_stepped(const struct tdi_config *config)
{
    return config->flags & TUNDISH_STEPPED;
}

/* A spoilt file must not make us divide by zero. */
static uint64_t divisor(uint64_t number)
{
    return number ? number : 1;
}

void tdi_rate_prepare(struct tdi_config *config)
{
    uint64_t units = is_stepped(config) ? 1 : config->refill;
    config->units_per_interval = (uint32_t)units;
    config->tokens_per_unit = is_stepped(config) ? config->refill : 1;
    config->rate_whole = units / config->interval_us;
    tdi_wide rest = units % config->interval_us;
    config->rate_fraction = (uint64_t)((rest << FRACTION_BITS) / config->interval_us) << (64 - FRACTION_BITS);
}

uint64_t tdi_rate_tokens_in(const struct tdi_config *config, uint64_t span_us)
{
    tdi_wide units = (tdi_wide)span_us * config->units_per_interval + config->interval_us - 1;
    tdi_wide tokens = units / config->interval_us * config->tokens_per_unit;
    return tokens > UINT64_MAX ? UINT64_MAX : (uint64_t)tokens;
}

uint64_t tdi_rate_due_in_long(const struct tdi_config *config, uint64_t last_us, uint64_t now_us)
{
    tdi_wide sum = (tdi_wide)(now_us - last_us) * config->units_per_interval;
    sum += tdi_rate_count(config, last_us).rest;
    tdi_wide tokens = sum / divisor(config->interval_us) * config->tokens_per_unit;
    return tokens > UINT64_MAX ? UINT64_MAX : (uint64_t)tokens;
}

uint64_t tdi_rate_when(const struct tdi_config *config, uint64_t from_us, uint64_t tokens)
{
    if (tokens == 0)
        return from_us;
    uint64_t per_unit = divisor(config->tokens_per_unit);
    uint64_t per_interval = divisor(config->units_per_interval);
    uint64_t units = tokens / per_unit + (tokens % per_unit != 0);
    uint64_t rest = tdi_rate_count(config, from_us).rest;
    tdi_wide need = (tdi_wide)units * config->interval_us;
    need -= rest < config->interval_us ? rest : 0; /* hostile numbers may break the bound on rest */
    tdi_wide span = (need + per_interval - 1) / per_interval;
    return span > UINT64_MAX - from_us ? UINT64_MAX : from_us + (uint64_t)span;
}

bool tdi_rate_is_same(const struct tdi_config *a, const struct tdi_config *b)
{
    return a->interval_us == b->interval_us && a->refill == b->refill && is_stepped(a) == is_stepped(b);
}

uint64_t tdi_rate_carry_over(const struct tdi_config *config, uint64_t at_us, const struct tdi_config *next)
{
    if (is_stepped(config) != is_stepped(next))
        return 0; /* a part of a step is no part of a token */
    uint64_t rest = tdi_rate_count(config, at_us).rest;
    tdi_wide soon = (tdi_wide)TDI_RATE_CHANGE_US * config->units_per_interval + rest;
    if (soon >= config->interval_us)
        return 0;
    tdi_wide carry = (tdi_wide)rest * next->interval_us / config->interval_us;
    if (is_stepped(config) && next->refill > config->refill)
        carry = carry * config->refill / next->refill; /* as many tokens as have gathered in this step */
    return (uint64_t)carry;
}
