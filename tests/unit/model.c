/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <tundish/tundish.h>

#define LATE_WAKING_US 10000

static uint64_t units_per_interval(const struct model *model)
{
    return model->stepped ? 1 : model->refill;
}

static uint64_t limit(const struct model *model)
{
    return model->capacity + (model->queued ? model->extra : 0);
}

/* The fraction at `until_us`, with all the whole units gained since. */
static wide numerator(const struct model *model, uint64_t until_us)
{
    uint64_t span_us = until_us > model->at_us ? until_us - model->at_us : 0;
    return (wide)span_us * units_per_interval(model) + model->fraction;
}

static void adopt(struct model *model, const struct tdi_config *config)
{
    model->interval_us = config->interval_us;
    model->capacity = config->capacity;
    model->refill = config->refill;
    model->stepped = config->flags & TUNDISH_STEPPED;
    wide late = ((wide)LATE_WAKING_US * units_per_interval(model) + model->interval_us - 1) /
                model->interval_us * (model->stepped ? model->refill : 1);
    model->extra = config->flags & TUNDISH_STRICT ? 0 : (uint64_t)late;
}

struct model model_new(const struct tdi_config *config, uint64_t tokens)
{
    struct model model = {.tokens = tokens};
    adopt(&model, config);
    return model;
}

wide model_gained(const struct model *model, uint64_t until_us)
{
    return numerator(model, until_us) / model->interval_us * (model->stepped ? model->refill : 1);
}

uint64_t model_tokens(const struct model *model, uint64_t now_us)
{
    wide sum = model->tokens < limit(model) ? model->tokens : limit(model);
    sum += model_gained(model, now_us);
    return sum < limit(model) ? (uint64_t)sum : limit(model);
}

void model_settle(struct model *model, uint64_t now_us)
{
    model->tokens = model_tokens(model, now_us);
    model->fraction = (uint64_t)(numerator(model, now_us) % model->interval_us);
    model->at_us = now_us > model->at_us ? now_us : model->at_us;
}

uint64_t model_when(const struct model *model, uint64_t now_us, uint64_t n)
{
    struct model then = *model;
    model_settle(&then, now_us);
    if (n <= then.tokens)
        return now_us;
    uint64_t early = then.at_us, late = UINT64_MAX; /* not yet at `early`; at `late` or never */
    while (late - early > 1) {
        uint64_t middle = early + (late - early) / 2;
        if (model_gained(&then, middle) >= n - then.tokens)
            late = middle;
        else
            early = middle;
    }
    return late;
}

void model_configure(struct model *model, const struct tdi_config *config, uint64_t fraction)
{
    adopt(model, config);
    model->fraction = fraction;
}
