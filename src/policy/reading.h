/* SPDX-License-Identifier: MIT */
/*
 * Inside of the environment's reader: the words that were found, and how they are complained about. First all
 * words are found in one pass (env.c), then those of one rule after another are read (env_rule.c), each in an
 * order in which nothing depends on a later one.
 */
#ifndef TUNDISH_POLICY_READING_H
#define TUNDISH_POLICY_READING_H

#include "policy/names.h"
#include "policy/policy.h"

enum tdi_word {
    TDI_WORD_BUCKET,
    TDI_WORD_RATE,
    TDI_WORD_BURST,
    TDI_WORD_COUNT,
    TDI_WORD_CALLS,
    TDI_WORD_DEST,
    TDI_WORD_WHEN_EMPTY,
    TDI_WORD_MAX_WAIT,
    TDI_WORD_ONLY,
    TDI_WORD_SKIP,
    TDI_WORDS_OF_RULE, /* the rest is for all rules and stands with the first one's */
    TDI_WORD_ON_ERROR = TDI_WORDS_OF_RULE,
    TDI_WORD_INHERIT,
    TDI_WORD_VERBOSE,
    TDI_WORD_OFF,
    TDI_WORDS,
};

struct tdi_reading {
    struct tdi_policy *policy;
    const char *program;
    const char *value[TDI_POLICY_RULES][TDI_WORDS]; /* NULL: not there */
    const char *stranger;                           /* a TUNDISH_ word nobody knows, with its '=' */
    uint32_t number;                                /* of the rule whose words are read, from 1 */
    char *why;
    size_t len;
    bool failed; /* the first complaint stays */
};

static inline const char *tdi_reading_value(const struct tdi_reading *r, enum tdi_word word)
{
    return r->value[r->number - 1][word];
}

/* "TUNDISH_2_RATE=5K/s: " and the reason in up to two parts. */
void tdi_reading_complain(struct tdi_reading *r, enum tdi_word word, const char *reason, const char *more);

/* "TUNDISH_2_RATE": the word of the rule that is read. */
#define TDI_WORD_NAME 32
void tdi_reading_name(const struct tdi_reading *r, enum tdi_word word, char name[TDI_WORD_NAME]);

/* Whether this rule has a bucket or a rate, and the program is not left out by it. */
bool tdi_reading_is_for_us(const struct tdi_reading *r);

/* Reads the words of rule r->number. What could be understood is in *rule, also after a complaint. */
void tdi_reading_rule(struct tdi_reading *r, struct tdi_policy_rule *rule);

/* A setting without anything to limit is a mistake; a preloaded library without any setting is at rest. */
void tdi_reading_refuse_idle(struct tdi_reading *r);

#endif
