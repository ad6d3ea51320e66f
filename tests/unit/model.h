/* SPDX-License-Identifier: MIT */
/*
 * A bucket as one would write it on paper: tokens, an exact fraction of the next one, and the instant both
 * are counted at, moved on by addition and division. Nothing here is shared with the code under test.
 * Numerators stay below 2^64 * 2^32 + 2^45, so 128 bits always do.
 */
#ifndef TUNDISH_TESTS_UNIT_MODEL_H
#define TUNDISH_TESTS_UNIT_MODEL_H

#include "unit.h"

struct model {
    uint64_t tokens;
    uint64_t fraction; /* of a token, or of a step: over interval_us */
    uint64_t at_us;
    uint64_t interval_us;
    uint64_t capacity;
    uint64_t refill;
    uint64_t extra; /* above the capacity while somebody is in line */
    bool stepped;
    bool queued;
};

/* The rules of *config for a bucket that has `tokens` at the instant 0. */
struct model model_new(const struct tdi_config *config, uint64_t tokens);

/* Tokens at now_us, or at the model's own instant if that is later. Changes nothing. */
uint64_t model_tokens(const struct model *model, uint64_t now_us);

/* Moves the model's instant on to now_us, if that is later. */
void model_settle(struct model *model, uint64_t now_us);

/* Tokens gained from the model's instant until `until_us`, were there no capacity. */
wide model_gained(const struct model *model, uint64_t until_us);

/* The first instant from now_us on by which n tokens will have been gained on top of what is there. */
uint64_t model_when(const struct model *model, uint64_t now_us, uint64_t n);

/* Other rules from the model's instant on; `fraction` is what is left of the fraction. */
void model_configure(struct model *model, const struct tdi_config *config, uint64_t fraction);

#endif
