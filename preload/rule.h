/* SPDX-License-Identifier: MIT */
/* The rules of this process: the frozen policy and its open buckets. */
#ifndef TUNDISH_PRELOAD_RULE_H
#define TUNDISH_PRELOAD_RULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"
#include "tundish/tundish.h"

struct tdi_rule {
    const struct tdi_policy_rule *policy;
    const struct tdi_policy *all; /* of which that is one */
    uint32_t calls;               /* TDI_CALL_ bits */
    bool bytes;                   /* a token is a byte, else a call */
    bool placed;                  /* it is not for every destination of the kinds it reaches */
    bool keyed;                   /* a bucket's name depends on the destination */
    uint32_t buckets;
    uint32_t first;                             /* the first one's number among those of all rules */
    struct tundish *bucket[TDI_POLICY_BUCKETS]; /* all must grant; NULL for a keyed one */
    const char *path[TDI_POLICY_BUCKETS];       /* of a keyed one, with its keys still in it */
};

struct tdi_rules {
    uint32_t calls; /* of all rules */
    bool broken;    /* they cannot be obeyed, and their calls are to fail */
    bool placed;    /* some rule is placed or keyed: who the peer is matters */
    bool hosted;    /* some bucket's name has %h */
    bool ported;    /* some bucket's name has %P */
    bool files;     /* some rule reaches what is no socket */
    /*
     * The one bucket, if there is one rule with one bucket, nothing is watched and nobody wants to hear of it:
     * then a call with tokens for it needs no more than them.
     */
    struct tundish *plain;
    uint32_t count;
    struct tdi_rule rule[TDI_POLICY_RULES];
    struct tdi_policy policy;
};

/* Options to make a rule's bucket with. */
struct tundish_options tdi_rule_options(const struct tdi_policy_rule *policy);

/* What went through the gate in this process, for the line at the end. */
struct tdi_tally {
    _Atomic uint64_t calls;
    _Atomic uint64_t bytes;   /* tokens of rules that count bytes */
    _Atomic uint64_t counted; /* tokens of the others */
    _Atomic uint64_t refused;
    _Atomic uint64_t dropped;
    _Atomic uint64_t waited_ns;
    _Atomic uint64_t late; /* calls that a dry run would have held */
};

extern struct tdi_tally tdi_tally;

/*
 * Reads the environment and opens the buckets. Says at most one line. Once, from the constructor; until it
 * has ended there are no rules and calls pass.
 */
void tdi_rules_open(int argc, char *const *argv, char *const *environ_words);

extern _Atomic(const struct tdi_rules *) tdi_rules_published;

/* The rules, NULL if there are none (yet). */
static inline const struct tdi_rules *tdi_rules(void)
{
    /* Pairs with the release in publish: the rules must be complete before they are seen. */
    return atomic_load_explicit(&tdi_rules_published, memory_order_acquire);
}

/*
 * No rules any more: the program is about to forbid itself system calls, and ours, or the clock, may then be
 * its death. And back, if that failed.
 */
void tdi_rules_stand_down(void);
void tdi_rules_stand_up(void);

/* The rules cannot be obeyed: says so, and calls pass or fail as the user wants. Says it once. */
void tdi_rules_give_up(const char *subject, const char *reason, const char *more);

/* The line at the end, if it was asked for. */
void tdi_rules_report(void);

/*
 * A process is about to be made that will use the buckets and is not listed yet: they are kept for it.
 * Signal-safe; also for a child that lives in its parent's memory and is about to execute.
 */
void tdi_rules_forking(void);

/* The process ends: its buckets need not look for it any more. Calls may still come. */
void tdi_rules_leave(void);

#endif
