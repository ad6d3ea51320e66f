/* SPDX-License-Identifier: MIT */
/*
 * Opening happens once, in the constructor, while the environment and the directory of names are what the
 * launcher saw; a program may have dropped its environment, its privileges or its root later. Only names
 * that depend on a destination have to wait for it, and their directory is found now.
 */
#include "open.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/handle.h"
#include "lib/name.h"
#include "policy/env.h"
#include "policy/frozen.h"
#include "ready/debt.h"

#define RULE_NAME 80 /* of a configuration file's rule, longer ones are cut */

struct tundish_options tdi_rule_options(const struct tdi_policy_rule *policy)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(policy->burst, policy->rate.refill);
    options.interval_us = policy->rate.interval_us;
    options.flags = policy->rate.bytes ? TUNDISH_BYTES : 0;
    return options;
}

/* "TUNDISH_RATE", "TUNDISH_2_RATE" for rule 2, or "rule "api": RATE" for one of a configuration file. */
static const char *word(char *buf, size_t len, const struct tdi_rule *rule, const char *name)
{
    const char number[3] = {(char)('0' + rule->policy->number % 10), '_', '\0'};
    char file_rule[RULE_NAME] = "";
    struct tdi_text text;
    tdi_text_start(&text, buf, len);
    if (rule->policy->number == 0)
        tdi_policy_rule_name(file_rule, sizeof file_rule, rule->all, rule->policy);
    tdi_text_add(&text, rule->policy->number == 0 ? file_rule : "TUNDISH_");
    tdi_text_add(&text, rule->policy->number == 0 ? ": " : rule->policy->number > 1 ? number : "");
    tdi_text_add(&text, name);
    return buf;
}

static bool give_up(const struct tdi_rule *rule, const char *name, const char *reason)
{
    char subject[RULE_NAME + 32];
    tdi_rules_give_up(word(subject, sizeof subject, rule, name), ": ", reason);
    return false;
}

/* A bucket that was there before keeps its options, so they must be the ones that were asked for. */
static bool agrees(const struct tdi_rule *rule, const char *name, const struct tundish_info *info)
{
    const struct tdi_policy_rule *policy = rule->policy;
    struct tdi_rate has = {info->refill, info->interval_us, (info->flags & TUNDISH_BYTES) != 0};
    if (tdi_unit_same_rate(&has, &policy->rate) && (!policy->has_burst || info->capacity == policy->burst))
        return true;
    char has_rate[40], has_burst[24], asks_rate[40], asks_burst[24], reason[RULE_NAME + 192],
        asker[RULE_NAME + 32];
    tdi_unit_format_rate(has_rate, sizeof has_rate, &has);
    tdi_unit_format_count(has_burst, sizeof has_burst, info->capacity, has.bytes);
    tdi_unit_format_rate(asks_rate, sizeof asks_rate, &policy->rate);
    tdi_unit_format_count(asks_burst, sizeof asks_burst, policy->burst, policy->rate.bytes);
    struct tdi_text line;
    tdi_text_start(&line, reason, sizeof reason);
    const char *const parts[] = {
        " has ",      has_rate,  " burst ", has_burst, ", but ", word(asker, sizeof asker, rule, "RATE"),
        " asks for ", asks_rate, " burst ", asks_burst};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        tdi_text_add(&line, parts[i]);
    tdi_rules_give_up("bucket ", name, reason);
    return false;
}

/* The file a name stands for: one bucket under two names of a rule is to be charged once. */
static bool is_open_already(const struct tdi_rule *rule, const struct tundish *bucket)
{
    for (uint32_t i = 0; i < rule->buckets; i++)
        if (rule->bucket[i] != NULL && rule->bucket[i]->device == bucket->device &&
            rule->bucket[i]->inode == bucket->inode)
            return true;
    return false;
}

static int open_named(const struct tdi_policy_rule *policy, const char *name, struct tundish **bucket)
{
    struct tundish_options options = tdi_rule_options(policy);
    return policy->has_rate ? tundish_open_or_create(bucket, name, &options) : tundish_open(bucket, name);
}

/* What a token of this bucket is must be what the rule's other tokens are. */
static bool settle_count(struct tdi_rule *rule, const struct tundish_info *info)
{
    bool bytes = (info->flags & TUNDISH_BYTES) != 0;
    if (rule->policy->count != TDI_COUNT_BY_BUCKET)
        bytes = rule->policy->count == TDI_COUNT_BYTES;
    else if (rule->buckets > 0 && bytes != rule->bytes)
        return give_up(rule, "BUCKET", "one bucket counts bytes and another calls");
    rule->bytes = bytes;
    return true;
}

static bool open_bucket(struct tdi_rule *rule, const char *name)
{
    struct tundish *bucket;
    struct tundish_info info = TUNDISH_INFO_INIT;
    int error = open_named(rule->policy, name, &bucket);
    if (error < 0) {
        char reason[160];
        struct tdi_text line;
        tdi_text_start(&line, reason, sizeof reason);
        tdi_text_add(&line, ": ");
        tdi_text_add(&line, tundish_strerror(error));
        tdi_rules_give_up("bucket ", name, reason);
        return false;
    }
    if (is_open_already(rule, bucket)) {
        tundish_close(bucket);
        return true;
    }
    (void)tundish_info(bucket, &info);
    if ((rule->policy->has_rate && !agrees(rule, name, &info)) || !settle_count(rule, &info)) {
        tundish_close(bucket);
        return false;
    }
    rule->bucket[rule->buckets++] = bucket;
    return true;
}

/* Remembers a name with %h or %P as a path that does not depend on the environment any more. */
static bool note_keyed(struct tdi_rule *rule, const char *name)
{
    static char paths[2 * TDI_POLICY_TEXT];
    static size_t used;
    char directory[TDI_POLICY_TEXT] = "";
    struct tdi_text text;
    if (rule->policy->count == TDI_COUNT_BY_BUCKET) /* it may not be there yet */
        return give_up(rule, "BUCKET", "with %h or %P say what a token is: TUNDISH_COUNT or a rate");
    if (strchr(name, '/') == NULL) {
        enum tdi_name_care care = rule->policy->has_rate ? TDI_NAME_MAKE : TDI_NAME_ONLY;
        int error = tdi_name_directory(care, directory, sizeof directory);
        if (error < 0)
            return give_up(rule, "BUCKET", tundish_strerror(error));
    }
    tdi_text_start(&text, paths + used, sizeof paths - used);
    for (const char *c = directory; *c != '\0'; c++)
        tdi_text_add(&text, *c == '%' ? "%%" : (const char[]){*c, '\0'});
    tdi_text_add(&text, directory[0] != '\0' ? "/" : "");
    tdi_text_add(&text, name);
    if (text.left <= 1)
        return give_up(rule, "BUCKET", "the paths are too long");
    rule->path[rule->buckets++] = paths + used;
    used += strlen(paths + used) + 1;
    rule->keyed = true;
    rule->bytes = rule->policy->count == TDI_COUNT_BYTES;
    return true;
}

static bool open_quota(struct tdi_rule *rule)
{
    struct tundish_options options = tdi_rule_options(rule->policy);
    int error = tundish_create_private(&rule->bucket[0], &options);
    if (error < 0)
        return give_up(rule, "RATE", tundish_strerror(error));
    rule->buckets = 1;
    rule->bytes = rule->policy->rate.bytes;
    return true;
}

static bool open_rule(const struct tdi_policy *policy, struct tdi_rule *rule)
{
    if (rule->policy->buckets == 0 && !open_quota(rule))
        return false;
    for (uint32_t i = 0; i < rule->policy->buckets; i++) {
        const char *name = tdi_policy_bucket(policy, rule->policy, i);
        if (!(tdi_policy_name_has(name, "hP") ? note_keyed(rule, name) : open_bucket(rule, name)))
            return false;
    }
    rule->calls = tdi_policy_calls(rule->policy, rule->bytes);
    if (rule->bytes && rule->calls == TDI_CALL_CONNECT) {
        char count[RULE_NAME + 32], reason[RULE_NAME + 80];
        struct tdi_text text;
        tdi_text_start(&text, reason, sizeof reason);
        tdi_text_add(&text, "a connect has no bytes; ");
        tdi_text_add(&text, word(count, sizeof count, rule, "COUNT"));
        tdi_text_add(&text, "=calls counts it");
        return give_up(rule, "CALLS=connect", reason);
    }
    return true;
}

static bool reaches_files(const struct tdi_policy *policy, const struct tdi_policy_rule *rule)
{
    return tdi_policy_reaches(policy, rule, TDI_KIND_PIPE) ||
           tdi_policy_reaches(policy, rule, TDI_KIND_FILE) || tdi_policy_reaches(policy, rule, TDI_KIND_TTY);
}

static struct tundish *find_plain(const struct tdi_rules *rules)
{
    const struct tdi_rule *only = &rules->rule[0];
    bool plain = rules->count == 1 && only->buckets == 1 && only->policy->when_empty != TDI_EMPTY_OBSERVE &&
                 !rules->policy.verbose;
    return plain ? only->bucket[0] : NULL;
}

static void sum_up(struct tdi_rules *rules)
{
    for (uint32_t r = 0; r < rules->count; r++) {
        struct tdi_rule *rule = &rules->rule[r];
        rule->placed = rule->policy->dests > 0;
        for (uint32_t i = 0; i < rule->buckets; i++) {
            rules->hosted |= rule->path[i] != NULL && tdi_policy_name_has(rule->path[i], "h");
            rules->ported |= rule->path[i] != NULL && tdi_policy_name_has(rule->path[i], "P");
        }
        rules->placed |= rule->placed || rule->keyed;
        rules->files |= reaches_files(&rules->policy, rule->policy);
        rules->calls |= rule->calls;
    }
    rules->plain = find_plain(rules);
}

static void close_all(struct tdi_rules *rules)
{
    for (uint32_t r = 0; r < TDI_POLICY_RULES; r++)
        for (uint32_t i = 0; i < rules->rule[r].buckets; i++)
            if (rules->rule[r].bucket[i] != NULL)
                tundish_close(rules->rule[r].bucket[i]);
    memset(rules->rule, 0, sizeof rules->rule);
    rules->count = 0;
}

bool tdi_open_rules(struct tdi_rules *rules)
{
    uint32_t buckets = 0;
    for (uint32_t r = 0; r < rules->policy.rules; r++) {
        struct tdi_rule *rule = &rules->rule[r];
        rule->policy = &rules->policy.rule[r];
        rule->all = &rules->policy;
        rule->first = buckets;
        bool fits = buckets + rule->policy->buckets <= TDI_POLICY_ALL_BUCKETS;
        if (!fits)
            give_up(rule, "BUCKET", "more than 16 buckets in all");
        if (!fits || !open_rule(&rules->policy, rule)) {
            close_all(rules);
            return false;
        }
        buckets += rule->buckets;
        rules->count++;
    }
    sum_up(rules);
    return true;
}

/* The child's own in the place of the parent's. */
static void replace(struct tdi_rule *rule, uint32_t i, struct tundish *own, bool under_way)
{
    struct tundish *parents = rule->bucket[i];
    rule->bucket[i] = own;
    tdi_debt_move(parents, own);
    if (!under_way)
        tundish_close(parents);
}

/* The name of the i-th bucket if it stands for another file in each process. */
static const char *name_with_pid(const struct tdi_rules *rules, const struct tdi_rule *rule, uint32_t i)
{
    if (rule->bucket[i] == NULL || rule->buckets != rule->policy->buckets)
        return NULL; /* keyed; or two names were one file, so that places do not tell */
    const char *name = tdi_policy_bucket(&rules->policy, rule->policy, i);
    return tdi_policy_name_has(name, "p") ? name : NULL;
}

static void renew(struct tdi_rules *rules, struct tdi_rule *rule, bool under_way)
{
    struct tundish_options options = tdi_rule_options(rule->policy);
    struct tundish *own;
    if (rule->policy->buckets == 0 && tundish_create_private(&own, &options) == 0)
        replace(rule, 0, own, under_way);
    for (uint32_t i = 0; i < rule->buckets; i++) {
        const char *name = rule->policy->buckets > 0 ? name_with_pid(rules, rule, i) : NULL;
        if (name != NULL && open_named(rule->policy, name, &own) == 0)
            replace(rule, i, own, under_way);
        /* A run's bucket lives as long as anybody is listed, and the child may exec before its first call. */
        if (rule->bucket[i] != NULL)
            tdi_handle_enter(rule->bucket[i]);
    }
}

void tdi_open_after_fork(struct tdi_rules *rules, bool under_way)
{
    for (uint32_t r = 0; r < rules->count; r++)
        renew(rules, &rules->rule[r], under_way);
    rules->plain = find_plain(rules);
}
