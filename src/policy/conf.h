/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: INI with sections [bucket "NAME"], [rule "NAME"] and [hook "FUNCTION"], read and
 * checked as a whole, and frozen but for one thing: the buckets of rules are still names as they were
 * written, because where a name lies is not known in this room. For the launcher only; libinih reads it.
 */
#ifndef TUNDISH_POLICY_CONF_H
#define TUNDISH_POLICY_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "policy/frozen.h"
#include "policy/unit.h"

#define TDI_CONF_BUCKETS 64
#define TDI_CONF_HOOKS 32
#define TDI_CONF_NAME 256
#define TDI_CONF_LINE 4096 /* bytes of the longest line, its end included */

struct tdi_conf_bucket {
    char name[TDI_CONF_NAME];
    unsigned line; /* where its section begins */
    struct tdi_rate rate;
    bool has_burst;
    uint32_t burst;
    bool has_initial;
    uint32_t initial;
    bool unfair, stepped, strict;
    uint32_t mode; /* permission bits, 0600 by default */
};

struct tdi_conf {
    uint32_t buckets;
    struct tdi_conf_bucket bucket[TDI_CONF_BUCKETS];
    struct tdi_frozen frozen; /* not sealed; a rule's bucket[] are names as written */
    unsigned rule_line[TDI_FROZEN_RULES];
    bool rule_counts[TDI_FROZEN_RULES]; /* it says itself what it counts */
    unsigned hook_line[TDI_CONF_HOOKS]; /* by group */
};

/* Told of each mistake: its line (0: none), and what is wrong and what would be right, one line of text. */
typedef void tdi_conf_complain(void *context, unsigned line, const char *message);

/*
 * Reads the whole of a file. The number of mistakes; with any, *out is of no use. The first 20 of them are
 * told in the order of their lines, and if there are others "and more", of line 0, at last.
 */
unsigned tdi_conf_read(struct tdi_conf *out, FILE *file, tdi_conf_complain *complain, void *context);

/* The section of a bucket of that name, or NULL. */
const struct tdi_conf_bucket *tdi_conf_find_bucket(const struct tdi_conf *conf, const char *name);

#endif
