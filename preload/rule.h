/* SPDX-License-Identifier: MIT */
/* The one rule of this process: the frozen policy and its open buckets. */
#ifndef TUNDISH_PRELOAD_RULE_H
#define TUNDISH_PRELOAD_RULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"
#include "tundish/tundish.h"

struct tdi_rule {
    uint32_t calls; /* TDI_CALL_ bits */
    bool bytes;     /* a token is a byte, else a call */
    bool broken;    /* it cannot be obeyed, and its calls are to fail */
    uint32_t buckets;
    struct tundish *bucket[TDI_POLICY_BUCKETS]; /* all must grant */
    struct tdi_policy policy;
};

/* What went through the gate in this process, for the line at the end. */
struct tdi_tally {
    _Atomic uint64_t calls;
    _Atomic uint64_t tokens;
    _Atomic uint64_t refused;
    _Atomic uint64_t waited_ns;
};

extern struct tdi_tally tdi_tally;

/*
 * Reads the environment and opens the buckets. Says at most one line. Once, from the constructor; until it
 * has ended there is no rule and calls pass.
 */
void tdi_rule_open(int argc, char *const *argv, char *const *environ_words);

/* The rule, NULL if there is none (yet). */
const struct tdi_rule *tdi_rule(void);

/*
 * No rule any more: the program is about to forbid itself system calls, and ours, or the clock, may then be
 * its death. And back, if that failed.
 */
void tdi_rule_stand_down(void);
void tdi_rule_stand_up(void);

/* The line at the end, if it was asked for. */
void tdi_rule_report(void);

/* The process ends: its buckets need not look for it any more. Calls may still come. */
void tdi_rule_leave(void);

#endif
