/* SPDX-License-Identifier: MIT */
/*
 * The environment's words into rules. What decides how an error is treated (whom a rule is for, what to do on
 * an error, which calls) is read before anything that may fail. A rule that is for other programs is not read
 * at all: its mistakes are theirs.
 */
#include "policy/env.h"

#include <errno.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/reading.h"

static const char prefix[] = "TUNDISH_";

static const char *const words[TDI_WORDS] = {
    [TDI_WORD_BUCKET] = "BUCKET",
    [TDI_WORD_RATE] = "RATE",
    [TDI_WORD_BURST] = "BURST",
    [TDI_WORD_COUNT] = "COUNT",
    [TDI_WORD_CALLS] = "CALLS",
    [TDI_WORD_DEST] = "DEST",
    [TDI_WORD_WHEN_EMPTY] = "WHEN_EMPTY",
    [TDI_WORD_MAX_WAIT] = "MAX_WAIT",
    [TDI_WORD_ONLY] = "ONLY",
    [TDI_WORD_SKIP] = "SKIP",
    [TDI_WORD_ON_ERROR] = "ON_ERROR",
    [TDI_WORD_INHERIT] = "INHERIT",
    [TDI_WORD_VERBOSE] = "VERBOSE",
    [TDI_WORD_OFF] = "OFF",
};

/* Not settings of a rule: where buckets are, the configuration file, and what the launcher notes. */
static const char *const others[] = {"DIR", "CONFIG", "RUN", "RELAUNCHED"};

void tdi_reading_name(const struct tdi_reading *r, enum tdi_word word, char name[TDI_WORD_NAME])
{
    const char number[] = {(char)('0' + r->number), '_', '\0'};
    struct tdi_text text;
    tdi_text_start(&text, name, TDI_WORD_NAME);
    tdi_text_add(&text, prefix);
    tdi_text_add(&text, r->number > 1 ? number : "");
    tdi_text_add(&text, words[word]);
}

void tdi_reading_complain(struct tdi_reading *r, enum tdi_word word, const char *reason, const char *more)
{
    const char *value = tdi_reading_value(r, word);
    char name[TDI_WORD_NAME];
    struct tdi_text line;
    if (r->failed)
        return;
    r->failed = true;
    tdi_reading_name(r, word, name);
    tdi_text_start(&line, r->why, r->len);
    tdi_text_add(&line, name);
    if (value != NULL) {
        size_t len = strlen(value);
        tdi_text_add(&line, "=");
        tdi_text_add_item(&line, value, len < 80 ? len : 80);
    }
    tdi_text_add(&line, ": ");
    tdi_text_add(&line, reason);
    tdi_text_add(&line, more);
}

/* The rule's number that a name begins with, and the name moves behind it; 1 if it has none. */
static uint32_t take_number(const char **name, size_t *len)
{
    if (*len < 2 || (*name)[0] < '2' || (*name)[0] > '0' + TDI_POLICY_RULES || (*name)[1] != '_')
        return 1;
    uint32_t number = (uint32_t)((*name)[0] - '0');
    *name += 2;
    *len -= 2;
    return number;
}

static bool is_other(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tdi_item_is(name, len, others[i]))
            return true;
    return false;
}

static void find_word(struct tdi_reading *r, const char *setting)
{
    const char *name = setting + sizeof prefix - 1;
    const char *equals = strchr(name, '=');
    if (equals == NULL)
        return;
    size_t len = (size_t)(equals - name);
    const uint32_t number = take_number(&name, &len);
    const size_t known = number > 1 ? TDI_WORDS_OF_RULE : TDI_WORDS;
    size_t i = 0;
    while (i < known && !tdi_item_is(name, len, words[i]))
        i++;
    if (i < known) {
        const char **value = &r->value[number - 1][i];
        if (*value == NULL) /* the first one counts, as for getenv */
            *value = equals + 1;
    } else if (number > 1 || !is_other(name, len)) {
        r->stranger = setting;
    }
}

static void find_words(struct tdi_reading *r, char *const *settings)
{
    for (; settings != NULL && *settings != NULL; settings++)
        if (strncmp(*settings, prefix, sizeof prefix - 1) == 0)
            find_word(r, *settings);
}

static bool read_flag(struct tdi_reading *r, enum tdi_word word)
{
    const char *value = tdi_reading_value(r, word);
    if (value == NULL || strcmp(value, "0") == 0 || strcmp(value, "no") == 0 || *value == '\0')
        return false;
    if (strcmp(value, "1") != 0 && strcmp(value, "yes") != 0)
        tdi_reading_complain(r, word, "is 1 or 0", "");
    return true;
}

static void read_on_error(struct tdi_reading *r)
{
    const char *value = tdi_reading_value(r, TDI_WORD_ON_ERROR);
    if (value == NULL || strcmp(value, "pass") == 0)
        return;
    r->policy->fail = strcmp(value, "fail") == 0;
    if (!r->policy->fail)
        tdi_reading_complain(r, TDI_WORD_ON_ERROR, "is pass or fail", "");
}

static void read_inherit(struct tdi_reading *r)
{
    static const char *const manners[] = {
        [TDI_INHERIT_ENV] = "env", [TDI_INHERIT_ALWAYS] = "always", [TDI_INHERIT_NEVER] = "never"};
    const char *value = tdi_reading_value(r, TDI_WORD_INHERIT);
    if (value == NULL)
        return;
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        if (strcmp(value, manners[i]) == 0) {
            r->policy->inherit = (enum tdi_inherit)i;
            return;
        }
    tdi_reading_complain(r, TDI_WORD_INHERIT, "is env, always or never", "");
}

static void refuse_strangers(struct tdi_reading *r)
{
    if (r->stranger == NULL || r->failed)
        return;
    r->failed = true;
    const char *number = r->stranger + sizeof prefix - 1;
    size_t len = strcspn(r->stranger, "=");
    struct tdi_text line;
    tdi_text_start(&line, r->why, r->len);
    tdi_text_add_item(&line, r->stranger, len < 64 ? len : 64);
    tdi_text_add(&line, ": no such setting");
    if (*number >= '0' && *number <= '9')
        tdi_text_add(&line, "; rules are numbered 2 to 8 and have words of their own, as TUNDISH_2_RATE");
}

static void read_rules(struct tdi_reading *r)
{
    struct tdi_policy *policy = r->policy;
    for (r->number = 1; r->number <= TDI_POLICY_RULES; r->number++)
        if (tdi_reading_is_for_us(r))
            tdi_reading_rule(r, &policy->rule[policy->rules++]);
        else
            tdi_reading_refuse_idle(r);
    r->number = 1;
}

int tdi_policy_from_environ(struct tdi_policy *out, char *const *environ_words, const char *program,
                            char *why, size_t len)
{
    struct tdi_reading reading = {.policy = out, .program = program, .number = 1, .why = why, .len = len};
    struct tdi_reading *r = &reading;
    memset(out, 0, sizeof *out);
    find_words(r, environ_words);
    bool off = read_flag(r, TDI_WORD_OFF);
    out->off = off && !r->failed;
    if (out->off)
        return 0;
    out->verbose = read_flag(r, TDI_WORD_VERBOSE);
    read_on_error(r);
    read_inherit(r);
    read_rules(r);
    out->applies = out->rules > 0;
    refuse_strangers(r);
    return r->failed ? -EINVAL : 0;
}
