/* SPDX-License-Identifier: MIT */
/* The words of one rule. */
#include <errno.h>
#include <string.h>

#include "policy/dest.h"
#include "policy/env.h"
#include "policy/reading.h"

static bool is_listed(const char *list, const char *program)
{
    const char *item;
    size_t len;
    while (tdi_list_next(&list, &item, &len))
        if (tdi_item_is(item, len, program))
            return true;
    return false;
}

static bool limits_something(const struct tdi_reading *r)
{
    return tdi_reading_value(r, TDI_WORD_BUCKET) != NULL || tdi_reading_value(r, TDI_WORD_RATE) != NULL;
}

bool tdi_reading_is_for_us(const struct tdi_reading *r)
{
    const char *only = tdi_reading_value(r, TDI_WORD_ONLY);
    const char *skip = tdi_reading_value(r, TDI_WORD_SKIP);
    return limits_something(r) && (only == NULL || is_listed(only, r->program)) &&
           (skip == NULL || !is_listed(skip, r->program));
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
            tdi_reading_complain(
                r, TDI_WORD_CALLS,
                "is a list of up, down, connect, write, writev, pwrite, pwritev, send, sendto, sendmsg, "
                "sendmmsg, sendfile, splice, copy_file_range, read, readv, pread, preadv, recv, recvfrom, ",
                "recvmsg, recvmmsg");
    }
}

static void read_when_empty(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    static const char *const manners[] = {
        [TDI_EMPTY_WAIT] = "wait", [TDI_EMPTY_DROP] = "drop", [TDI_EMPTY_OBSERVE] = "observe"};
    const char *value = tdi_reading_value(r, TDI_WORD_WHEN_EMPTY);
    if (value == NULL)
        return;
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        if (manners[i] != NULL && strcmp(value, manners[i]) == 0) {
            rule->when_empty = (enum tdi_when_empty)i;
            return;
        }
    if (strncmp(value, "refuse", 6) != 0 || (value[6] != '\0' && value[6] != ':')) {
        tdi_reading_complain(r, TDI_WORD_WHEN_EMPTY, "is wait, refuse, refuse:ERRNO, drop or observe", "");
        return;
    }
    rule->when_empty = TDI_EMPTY_REFUSE;
    if (value[6] == '\0')
        return;
    rule->refuse_errno = tdi_names_errno(value + 7);
    if (rule->refuse_errno == 0)
        tdi_reading_complain(
            r, TDI_WORD_WHEN_EMPTY,
            "an error is named as in errno(3): EAGAIN, ECONNREFUSED, EACCES, ETIMEDOUT, ENOBUFS",
            " and the like");
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
    const char *rest = tdi_reading_value(r, TDI_WORD_DEST);
    const char *item;
    size_t len;
    rule->dest = policy->dests;
    while (tdi_list_next(&rest, &item, &len)) {
        struct tdi_dest dest[2];
        char why[256];
        int count = tdi_dest_parse(item, len, dest, why, sizeof why);
        if (count < 0) {
            tdi_reading_complain(r, TDI_WORD_DEST, why, "");
            continue;
        }
        if (policy->dests + (uint32_t)count > TDI_POLICY_DESTS) {
            tdi_reading_complain(r, TDI_WORD_DEST, "more than 64 destinations", "");
            return;
        }
        memcpy(&policy->dest[policy->dests], dest, (size_t)count * sizeof *dest);
        policy->dests += (uint32_t)count;
        rule->dests += (uint32_t)count;
    }
}

/* What nobody expands must not turn into a file name with a percent sign. */
static bool check_name(struct tdi_reading *r, const char *name, size_t len)
{
    if (len == 0) {
        tdi_reading_complain(r, TDI_WORD_BUCKET, "an empty bucket name", "");
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (name[i] != '%')
            continue;
        char c = ++i < len ? name[i] : '\0';
        if (c == '\0' || strchr("punhP%", c) == NULL) {
            tdi_reading_complain(r, TDI_WORD_BUCKET,
                                 "after % comes p (process), u (user), n (program), h (destination), ",
                                 "P (its port) or another %");
            return false;
        }
    }
    return true;
}

static bool add_name(struct tdi_reading *r, struct tdi_policy_rule *rule, const char *name, size_t len)
{
    struct tdi_policy *policy = r->policy;
    if (!check_name(r, name, len))
        return false;
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
    if (value == NULL)
        return;
    if (strcmp(value, "bytes") == 0)
        rule->count = TDI_COUNT_BYTES;
    else if (strcmp(value, "calls") == 0)
        rule->count = TDI_COUNT_CALLS;
    else
        tdi_reading_complain(r, TDI_WORD_COUNT, "is bytes or calls", "");
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
    if (rule->rate.bytes && rule->count == TDI_COUNT_CALLS) {
        complain_of_other(r, TDI_WORD_RATE, "is in bytes, but ", TDI_WORD_COUNT, "=calls");
        return;
    }
    if (rule->count == TDI_COUNT_BY_BUCKET)
        rule->count = rule->rate.bytes ? TDI_COUNT_BYTES : TDI_COUNT_CALLS;
    rule->rate.bytes = rule->count == TDI_COUNT_BYTES;
    rule->has_rate = true;
    read_burst(r, rule);
}

void tdi_reading_rule(struct tdi_reading *r, struct tdi_policy_rule *rule)
{
    rule->number = r->number;
    rule->max_wait_ns = UINT64_MAX;
    read_calls(r, rule);
    read_dests(r, rule);
    read_when_empty(r, rule);
    read_max_wait(r, rule);
    read_buckets(r, rule);
    read_count(r, rule);
    read_rate(r, rule);
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
