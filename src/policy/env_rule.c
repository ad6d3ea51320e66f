/* SPDX-License-Identifier: MIT */
/* The words of one rule. */
#include <string.h>

#include "policy/env.h"
#include "policy/reading.h"
#include "policy/value.h"

static bool limits_something(const struct tdi_reading *r)
{
    return tdi_reading_value(r, TDI_WORD_BUCKET) != NULL || tdi_reading_value(r, TDI_WORD_RATE) != NULL;
}

bool tdi_reading_is_for_us(const struct tdi_reading *r)
{
    const char *only = tdi_reading_value(r, TDI_WORD_ONLY);
    const char *skip = tdi_reading_value(r, TDI_WORD_SKIP);
    return limits_something(r) && (only == NULL || tdi_value_lists(only, r->program)) &&
           (skip == NULL || !tdi_value_lists(skip, r->program));
}

static void complain_of_calls(struct tdi_reading *r)
{
    char calls[256];
    struct tdi_text list;
    tdi_text_start(&list, calls, sizeof calls);
    tdi_names_add_calls(&list);
    tdi_reading_complain(r, TDI_WORD_CALLS, "is a list of ", calls);
}

static void read_calls(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    const char *rest = tdi_reading_value(r, TDI_WORD_CALLS);
    const char *item;
    size_t len;
    while (tdi_list_next(&rest, &item, &len)) {
        uint32_t calls = tdi_names_call(item, len);
        rule->calls |= calls;
        if (calls == 0)
            complain_of_calls(r);
    }
}

static void read_when_empty(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    const char *value = tdi_reading_value(r, TDI_WORD_WHEN_EMPTY);
    const char *why = "";
    if (value != NULL && tdi_value_when_empty(value, rule, &why) < 0)
        tdi_reading_complain(r, TDI_WORD_WHEN_EMPTY, why, "");
}

static void read_max_wait(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    const char *value = tdi_reading_value(r, TDI_WORD_MAX_WAIT);
    const char *why = "";
    if (value != NULL && tdi_unit_parse_duration_ns(value, &rule->max_wait_ns, &why) < 0)
        tdi_reading_complain(r, TDI_WORD_MAX_WAIT, why, "");
}

static void read_dests(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    struct tdi_policy *policy = r->policy;
    const char *list = tdi_reading_value(r, TDI_WORD_DEST);
    char why[256];
    rule->dest = policy->dests;
    if (tdi_value_dests(list, policy->dest, TDI_POLICY_DESTS, &policy->dests, why, sizeof why) < 0)
        tdi_reading_complain(r, TDI_WORD_DEST, why, "");
    rule->dests = policy->dests - rule->dest;
}

static bool add_name(struct tdi_reading *r, struct tdi_policy_rule *rule, const char *name, size_t len)
{
    struct tdi_policy *policy = r->policy;
    const char *why = "";
    if (tdi_value_bucket(name, len, &why) < 0) {
        tdi_reading_complain(r, TDI_WORD_BUCKET, why, "");
        return false;
    }
    if (rule->buckets == TDI_POLICY_BUCKETS) {
        tdi_reading_complain(r, TDI_WORD_BUCKET, "more than 8 buckets", "");
        return false;
    }
    if (len >= sizeof policy->text - policy->text_used) {
        tdi_reading_complain(r, TDI_WORD_BUCKET, "the names of all rules are longer than 4095 bytes", "");
        return false;
    }
    rule->bucket[rule->buckets++] = (uint16_t)policy->text_used;
    memcpy(policy->text + policy->text_used, name, len);
    policy->text_used += (uint32_t)len;
    policy->text[policy->text_used++] = '\0';
    return true;
}

static void read_buckets(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    const char *rest = tdi_reading_value(r, TDI_WORD_BUCKET);
    const char *item;
    size_t len;
    while (tdi_list_next(&rest, &item, &len) && add_name(r, rule, item, len))
        continue;
}

static void read_count(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    const char *value = tdi_reading_value(r, TDI_WORD_COUNT);
    const char *why = "";
    if (value != NULL && tdi_value_count(value, &rule->count, &why) < 0)
        tdi_reading_complain(r, TDI_WORD_COUNT, why, "");
}

/* The reason, and the name of another word of the rule with what follows it. */
static void complain_of_other(struct tdi_reading *r, enum tdi_word word, const char *reason,
                              enum tdi_word other, const char *more)
{
    char name[TDI_WORD_NAME], text[2 * TDI_WORD_NAME];
    struct tdi_text line;
    tdi_reading_name(r, other, name);
    tdi_text_start(&line, text, sizeof text);
    tdi_text_add(&line, name);
    tdi_text_add(&line, more);
    tdi_reading_complain(r, word, reason, text);
}

static void read_burst(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    const char *value = tdi_reading_value(r, TDI_WORD_BURST);
    const char *why = "";
    rule->burst = tdi_unit_default_burst(&rule->rate);
    rule->has_burst = value != NULL;
    if (value != NULL && tdi_unit_parse_burst(value, &rule->rate, &rule->burst, &why) < 0)
        tdi_reading_complain(r, TDI_WORD_BURST, why, "");
}

static void read_rate(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    const char *value = tdi_reading_value(r, TDI_WORD_RATE);
    const char *why = "";
    if (value == NULL) {
        if (tdi_reading_value(r, TDI_WORD_BURST) != NULL)
            complain_of_other(r, TDI_WORD_BURST, "a burst goes with ", TDI_WORD_RATE, "");
        return;
    }
    if (tdi_unit_parse_rate(value, &rule->rate, &why) < 0) {
        tdi_reading_complain(r, TDI_WORD_RATE, why, "");
        return;
    }
    if (!tdi_value_settle(rule)) {
        complain_of_other(r, TDI_WORD_RATE, "is in bytes, but ", TDI_WORD_COUNT, "=calls");
        return;
    }
    rule->has_rate = true;
    read_burst(r, rule);
}

static void refuse_bytes_of_connects(struct tdi_reading *r, const struct tdi_policy_rule *rule)
{
    if (rule->calls == TDI_CALL_CONNECT && rule->count == TDI_COUNT_BYTES)
        complain_of_other(r, TDI_WORD_CALLS, "a connect has no bytes; ", TDI_WORD_COUNT, "=calls counts it");
}

void tdi_reading_rule(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    rule->number = r->number;
    rule->named = tdi_reading_value(r, TDI_WORD_ONLY) != NULL;
    rule->max_wait_ns = UINT64_MAX;
    read_calls(r, rule);
    read_dests(r, rule);
    read_when_empty(r, rule);
    read_max_wait(r, rule);
    read_buckets(r, rule);
    read_count(r, rule);
    read_rate(r, rule);
    refuse_bytes_of_connects(r, rule);
}

void tdi_reading_refuse_idle(struct tdi_reading *r)
{
    static const enum tdi_word idle[] = {TDI_WORD_BURST, TDI_WORD_COUNT,      TDI_WORD_CALLS,
                                         TDI_WORD_DEST,  TDI_WORD_WHEN_EMPTY, TDI_WORD_MAX_WAIT};
    char or_rate[sizeof " or " + TDI_WORD_NAME] = " or ";
    if (limits_something(r))
        return;
    tdi_reading_name(r, TDI_WORD_RATE, or_rate + strlen(or_rate));
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (tdi_reading_value(r, idle[i]) != NULL)
            complain_of_other(r, idle[i], "there is nothing to limit without ", TDI_WORD_BUCKET, or_rate);
}
