/* SPDX-License-Identifier: MIT */
/*
 * Inside of the configuration file's reader: first the file is taken apart into sections and values
 * (conf_ini.c), then buckets, hooks and rules are made of them, in this order, so that a rule may stand
 * before what it names. Complaints are kept until the end and told in the order of their lines.
 */
#ifndef TUNDISH_POLICY_CONF_DRAFT_H
#define TUNDISH_POLICY_CONF_DRAFT_H

#include "policy/conf.h"

#define TDI_CONF_SECTIONS (TDI_CONF_BUCKETS + TDI_FROZEN_RULES + TDI_CONF_HOOKS)
#define TDI_CONF_TEXT 65536
#define TDI_CONF_TOLD 20
#define TDI_CONF_MESSAGE 768

enum tdi_conf_kind {
    TDI_CONF_BUCKET,
    TDI_CONF_RULE,
    TDI_CONF_HOOK,
    TDI_CONF_KINDS,
};

enum tdi_conf_key {
    TDI_KEY_RATE,
    TDI_KEY_BURST,
    TDI_KEY_INITIAL,
    TDI_KEY_MODE,
    TDI_KEY_FAIR,
    TDI_KEY_STEPPED,
    TDI_KEY_STRICT,
    TDI_KEY_CALLS,
    TDI_KEY_COUNT,
    TDI_KEY_PROGRAM,
    TDI_KEY_SKIP,
    TDI_KEY_DEST,
    TDI_KEY_BUCKET,
    TDI_KEY_WHEN_EMPTY,
    TDI_KEY_MAX_WAIT,
    TDI_KEY_SIGNATURE,
    TDI_KEY_COST,
    TDI_KEY_LIBRARY,
    TDI_KEY_EXACT,
    TDI_KEY_REFUSE,
    TDI_KEYS,
};

struct tdi_conf_value {
    unsigned line;    /* 0: not given */
    const char *text; /* NULL: not given, or complained about already */
};

struct tdi_conf_section {
    enum tdi_conf_kind kind;
    unsigned line;
    const char *name;
    unsigned number; /* among those of its kind, from 0 */
    struct tdi_conf_value value[TDI_KEYS];
    bool unread;    /* a line of it cannot be read, which was complained about: what it lacks is not known */
    bool implied;   /* no section: a rule names a function that is known */
    bool broken;    /* a hook that was complained about: what it lacks is not known */
    bool by_calls;  /* a hook that costs 1 because nobody said what else */
    bool refusable; /* a hook that can be refused */
    char result;    /* of a hook, its type */
};

struct tdi_conf_mistake {
    unsigned line;
    char message[TDI_CONF_MESSAGE];
};

struct tdi_conf_draft {
    struct tdi_conf *out;
    unsigned sections;
    unsigned count[TDI_CONF_KINDS]; /* sections of a kind */
    bool full[TDI_CONF_KINDS];      /* there were more of them, which was complained about */
    bool lost_hook; /* what may be a hook's heading was complained about, so its name is not known */
    struct tdi_conf_section section[TDI_CONF_SECTIONS];
    size_t text_used;
    char text[TDI_CONF_TEXT];
    unsigned mistakes; /* the first TDI_CONF_TOLD of which, by their lines, are kept */
    struct tdi_conf_mistake mistake[TDI_CONF_TOLD];
};

/* conf.c */

/* A mistake in that line. */
void tdi_conf_say(struct tdi_conf_draft *draft, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "rate = 5K/s: " and the reason, in the value's line. */
void tdi_conf_say_value(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                        enum tdi_conf_key key, const char *reason);

/* Keeps a text; NULL without room, which is complained about. */
const char *tdi_conf_note(struct tdi_conf_draft *draft, unsigned line, const char *text, size_t len);

/* Keeps a text in the frozen form; 0 without room, which is complained about. */
uint16_t tdi_conf_freeze(struct tdi_conf_draft *draft, unsigned line, const char *text, size_t len);

/* NULL if there are too many of its kind, which is complained about once. */
struct tdi_conf_section *tdi_conf_add(struct tdi_conf_draft *draft, enum tdi_conf_kind kind, unsigned line,
                                      const char *name);

/* The i-th section of a kind, or NULL. */
struct tdi_conf_section *tdi_conf_section(struct tdi_conf_draft *draft, enum tdi_conf_kind kind, unsigned i);

/* The section of that name, or NULL. */
struct tdi_conf_section *tdi_conf_find(struct tdi_conf_draft *draft, enum tdi_conf_kind kind,
                                       const char *name, size_t len);

static inline bool tdi_conf_has(const struct tdi_conf_section *section, enum tdi_conf_key key)
{
    return section->value[key].line != 0;
}

/* Reads yes or no; *out stays if the key is not there. */
void tdi_conf_read_flag(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                        enum tdi_conf_key key, bool *out);

extern const char *const tdi_conf_kinds[TDI_CONF_KINDS];
extern const char *const tdi_conf_keys[TDI_KEYS];

/* Whether sections of this kind have the key. */
bool tdi_conf_takes(enum tdi_conf_kind kind, enum tdi_conf_key key);

/* conf_ini.c: all of the file into sections. */
void tdi_conf_read_sections(struct tdi_conf_draft *draft, FILE *file);

/* conf_bucket.c, conf_hook.c, conf_rule.c: what the sections of one kind say, into draft->out. */
void tdi_conf_read_buckets(struct tdi_conf_draft *draft);
void tdi_conf_read_hooks(struct tdi_conf_draft *draft);
void tdi_conf_read_rules(struct tdi_conf_draft *draft);

/* Adds a hook for each function that rules name without a section; before tdi_conf_read_hooks. */
void tdi_conf_imply_hooks(struct tdi_conf_draft *draft);

#endif
