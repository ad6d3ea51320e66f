/* SPDX-License-Identifier: MIT */
/*
 * The buckets of a run. Names become absolute paths, so that a descendant with another TUNDISH_DIR or another
 * working directory finds the same files. A run with a rate and no name gets a bucket of its own, run-PID;
 * the process keeps its id over exec, and its handle lists that id in the file, so the bucket is in use for
 * as long as the command lives, and a later run sweeps it when nobody is left.
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

static int fail_to_make(const struct run_wish *wish, const char *name, int error)
{
    cli_rule_error(name, &wish->rule, error);
    return CLI_RUN_FAILED;
}

/* What a name would mean to each program is not known here. */
static int check_name(const char *name)
{
    if (strchr(name, ',')) {
        cli_say(name, "a name with a comma cannot be handed to a command; give -b once for each bucket");
        return CLI_RUN_FAILED;
    }
    for (const char *p = strchr(name, '%'); p && p[1]; p = strchr(p + 2, '%')) {
        if (strchr("nhP", p[1])) {
            cli_say(name, "%%%c is not known before the command runs; leave it out", p[1]);
            return CLI_RUN_FAILED;
        }
    }
    return CLI_OK;
}

static int make_absolute(const char *name, char **out)
{
    char path[RUN_PATH], directory[RUN_PATH];
    int error = tundish_path(name, path, sizeof(path));
    if (error)
        return fail(name, error);
    if (path[0] == '/')
        *out = strdup(path);
    else if (!getcwd(directory, sizeof(directory)))
        return fail(name, -errno);
    else if (asprintf(out, "%s/%s", directory, path) < 0)
        *out = NULL;
    if (!*out)
        return fail(name, -ENOMEM);
    if (strchr(*out, ',')) {
        cli_say(*out, "a path with a comma cannot be handed to a command");
        free(*out);
        *out = NULL;
        return CLI_RUN_FAILED;
    }
    return CLI_OK;
}

static int check_agreement(const struct run_wish *wish, const char *name, const struct tundish_info *info)
{
    char there[CLI_RULE_TEXT], asked[CLI_RULE_TEXT];
    struct cli_rule rule = cli_rule_of(info), wanted = wish->rule;
    if (!wish->burst)
        wanted.burst = rule.burst;
    if (tdi_unit_same_rate(&rule.rate, &wanted.rate) && rule.burst == wanted.burst)
        return CLI_OK;
    cli_rule_format(there, &rule);
    cli_rule_format(asked, &wanted);
    cli_say(name, "has %s, but this run asks for %s; leave --rate out or use 'tundish set'", there, asked);
    return CLI_RUN_FAILED;
}

/* Opens a named bucket, makes it if there is a rate, and checks that it is what was asked for. */
static int prepare_named(const struct run_wish *wish, const char *name, struct tundish_info *info)
{
    struct tundish *bucket;
    int error;
    if (wish->rate) {
        struct tundish_options options = cli_rule_options(&wish->rule);
        error = tundish_open_or_create(&bucket, name, &options);
    } else {
        error = tundish_open(&bucket, name);
    }
    if (error)
        return wish->rate ? fail_to_make(wish, name, error) : fail(name, error);
    error = tundish_info(bucket, info);
    tundish_close(bucket);
    if (error)
        return fail(name, error);
    return wish->rate ? check_agreement(wish, name, info) : CLI_OK;
}

static void say_bucket(const struct run_wish *wish, const char *path, const struct cli_rule *rule)
{
    if (wish->verbose)
        cli_rule_say(path, rule, !wish->rate || wish->burst);
}

/* One rule counts one thing: all buckets must agree on it unless --count says what. */
static int prepare_all_named(const struct run_wish *wish, struct run_buckets *buckets)
{
    for (size_t i = 0; i < wish->name_count; i++) {
        struct tundish_info info = TUNDISH_INFO_INIT;
        const char *name = wish->names[i];
        int status = check_name(name);
        if (status == CLI_OK)
            status = make_absolute(name, &buckets->paths[i]);
        if (status == CLI_OK)
            status = prepare_named(wish, name, &info);
        if (status)
            return status;
        const struct cli_rule rule = cli_rule_of(&info);
        say_bucket(wish, buckets->paths[i], &rule);
        buckets->count++;
        if (i > 0 && wish->count == TDI_COUNT_BY_BUCKET && rule.rate.bytes != buckets->bytes) {
            cli_say(name, "counts %s, %s counts %s; say --count bytes or --count calls",
                    rule.rate.bytes ? "bytes" : "calls", wish->names[0], buckets->bytes ? "bytes" : "calls");
            return CLI_RUN_FAILED;
        }
        buckets->bytes = rule.rate.bytes;
    }
    return CLI_OK;
}

/* run-PID, or run-PID-2 and so on: an outer run that has become this process may own the first. */
static int make_own(const struct run_wish *wish, struct run_buckets *buckets)
{
    struct tundish_options options = cli_rule_options(&wish->rule);
    char name[64];
    int error = -EEXIST;
    tdi_sweep();
    snprintf(name, sizeof(name), "run-%ld", (long)getpid());
    for (unsigned i = 2; error == -EEXIST && i < 1000; i++) {
        error = tundish_create(&buckets->own, name, &options);
        if (error == -EEXIST)
            snprintf(name, sizeof(name), "run-%ld-%u", (long)getpid(), i);
    }
    if (error)
        return fail_to_make(wish, name, error);
    buckets->bytes = wish->rule.rate.bytes;
    int status = make_absolute(name, &buckets->paths[0]);
    if (status) {
        tundish_unlink(name);
        return status;
    }
    buckets->count = 1;
    say_bucket(wish, buckets->paths[0], &wish->rule);
    return CLI_OK;
}

int run_buckets_prepare(const struct run_wish *wish, struct run_buckets *buckets)
{
    *buckets = (struct run_buckets){.bytes = wish->rule.rate.bytes};
    int status = CLI_OK;
    if (wish->name_count > 0)
        status = prepare_all_named(wish, buckets);
    else if (!wish->per_process)
        status = make_own(wish, buckets);
    if (wish->count != TDI_COUNT_BY_BUCKET)
        buckets->bytes = wish->count == TDI_COUNT_BYTES;
    return status;
}

void run_buckets_discard(struct run_buckets *buckets)
{
    if (buckets->own) {
        unlink(buckets->paths[0]);
        tundish_close(buckets->own);
    }
    for (size_t i = 0; i < TDI_POLICY_BUCKETS; i++)
        free(buckets->paths[i]);
    *buckets = (struct run_buckets){0};
}
