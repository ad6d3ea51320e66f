/* SPDX-License-Identifier: MIT */
/*
 * A configuration file in its frozen form: what the launcher has read and checked, for all programs, as one
 * plain object without pointers that is written to a file and read back as it is. Who reads it parses
 * nothing and allocates nothing, but believes nothing either.
 */
#ifndef TUNDISH_POLICY_FROZEN_H
#define TUNDISH_POLICY_FROZEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/cost.h"
#include "policy/policy.h"

#define TDI_FROZEN_RULES 64
#define TDI_FROZEN_DESTS 256
#define TDI_FROZEN_HOOKS 128 /* names of functions, aliases counted */
#define TDI_FROZEN_TEXT 32768

#define TDI_FROZEN_MAGIC UINT64_C(0x0a64726f7a657274) /* no text file begins like this */

/* A function that is hooked. Offsets are into tdi_frozen.text. */
struct tdi_frozen_hook {
    uint16_t symbol;
    uint16_t signature; /* compact, see signature.h */
    uint16_t library;   /* where to take the function from: a file name; 0: from where the caller would */
    uint8_t group;      /* the [hook] section it is from: a bit's number in tdi_policy_rule.hooks */
    uint8_t unused;
    struct tdi_cost cost;
    struct tdi_refusal refusal;
};

struct tdi_frozen_rule {
    struct tdi_policy_rule rule; /* dest and bucket[] are places in this object */
    uint16_t only, skip;         /* comma lists of programs; 0: none */
};

struct tdi_frozen {
    uint64_t magic;
    uint64_t fingerprint; /* of the version and of all sizes and offsets */
    uint64_t checksum;    /* of everything behind it */
    uint16_t source;      /* the configuration file's path, for what is said about it */
    uint16_t unused[3];
    uint32_t rules, dests, hooks, text_used;
    struct tdi_frozen_rule rule[TDI_FROZEN_RULES];
    struct tdi_dest dest[TDI_FROZEN_DESTS];
    struct tdi_frozen_hook hook[TDI_FROZEN_HOOKS];
    char text[TDI_FROZEN_TEXT]; /* text[0] is '\0' */
};

/* Empty; text_used is 1. */
void tdi_frozen_init(struct tdi_frozen *frozen);

/* Copies a string behind the others; the same one is kept once. Its place, or 0 if there is no room. */
uint16_t tdi_frozen_keep(struct tdi_frozen *frozen, const char *text, size_t len);

static inline const char *tdi_frozen_text(const struct tdi_frozen *frozen, uint16_t at)
{
    return frozen->text + at;
}

/* The last step: fingerprint and checksum. */
void tdi_frozen_seal(struct tdi_frozen *frozen);

/* How many bytes of it need to be written: the rest of `text` is zero. */
size_t tdi_frozen_size(const struct tdi_frozen *frozen);

/*
 * Whether what was read, `size` bytes of it, the rest being zero, is sound in every place and made by this
 * very version. 0, or -EINVAL with a static sentence in *why.
 */
int tdi_frozen_check(const struct tdi_frozen *frozen, size_t size, const char **why);

/*
 * Adds the rules for this program behind those that `policy` has. 0, or -EINVAL with one line in `why` if
 * they do not fit. applies is set if any was added.
 */
int tdi_frozen_add(struct tdi_policy *policy, const struct tdi_frozen *frozen, const char *program, char *why,
                   size_t len);

/* The rule's name as messages have it: "TUNDISH_2_RATE" rules are "rule 2", those of a file "rule \"api\"". */
void tdi_policy_rule_name(char *buf, size_t len, const struct tdi_policy *policy,
                          const struct tdi_policy_rule *rule);

#endif
