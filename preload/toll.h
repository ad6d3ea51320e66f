/* SPDX-License-Identifier: MIT */
/* What a call costs: the shares of it that each bucket of each rule takes, and how the rules want it held. */
#ifndef TUNDISH_PRELOAD_TOLL_H
#define TUNDISH_PRELOAD_TOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "gate.h"
#include "rule.h"

struct tdi_share {
    struct tundish *bucket;
    bool bytes;     /* a token for each byte */
    uint8_t calls;  /* tokens for the call as such */
    uint8_t manner; /* enum tdi_when_empty */
};

struct tdi_toll {
    uint32_t firm;        /* the first of the shares: all of them must grant */
    uint32_t count;       /* the rest are dry runs, which take what they get */
    bool bytes;           /* a firm share takes bytes */
    bool refuse;          /* a rule refuses rather than waits */
    bool drop;            /* a rule would rather throw datagrams away */
    int refuse_errno;     /* of the rule that refuses, or limits the wait */
    uint64_t max_wait_ns; /* the shortest of the rules */
    struct tdi_share share[TDI_POLICY_ALL_BUCKETS];
};

/* Writes what the call costs; count is 0 if no rule concerns it. */
void tdi_toll_of(struct tdi_toll *toll, const struct tdi_rules *rules, const struct tdi_call *call);

/*
 * The same for a call of a hook, by its bit in tdi_policy_rule.hooks. A share takes the hook's own cost if
 * its rule counts bytes, or if the cost is tokens per call anyway; then it is one of `bytes`.
 */
void tdi_toll_of_hook(struct tdi_toll *toll, const struct tdi_rules *rules, uint32_t bit, bool per_call);

/* Whether two calls are charged alike, so that tokens granted to one will do for the other. */
bool tdi_toll_same(const struct tdi_toll *a, const struct tdi_toll *b);

#endif
