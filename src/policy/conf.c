/* SPDX-License-Identifier: MIT */
/*
 * The configuration file as a whole, and what its parts share: sections, texts and complaints. A mistake does
 * not end the reading, so that all of them are told at once.
 */
#include "policy/conf.h"

#include <stdarg.h>
#include <string.h>

#include "policy/conf_draft.h"
#include "policy/env.h"

#define OF(kind) (1U << TDI_CONF_##kind)

const char *const tdi_conf_kinds[TDI_CONF_KINDS] = {
    [TDI_CONF_BUCKET] = "bucket", [TDI_CONF_RULE] = "rule", [TDI_CONF_HOOK] = "hook"};

const char *const tdi_conf_keys[TDI_KEYS] = {
    [TDI_KEY_RATE] = "rate",         [TDI_KEY_BURST] = "burst",
    [TDI_KEY_INITIAL] = "initial",   [TDI_KEY_MODE] = "mode",
    [TDI_KEY_FAIR] = "fair",         [TDI_KEY_STEPPED] = "stepped",
    [TDI_KEY_STRICT] = "strict",     [TDI_KEY_CALLS] = "calls",
    [TDI_KEY_COUNT] = "count",       [TDI_KEY_PROGRAM] = "program",
    [TDI_KEY_SKIP] = "skip",         [TDI_KEY_DEST] = "dest",
    [TDI_KEY_BUCKET] = "bucket",     [TDI_KEY_WHEN_EMPTY] = "when-empty",
    [TDI_KEY_MAX_WAIT] = "max-wait", [TDI_KEY_SIGNATURE] = "signature",
    [TDI_KEY_COST] = "cost",         [TDI_KEY_LIBRARY] = "library",
    [TDI_KEY_EXACT] = "exact",       [TDI_KEY_REFUSE] = "refuse",
};

/* The kinds of sections that have a key. */
static const uint8_t takers[TDI_KEYS] = {
    [TDI_KEY_RATE] = OF(BUCKET) | OF(RULE),
    [TDI_KEY_BURST] = OF(BUCKET) | OF(RULE),
    [TDI_KEY_INITIAL] = OF(BUCKET),
    [TDI_KEY_MODE] = OF(BUCKET),
    [TDI_KEY_FAIR] = OF(BUCKET),
    [TDI_KEY_STEPPED] = OF(BUCKET),
    [TDI_KEY_STRICT] = OF(BUCKET),
    [TDI_KEY_CALLS] = OF(RULE),
    [TDI_KEY_COUNT] = OF(RULE),
    [TDI_KEY_PROGRAM] = OF(RULE),
    [TDI_KEY_SKIP] = OF(RULE),
    [TDI_KEY_DEST] = OF(RULE),
    [TDI_KEY_BUCKET] = OF(RULE),
    [TDI_KEY_WHEN_EMPTY] = OF(RULE),
    [TDI_KEY_MAX_WAIT] = OF(RULE),
    [TDI_KEY_SIGNATURE] = OF(HOOK),
    [TDI_KEY_COST] = OF(HOOK),
    [TDI_KEY_LIBRARY] = OF(HOOK),
    [TDI_KEY_EXACT] = OF(HOOK),
    [TDI_KEY_REFUSE] = OF(HOOK),
};

bool tdi_conf_takes(enum tdi_conf_kind kind, enum tdi_conf_key key)
{
    return (takers[key] >> kind & 1) != 0;
}

/* A place for a mistake, behind those of the same and of earlier lines; NULL if it comes too late. */
static struct tdi_conf_mistake *place_for(struct tdi_conf_draft *draft, unsigned line)
{
    unsigned kept = draft->mistakes < TDI_CONF_TOLD ? draft->mistakes : TDI_CONF_TOLD;
    unsigned at = kept;
    while (at > 0 && draft->mistake[at - 1].line > line)
        at--;
    if (at == TDI_CONF_TOLD)
        return NULL;
    if (kept == TDI_CONF_TOLD)
        kept--;
    memmove(&draft->mistake[at + 1], &draft->mistake[at], (kept - at) * sizeof *draft->mistake);
    return &draft->mistake[at];
}

void tdi_conf_say(struct tdi_conf_draft *draft, unsigned line, const char *format, ...)
{
    struct tdi_conf_mistake *mistake = place_for(draft, line);
    draft->mistakes++;
    if (mistake == NULL)
        return;
    va_list args;
    va_start(args, format);
    mistake->line = line;
    (void)vsnprintf(mistake->message, sizeof mistake->message, format, args);
    va_end(args);
    for (char *at = mistake->message; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = '?';
}

void tdi_conf_say_value(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                        enum tdi_conf_key key, const char *reason)
{
    const struct tdi_conf_value *value = &section->value[key];
    tdi_conf_say(draft, value->line, "%s = %.80s: %s", tdi_conf_keys[key], value->text, reason);
}

const char *tdi_conf_note(struct tdi_conf_draft *draft, unsigned line, const char *text, size_t len)
{
    char *at = draft->text + draft->text_used;
    if (len >= sizeof draft->text - draft->text_used) {
        tdi_conf_say(draft, line, "is too much: names and values of a file are at most 64 KiB");
        return NULL;
    }
    memcpy(at, text, len);
    at[len] = '\0';
    draft->text_used += len + 1;
    return at;
}

uint16_t tdi_conf_freeze(struct tdi_conf_draft *draft, unsigned line, const char *text, size_t len)
{
    uint16_t at = tdi_frozen_keep(&draft->out->frozen, text, len);
    if (at == 0)
        tdi_conf_say(draft, line, "is too much: the names in all rules and hooks are at most 32 KiB");
    return at;
}

struct tdi_conf_section *tdi_conf_add(struct tdi_conf_draft *draft, enum tdi_conf_kind kind, unsigned line,
                                      const char *name)
{
    static const unsigned most[TDI_CONF_KINDS] = {TDI_CONF_BUCKETS, TDI_FROZEN_RULES, TDI_CONF_HOOKS};
    if (draft->count[kind] == most[kind]) {
        if (!draft->full[kind])
            tdi_conf_say(draft, line, "more than %u %ss", most[kind], tdi_conf_kinds[kind]);
        draft->full[kind] = true;
        return NULL;
    }
    struct tdi_conf_section *section = &draft->section[draft->sections++];
    *section =
        (struct tdi_conf_section){.kind = kind, .line = line, .name = name, .number = draft->count[kind]++};
    return section;
}

struct tdi_conf_section *tdi_conf_section(struct tdi_conf_draft *draft, enum tdi_conf_kind kind, unsigned i)
{
    for (unsigned k = 0; k < draft->sections; k++)
        if (draft->section[k].kind == kind && draft->section[k].number == i)
            return &draft->section[k];
    return NULL;
}

struct tdi_conf_section *tdi_conf_find(struct tdi_conf_draft *draft, enum tdi_conf_kind kind,
                                       const char *name, size_t len)
{
    for (unsigned k = 0; k < draft->sections; k++)
        if (draft->section[k].kind == kind && tdi_item_is(name, len, draft->section[k].name))
            return &draft->section[k];
    return NULL;
}

void tdi_conf_read_flag(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                        enum tdi_conf_key key, bool *out)
{
    const char *text = section->value[key].text;
    if (text == NULL)
        return;
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        tdi_conf_say_value(draft, section, key, "is yes or no");
    *out = strcmp(text, "yes") == 0;
}

static void tell(const struct tdi_conf_draft *draft, tdi_conf_complain *complain, void *context)
{
    const unsigned kept = draft->mistakes < TDI_CONF_TOLD ? draft->mistakes : TDI_CONF_TOLD;
    for (unsigned i = 0; i < kept; i++)
        complain(context, draft->mistake[i].line, draft->mistake[i].message);
    if (kept < draft->mistakes)
        complain(context, 0, "and more");
}

unsigned tdi_conf_read(struct tdi_conf *out, FILE *file, tdi_conf_complain *complain, void *context)
{
    struct tdi_conf_draft draft;
    memset(&draft, 0, sizeof draft);
    memset(out, 0, sizeof *out);
    tdi_frozen_init(&out->frozen);
    draft.out = out;
    tdi_conf_read_sections(&draft, file);
    tdi_conf_read_buckets(&draft);
    tdi_conf_imply_hooks(&draft);
    tdi_conf_read_hooks(&draft);
    tdi_conf_read_rules(&draft);
    tell(&draft, complain, context);
    return draft.mistakes;
}

const struct tdi_conf_bucket *tdi_conf_find_bucket(const struct tdi_conf *conf, const char *name)
{
    for (uint32_t i = 0; i < conf->buckets; i++)
        if (strcmp(conf->bucket[i].name, name) == 0)
            return &conf->bucket[i];
    return NULL;
}
