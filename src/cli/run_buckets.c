/* SPDX-License-Identifier: MIT */
/*
 * The buckets of a run. All that can be wrong with named ones is found before any is made. A rule with a rate
 * and no name gets a bucket of its own, run-PID or run-PID-up; the process keeps its id over exec, and its
 * handle lists that id in the file, so the bucket is in use for as long as the command lives, and a later run
 * sweeps it when nobody is left.
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

/* What an option asks of a bucket. */
static struct run_bucket describe(const struct run_wish *wish, const struct run_rule *rule, const char *name)
{
    struct run_bucket bucket = {
        .name = name, .has_rate = rule->rate != NULL, .has_burst = wish->burst != NULL};
    if (bucket.has_rate) {
        bucket.limit = rule->limit;
        bucket.options = cli_rule_options(&rule->limit);
    }
    bucket.asker = "this run";
    bucket.remedy = "leave --rate out";
    return bucket;
}

static int add_named(struct run_wish *wish, struct run_rule *rule, const char *name)
{
    const struct run_bucket bucket = describe(wish, rule, name);
    struct run_bucket *place;
    bool keyed = false;
    int status = run_name_make(name, rule->rate != NULL, &rule->names[rule->count], &keyed);
    if (status)
        return status;
    const char *full = rule->names[rule->count++];
    if (keyed) {
        rule->keyed = true;
        if (wish->verbose)
            cli_say(full, "%s when it is first used", rule->rate ? "is made" : "must be there");
        return CLI_OK;
    }
    status = run_bucket_add(wish, &bucket, &place);
    if (status || wish->count != TDI_COUNT_BY_BUCKET)
        return status;
    return run_bucket_agree(place, &rule->counts, wish->names[0], "--count bytes or --count calls");
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

static int add_all_named(struct run_wish *wish, struct run_rule *rule)
{
    int status = CLI_OK;
    for (size_t i = 0; i < wish->name_count && status == CLI_OK; i++)
        status = add_named(wish, rule, wish->names[i]);
    return status ? status : check_count_is_known(wish, rule);
}

static void say_all_named(const struct run_wish *wish)
{
    char path[RUN_PATH];
    for (size_t i = 0; wish->verbose && i < wish->named_count; i++) {
        const struct run_bucket *bucket = &wish->named[i];
        const struct cli_rule limit = cli_rule_of(&bucket->info);
        if (tundish_path(bucket->name, path, sizeof(path)) == 0)
            cli_rule_say(path, &limit, !bucket->has_rate || bucket->has_burst);
    }
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
    if (wish->verbose)
        cli_rule_say(rule->names[0], &rule->limit, wish->burst != NULL);
    return CLI_OK;
}

static int make_all_own(struct run_wish *wish)
{
    int status = CLI_OK;
    if (wish->per_process || wish->name_count > 0 || wish->rule_count == 0)
        return CLI_OK;
    tdi_sweep();
    for (size_t i = 0; i < wish->rule_count && status == CLI_OK; i++)
        status = make_own(wish, &wish->rules[i]);
    return status;
}

int run_buckets_prepare(struct run_wish *wish)
{
    int status = run_config_add_buckets(wish);
    if (status == CLI_OK && wish->name_count > 0)
        status = add_all_named(wish, &wish->rules[0]);
    if (status == CLI_OK)
        status = run_config_settle(wish);
    if (status == CLI_OK)
        status = run_bucket_make_all(wish);
    if (status == CLI_OK)
        say_all_named(wish);
    return status ? status : make_all_own(wish);
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
    run_bucket_discard_all(wish);
}
