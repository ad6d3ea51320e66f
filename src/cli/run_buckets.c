/* SPDX-License-Identifier: MIT */
/*
 * The buckets of a run. A rule with a rate and no name gets a bucket of its own, run-PID or run-PID-up; the
 * process keeps its id over exec, and its handle lists that id in the file, so the bucket is in use for as
 * long as the command lives, and a later run sweeps it when nobody is left.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/sweep.h"

static int fail(const char *name, int error)
{
    cli_bucket_error(name, error);
    return CLI_RUN_FAILED;
}

static int fail_to_make(const struct run_rule *rule, const char *name, int error)
{
    cli_rule_error(name, &rule->limit, error);
    return CLI_RUN_FAILED;
}

static int check_agreement(const struct run_wish *wish, const char *name, const struct tundish_info *info)
{
    char there[CLI_RULE_TEXT], asked[CLI_RULE_TEXT];
    struct cli_rule limit = cli_rule_of(info), wanted = wish->rules[0].limit;
    if (!wish->burst)
        wanted.burst = limit.burst;
    if (tdi_unit_same_rate(&limit.rate, &wanted.rate) && limit.burst == wanted.burst)
        return CLI_OK;
    cli_rule_format(there, &limit);
    cli_rule_format(asked, &wanted);
    cli_say(name, "has %s, but this run asks for %s; leave --rate out or use 'tundish set'", there, asked);
    return CLI_RUN_FAILED;
}

/* Opens a named bucket, makes it if there is a rate, and checks that it is what was asked for. */
static int open_named(const struct run_wish *wish, const char *name, struct tundish_info *info)
{
    const struct run_rule *rule = &wish->rules[0];
    struct tundish *bucket;
    int error;
    if (rule->rate) {
        struct tundish_options options = cli_rule_options(&rule->limit);
        error = tundish_open_or_create(&bucket, name, &options);
    } else {
        error = tundish_open(&bucket, name);
    }
    if (error)
        return rule->rate ? fail_to_make(rule, name, error) : fail(name, error);
    error = tundish_info(bucket, info);
    tundish_close(bucket);
    if (error)
        return fail(name, error);
    return rule->rate ? check_agreement(wish, name, info) : CLI_OK;
}

static void say_bucket(const struct run_wish *wish, const char *name, const struct run_rule *rule,
                       const struct cli_rule *limit)
{
    if (wish->verbose)
        cli_rule_say(name, limit, !rule->rate || wish->burst);
}

/* One rule counts one thing: all buckets must agree on it unless --count says what. */
static int agree_on_count(const struct run_wish *wish, struct run_rule *rule, const char *name, bool bytes)
{
    const enum tdi_count counts = bytes ? TDI_COUNT_BYTES : TDI_COUNT_CALLS;
    if (rule->counts == TDI_COUNT_BY_BUCKET)
        rule->counts = counts;
    if (rule->counts == counts || wish->count != TDI_COUNT_BY_BUCKET)
        return CLI_OK;
    cli_say(name, "counts %s, %s counts %s; say --count bytes or --count calls", bytes ? "bytes" : "calls",
            wish->names[0], bytes ? "calls" : "bytes");
    return CLI_RUN_FAILED;
}

static int prepare_named(const struct run_wish *wish, struct run_rule *rule, const char *name)
{
    struct tundish_info info = TUNDISH_INFO_INIT;
    bool keyed = false;
    int status = run_name_make(wish, name, &rule->names[rule->count], &keyed);
    if (status)
        return status;
    const char *full = rule->names[rule->count++];
    if (keyed) {
        rule->keyed = true;
        if (wish->verbose)
            cli_say(full, "%s when it is first used", rule->rate ? "is made" : "must be there");
        return CLI_OK;
    }
    status = open_named(wish, name, &info);
    if (status)
        return status;
    const struct cli_rule limit = cli_rule_of(&info);
    say_bucket(wish, full, rule, &limit);
    return agree_on_count(wish, rule, name, limit.rate.bytes);
}

/* Which calls concern a bucket of a destination must be known before there is one. */
static int check_count_is_known(const struct run_wish *wish, const struct run_rule *rule)
{
    for (size_t i = 0; i < wish->name_count && rule->counts == TDI_COUNT_BY_BUCKET; i++)
        if (tdi_policy_name_has(wish->names[i], "hP")) {
            cli_say(wish->names[i], "is not there yet, so say what it counts: --count or --rate");
            return CLI_RUN_FAILED;
        }
    return CLI_OK;
}

static int prepare_all_named(const struct run_wish *wish, struct run_rule *rule)
{
    int status = CLI_OK;
    for (size_t i = 0; i < wish->name_count && status == CLI_OK; i++)
        status = prepare_named(wish, rule, wish->names[i]);
    return status ? status : check_count_is_known(wish, rule);
}

/* run-PID-up, or run-PID-up-2 and so on: an outer run that has become this process may own the first. */
static int make_own(const struct run_wish *wish, struct run_rule *rule)
{
    struct tundish_options options = cli_rule_options(&rule->limit);
    char name[64], path[RUN_PATH];
    int error = -EEXIST;
    snprintf(name, sizeof(name), "run-%ld%s", (long)getpid(), rule->suffix);
    for (unsigned i = 2; error == -EEXIST && i < 1000; i++) {
        error = tundish_create(&rule->own, name, &options);
        if (error == -EEXIST)
            snprintf(name, sizeof(name), "run-%ld%s-%u", (long)getpid(), rule->suffix, i);
    }
    if (error)
        return fail_to_make(rule, name, error);
    error = tundish_path(name, path, sizeof(path));
    rule->own_path = error ? NULL : strdup(path);
    if (!rule->own_path) {
        tundish_unlink(name);
        return fail(name, error ? error : -ENOMEM);
    }
    int status = run_name_of_path(path, &rule->names[0]);
    if (status)
        return status;
    rule->count = 1;
    say_bucket(wish, rule->names[0], rule, &rule->limit);
    return CLI_OK;
}

int run_buckets_prepare(struct run_wish *wish)
{
    int status = CLI_OK;
    if (wish->per_process)
        return CLI_OK;
    if (wish->name_count > 0)
        return prepare_all_named(wish, &wish->rules[0]);
    tdi_sweep();
    for (size_t i = 0; i < wish->rule_count && status == CLI_OK; i++)
        status = make_own(wish, &wish->rules[i]);
    return status;
}

static void discard(struct run_rule *rule)
{
    if (rule->own_path)
        unlink(rule->own_path);
    if (rule->own)
        tundish_close(rule->own);
    free(rule->own_path);
    for (size_t i = 0; i < TDI_POLICY_BUCKETS; i++)
        free(rule->names[i]);
    rule->own = NULL;
    rule->own_path = NULL;
    memset(rule->names, 0, sizeof(rule->names));
    rule->count = 0;
}

void run_buckets_discard(struct run_wish *wish)
{
    for (size_t i = 0; i < wish->rule_count; i++)
        discard(&wish->rules[i]);
}
