/* SPDX-License-Identifier: MIT */
/*
 * [rule] sections. Each value is read by itself first; then those are compared that depend on each other or
 * on the buckets and hooks that the rule names.
 */
#include <string.h>

#include "policy/conf_draft.h"
#include "policy/env.h"
#include "policy/hooks.h"
#include "policy/names.h"
#include "policy/value.h"

#define CALLS_TEXT 256
#define FUNCTION_SHOWN 80

/* A rule on its way. */
struct reading {
    struct tdi_conf_draft *draft;
    const struct tdi_conf_section *section;
    struct tdi_frozen_rule *to;
    struct tdi_policy_rule *rule; /* &to->rule */
};

static const char *text_of(const struct reading *r, enum tdi_conf_key key)
{
    return r->section->value[key].text;
}

static unsigned line_of(const struct reading *r, enum tdi_conf_key key)
{
    return r->section->value[key].line;
}

static void say(const struct reading *r, enum tdi_conf_key key, const char *why)
{
    tdi_conf_say_value(r->draft, r->section, key, why);
}

/* Calls and programs. */

static void complain_of_call(const struct reading *r, const char *item, size_t len)
{
    const size_t shown = len < FUNCTION_SHOWN ? len : FUNCTION_SHOWN;
    const unsigned line = line_of(r, TDI_KEY_CALLS);
    char calls[CALLS_TEXT], name[FUNCTION_SHOWN + 1] = "";
    struct tdi_text list;
    tdi_text_start(&list, calls, sizeof calls);
    tdi_names_add_calls(&list);
    memcpy(name, item, shown);
    const char *obstacle = tdi_hook_obstacle(name);
    if (obstacle != NULL)
        tdi_conf_say(r->draft, line, "calls: '%s' is none of %s, and cannot be hooked: it %s", name, calls,
                     obstacle);
    else
        tdi_conf_say(r->draft, line,
                     "calls: '%s' is none of %s; any other function needs a section [hook \"%s\"]", name,
                     calls, name);
}

/*
 * Whether a function without a hook was complained about: one that is known has none if there were too many,
 * and any other one may have a section that came to nothing.
 */
static bool is_told(const struct reading *r, const char *item, size_t len)
{
    char name[FUNCTION_SHOWN + 1] = "";
    memcpy(name, item, len < FUNCTION_SHOWN ? len : FUNCTION_SHOWN);
    return r->draft->lost_hook || (len <= FUNCTION_SHOWN && tdi_known_hook(name) != NULL);
}

static void read_calls(const struct reading *r)
{
    const char *rest = text_of(r, TDI_KEY_CALLS), *item;
    size_t len;
    while (tdi_list_next(&rest, &item, &len)) {
        const struct tdi_conf_section *hook = tdi_conf_find(r->draft, TDI_CONF_HOOK, item, len);
        const uint32_t calls = tdi_names_call(item, len);
        r->rule->calls |= calls;
        if (len == 0)
            say(r, TDI_KEY_CALLS, "an empty name in the list");
        else if (calls == 0 && hook != NULL)
            r->rule->hooks |= UINT32_C(1) << hook->number;
        else if (calls == 0 && !is_told(r, item, len))
            complain_of_call(r, item, len);
    }
}

/* What would pass as a name that no program has, so that the rule holds for none. */
static const char *fault_of_program(const char *item, size_t len)
{
    if (len == 0)
        return "an empty name in the list";
    if (memchr(item, '/', len) != NULL)
        return "a program is known by its name alone, without its directory";
    if (memchr(item, '"', len) != NULL)
        return "a value stands without quotes";
    if (*item == '#' || memmem(item, len, " #", 2) != NULL)
        return "a comment behind a value begins with a ;";
    return NULL;
}

/* A list of programs, frozen as it is; 0 if there is none. */
static uint16_t read_programs(const struct reading *r, enum tdi_conf_key key)
{
    const char *list = text_of(r, key), *rest = list, *item, *why = NULL;
    size_t len;
    if (list == NULL)
        return 0;
    while (why == NULL && tdi_list_next(&rest, &item, &len))
        why = fault_of_program(item, len);
    if (why != NULL)
        say(r, key, why);
    return tdi_conf_freeze(r->draft, line_of(r, key), list, strlen(list));
}

/* Manners. */

static void read_dests(const struct reading *r)
{
    struct tdi_frozen *frozen = &r->draft->out->frozen;
    char why[256];
    r->rule->dest = frozen->dests;
    if (tdi_value_dests(text_of(r, TDI_KEY_DEST), frozen->dest, TDI_FROZEN_DESTS, &frozen->dests, why,
                        sizeof why) < 0)
        say(r, TDI_KEY_DEST, why);
    r->rule->dests = frozen->dests - r->rule->dest;
    if (r->rule->dests > TDI_POLICY_DESTS)
        say(r, TDI_KEY_DEST, "more than 64 destinations, of which a port alone is two");
}

static void read_manner(const struct reading *r)
{
    const char *when_empty = text_of(r, TDI_KEY_WHEN_EMPTY), *max_wait = text_of(r, TDI_KEY_MAX_WAIT);
    const char *count = text_of(r, TDI_KEY_COUNT), *why = "";
    r->rule->max_wait_ns = UINT64_MAX;
    if (when_empty != NULL && tdi_value_when_empty(when_empty, r->rule, &why) < 0)
        say(r, TDI_KEY_WHEN_EMPTY, why);
    if (max_wait != NULL && tdi_unit_parse_duration_ns(max_wait, &r->rule->max_wait_ns, &why) < 0)
        say(r, TDI_KEY_MAX_WAIT, why);
    if (count != NULL && tdi_value_count(count, &r->rule->count, &why) < 0)
        say(r, TDI_KEY_COUNT, why);
}

/* Buckets. */

static bool add_bucket(const struct reading *r, const char *item, size_t len)
{
    const char *why = "";
    if (tdi_value_bucket(item, len, &why) == 0 && r->rule->buckets == TDI_POLICY_BUCKETS)
        why = "more than 8 buckets";
    if (*why != '\0') {
        say(r, TDI_KEY_BUCKET, why);
        return false;
    }
    uint16_t at = tdi_conf_freeze(r->draft, line_of(r, TDI_KEY_BUCKET), item, len);
    if (at != 0)
        r->rule->bucket[r->rule->buckets++] = at;
    return at != 0;
}

static void read_buckets(const struct reading *r)
{
    const char *rest = text_of(r, TDI_KEY_BUCKET), *item;
    size_t len;
    while (tdi_list_next(&rest, &item, &len) && add_bucket(r, item, len))
        continue;
}

static const char *bucket_name(const struct reading *r, uint32_t i)
{
    return tdi_frozen_text(&r->draft->out->frozen, r->rule->bucket[i]);
}

/* The section of the rule's i-th bucket; NULL if there is none, or none whose rate could be read. */
static const struct tdi_conf_bucket *bucket_section(const struct reading *r, uint32_t i)
{
    const struct tdi_conf_bucket *bucket = tdi_conf_find_bucket(r->draft->out, bucket_name(r, i));
    return bucket != NULL && bucket->rate.refill != 0 ? bucket : NULL;
}

/* One rule counts one thing: what its buckets hold, unless it says so itself. */
static void settle_count(const struct reading *r)
{
    const struct tdi_conf_bucket *first = NULL;
    const enum tdi_count chosen = r->rule->count;
    for (uint32_t i = 0; i < r->rule->buckets; i++) {
        const struct tdi_conf_bucket *bucket = bucket_section(r, i);
        if (bucket == NULL)
            continue;
        if (bucket->rate.bytes && chosen == TDI_COUNT_CALLS)
            tdi_conf_say(r->draft, line_of(r, TDI_KEY_COUNT),
                         "count = calls, but the rate of [bucket \"%s\"] is in bytes", bucket->name);
        else if (first != NULL && chosen == TDI_COUNT_BY_BUCKET && bucket->rate.bytes != first->rate.bytes)
            tdi_conf_say(r->draft, line_of(r, TDI_KEY_BUCKET),
                         "[bucket \"%s\"] counts %s and [bucket \"%s\"] %s; a rule counts one of them",
                         first->name, first->rate.bytes ? "bytes" : "calls", bucket->name,
                         bucket->rate.bytes ? "bytes" : "calls");
        else if (chosen == TDI_COUNT_BY_BUCKET)
            r->rule->count = bucket->rate.bytes ? TDI_COUNT_BYTES : TDI_COUNT_CALLS;
        first = first != NULL ? first : bucket;
    }
}

/* A bucket that a program makes when it first uses it is made as the rule says. */
static void take_rate(const struct reading *r, const struct tdi_conf_bucket *bucket)
{
    if (r->rule->buckets > 1) {
        tdi_conf_say(r->draft, line_of(r, TDI_KEY_BUCKET),
                     "bucket: '%s' is made when it is first used, and then it is its rule's only one; write "
                     "two rules",
                     bucket->name);
        return;
    }
    r->rule->has_rate = true;
    r->rule->has_burst = bucket->has_burst;
    r->rule->rate = bucket->rate;
    r->rule->burst = bucket->burst;
    (void)tdi_value_settle(r->rule);
}

static void check_keyed(const struct reading *r)
{
    for (uint32_t i = 0; i < r->rule->buckets; i++) {
        const char *name = bucket_name(r, i);
        const struct tdi_conf_bucket *bucket = bucket_section(r, i);
        if (!tdi_policy_name_has(name, "hPpn"))
            continue;
        if (bucket != NULL)
            take_rate(r, bucket);
        else if (r->rule->count == TDI_COUNT_BY_BUCKET && !tdi_conf_has(r->section, TDI_KEY_COUNT) &&
                 tdi_conf_find_bucket(r->draft->out, name) == NULL)
            tdi_conf_say(
                r->draft, line_of(r, TDI_KEY_BUCKET),
                "bucket: '%.80s' is not there yet; write a section [bucket \"%.80s\"], or count = bytes or "
                "calls",
                name, name);
    }
}

/* Quotas. */

static void read_quota(const struct reading *r)
{
    const char *rate = text_of(r, TDI_KEY_RATE), *burst = text_of(r, TDI_KEY_BURST), *why = "";
    struct tdi_policy_rule *rule = r->rule;
    if (rate == NULL)
        return;
    if (tdi_unit_parse_rate(rate, &rule->rate, &why) < 0) {
        say(r, TDI_KEY_RATE, why);
        return;
    }
    if (!tdi_value_settle(rule)) {
        say(r, TDI_KEY_RATE, "is in bytes, but count = calls");
        return;
    }
    rule->has_rate = true;
    rule->has_burst = burst != NULL;
    rule->burst = tdi_unit_default_burst(&rule->rate);
    if (burst != NULL && tdi_unit_parse_burst(burst, &rule->rate, &rule->burst, &why) < 0)
        say(r, TDI_KEY_BURST, why);
}

/* A rate and a burst with buckets are theirs. */
static void refuse_quota(const struct reading *r)
{
    const enum tdi_conf_key key = tdi_conf_has(r->section, TDI_KEY_RATE) ? TDI_KEY_RATE : TDI_KEY_BURST;
    if (tdi_conf_has(r->section, key))
        tdi_conf_say(r->draft, line_of(r, key),
                     "the %s of a bucket stands in its own section: [bucket \"%.80s\"]", tdi_conf_keys[key],
                     r->rule->buckets > 0 ? bucket_name(r, 0) : "NAME");
}

static void read_limit(const struct reading *r)
{
    const bool has_rate = tdi_conf_has(r->section, TDI_KEY_RATE);
    if (tdi_conf_has(r->section, TDI_KEY_BUCKET)) {
        read_buckets(r);
        refuse_quota(r);
        settle_count(r);
        check_keyed(r);
        return;
    }
    read_quota(r);
    if (!has_rate && tdi_conf_has(r->section, TDI_KEY_BURST) && !r->section->unread)
        tdi_conf_say(r->draft, line_of(r, TDI_KEY_BURST), "a burst goes with a rate");
    else if (!has_rate && !r->section->unread)
        tdi_conf_say(r->draft, r->section->line,
                     "[rule \"%s\"] limits nothing; write bucket = NAME, or rate = 10/s for a quota of each "
                     "process",
                     r->section->name);
}

/* Hooks. */

static void refuse_places(const struct reading *r)
{
    const char *remedy = r->rule->calls != 0 ? "; write two rules" : "";
    if (text_of(r, TDI_KEY_DEST) != NULL)
        tdi_conf_say(r->draft, line_of(r, TDI_KEY_DEST),
                     "dest: functions that are hooked have no destination%s", remedy);
    for (uint32_t i = 0; i < r->rule->buckets; i++)
        if (tdi_policy_name_has(bucket_name(r, i), "hP"))
            tdi_conf_say(r->draft, line_of(r, TDI_KEY_BUCKET),
                         "bucket: '%.80s' is for each destination, and functions that are hooked have none%s",
                         bucket_name(r, i), remedy);
}

static void refuse_manners_of_calls(const struct reading *r)
{
    if (r->rule->when_empty == TDI_EMPTY_DROP)
        say(r, TDI_KEY_WHEN_EMPTY,
            "only datagrams are dropped; functions that are hooked wait or are refused");
    if (r->rule->refuse_errno != 0)
        say(r, TDI_KEY_WHEN_EMPTY, "is refuse alone; the section of a hook says with which error it refuses");
}

static const char *example_of_refusal(const struct tdi_conf_section *hook)
{
    return hook->result == 'p'                    ? "NULL ENOMEM"
           : hook->result == 'v'                  ? "nothing"
           : strchr("BHIL", hook->result) != NULL ? "0 EAGAIN"
                                                  : "-1 EAGAIN";
}

static void demand_refusal(const struct reading *r, struct tdi_conf_section *hook)
{
    const enum tdi_conf_key key =
        r->rule->when_empty == TDI_EMPTY_REFUSE ? TDI_KEY_WHEN_EMPTY : TDI_KEY_MAX_WAIT;
    const char *example = example_of_refusal(hook);
    if (hook->implied)
        tdi_conf_say(
            r->draft, line_of(r, key),
            "%s: what %s returns when it is refused must be said: write a section [hook \"%s\"] with "
            "refuse = %s",
            tdi_conf_keys[key], hook->name, hook->name, example);
    else if (hook->result == '{')
        tdi_conf_say(r->draft, line_of(r, key),
                     "%s: %s returns a struct, which cannot be made up: its calls can only wait",
                     tdi_conf_keys[key], hook->name);
    else
        tdi_conf_say(r->draft, hook->line,
                     "rule \"%s\" may refuse %s, so say what it returns then, as refuse = %s",
                     r->section->name, hook->name, example);
    hook->broken = hook->result != '{'; /* once is enough, where it is the hook that must change */
}

static void demand_bytes(const struct reading *r, const struct tdi_conf_section *hook)
{
    tdi_conf_say(
        r->draft, line_of(r, TDI_KEY_CALLS),
        "[rule \"%s\"] counts bytes, but %s costs 1 for each call; %s [hook \"%s\"] with cost = argN, "
        "strlen(argN), result or the like",
        r->section->name, hook->name, hook->implied ? "write a section" : "complete", hook->name);
}

static void refuse_bytes_of_connections(const struct reading *r)
{
    if (r->rule->calls == TDI_CALL_CONNECT && r->rule->count == TDI_COUNT_BYTES)
        say(r, TDI_KEY_CALLS, "the rule counts bytes, but a connection is a call: 10/s");
}

static void check_hooks(const struct reading *r)
{
    struct tdi_conf_section *hook;
    const bool refuses = r->rule->when_empty == TDI_EMPTY_REFUSE || r->rule->max_wait_ns != UINT64_MAX;
    if (r->rule->hooks == 0)
        return;
    refuse_places(r);
    if (r->rule->calls == 0)
        refuse_manners_of_calls(r);
    for (unsigned i = 0; (hook = tdi_conf_section(r->draft, TDI_CONF_HOOK, i)) != NULL; i++) {
        if ((r->rule->hooks >> i & 1) == 0 || hook->broken)
            continue;
        if (r->rule->count == TDI_COUNT_BYTES && hook->by_calls)
            demand_bytes(r, hook);
        if (refuses && !hook->refusable)
            demand_refusal(r, hook);
    }
}

static void read_rule(struct tdi_conf_draft *draft, const struct tdi_conf_section *section)
{
    struct tdi_conf *out = draft->out;
    struct tdi_frozen_rule *to = &out->frozen.rule[out->frozen.rules];
    const struct reading r = {draft, section, to, &to->rule};
    out->rule_counts[out->frozen.rules] = tdi_conf_has(section, TDI_KEY_COUNT);
    out->rule_line[out->frozen.rules++] = section->line;
    r.rule->name = tdi_conf_freeze(draft, section->line, section->name, strlen(section->name));
    to->only = read_programs(&r, TDI_KEY_PROGRAM);
    r.rule->named = to->only != 0;
    to->skip = read_programs(&r, TDI_KEY_SKIP);
    read_calls(&r);
    read_dests(&r);
    read_manner(&r);
    read_limit(&r);
    refuse_bytes_of_connections(&r);
    check_hooks(&r);
}

void tdi_conf_read_rules(struct tdi_conf_draft *draft)
{
    const struct tdi_conf_section *section;
    while ((section = tdi_conf_section(draft, TDI_CONF_RULE, draft->out->frozen.rules)) != NULL)
        read_rule(draft, section);
}
