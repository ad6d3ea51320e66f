/* SPDX-License-Identifier: MIT */
/*
 * Buckets with names of their own, whether an option or a file asks for them. Those that are there are looked
 * at before any is made, and they are never changed.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int fail(const struct run_bucket *bucket, int error)
{
    if (bucket->has_rate)
        cli_rule_error(bucket->name, &bucket->limit, error);
    else
        cli_bucket_error(bucket->name, error);
    return CLI_RUN_FAILED;
}

static int check_agreement(const struct run_bucket *bucket)
{
    char there[CLI_RULE_TEXT], asked[CLI_RULE_TEXT], line[16] = "";
    struct cli_rule limit = cli_rule_of(&bucket->info), wanted = bucket->limit;
    if (!bucket->has_burst)
        wanted.burst = limit.burst;
    if (tdi_unit_same_rate(&limit.rate, &wanted.rate) && limit.burst == wanted.burst)
        return CLI_OK;
    cli_rule_format(there, &limit);
    cli_rule_format(asked, &wanted);
    if (bucket->line)
        snprintf(line, sizeof(line), ":%u", bucket->line);
    cli_say(bucket->name, "has %s, but %s%s asks for %s; %s or use 'tundish set'", there, bucket->asker, line,
            asked, bucket->remedy);
    return CLI_RUN_FAILED;
}

static int look(struct run_bucket *bucket)
{
    struct tundish *handle;
    int error = tundish_open(&handle, bucket->name);
    bucket->missing = error == -ENOENT && bucket->has_rate;
    if (bucket->missing)
        return CLI_OK;
    if (error)
        return fail(bucket, error);
    bucket->info = (struct tundish_info)TUNDISH_INFO_INIT;
    error = tundish_info(handle, &bucket->info);
    tundish_close(handle);
    if (error)
        return fail(bucket, error);
    return bucket->has_rate ? check_agreement(bucket) : CLI_OK;
}

/* Somebody else may be quicker: then it is looked at. */
static int make(struct run_bucket *bucket)
{
    struct tundish *handle;
    int error = tundish_create(&handle, bucket->name, &bucket->options);
    if (error == -EEXIST)
        return look(bucket);
    if (error)
        return fail(bucket, error);
    bucket->missing = false;
    bucket->made = true;
    bucket->info = (struct tundish_info)TUNDISH_INFO_INIT;
    error = tundish_info(handle, &bucket->info);
    tundish_close(handle);
    return error ? fail(bucket, error) : CLI_OK;
}

static void discard(struct run_bucket *bucket)
{
    struct tundish *handle;
    struct tundish_info info = TUNDISH_INFO_INIT;
    bucket->made = false;
    if (tundish_open(&handle, bucket->name) != 0)
        return;
    const bool alone = tundish_info(handle, &info) == 0 && info.instances == 1 && info.unlisted == 0;
    tundish_close(handle);
    if (alone)
        tundish_unlink(bucket->name);
}

int run_bucket_add(struct run_wish *wish, const struct run_bucket *bucket, struct run_bucket **place)
{
    for (size_t i = 0; i < wish->named_count && !bucket->has_rate; i++)
        if (strcmp(wish->named[i].name, bucket->name) == 0) {
            *place = &wish->named[i];
            return CLI_OK;
        }
    *place = &wish->named[wish->named_count++];
    **place = *bucket;
    return look(*place);
}

int run_bucket_make_all(struct run_wish *wish)
{
    int status = CLI_OK;
    for (size_t i = 0; i < wish->named_count && status == CLI_OK; i++)
        if (wish->named[i].missing)
            status = make(&wish->named[i]);
    return status;
}

void run_bucket_discard_all(struct run_wish *wish)
{
    for (size_t i = 0; i < wish->named_count; i++)
        if (wish->named[i].made)
            discard(&wish->named[i]);
    wish->named_count = 0;
}

bool run_bucket_has_bytes(const struct run_bucket *bucket)
{
    return bucket->missing ? bucket->limit.rate.bytes : (bucket->info.flags & TUNDISH_BYTES) != 0;
}

int run_bucket_agree(const struct run_bucket *bucket, enum tdi_count *counts, const char *first,
                     const char *remedy)
{
    const bool bytes = run_bucket_has_bytes(bucket);
    const enum tdi_count own = bytes ? TDI_COUNT_BYTES : TDI_COUNT_CALLS;
    if (*counts == TDI_COUNT_BY_BUCKET)
        *counts = own;
    if (*counts == own)
        return CLI_OK;
    cli_say(bucket->name, "counts %s, %s counts %s; say %s", bytes ? "bytes" : "calls", first,
            bytes ? "calls" : "bytes", remedy);
    return CLI_RUN_FAILED;
}
