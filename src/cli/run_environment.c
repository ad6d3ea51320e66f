/* SPDX-License-Identifier: MIT */
/*
 * What the command finds in its environment. A run inside a run must not let anything out of the outer limit,
 * and one rule is all the environment can hold: so the inner run's buckets join the outer's in one list, all
 * of which must grant, and where the two rules differ in anything else the inner run refuses to start.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/env.h"

extern char **environ;

enum {
    WHY = 512,
};

static const char *count_word(bool bytes)
{
    return bytes ? "bytes" : "calls";
}

/* A variable that says something, or NULL. */
static const char *get(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_switched_off(void)
{
    const char *value = get("TUNDISH_OFF");
    return value && strcmp(value, "0") != 0 && strcmp(value, "no") != 0;
}

static int read_rule(const struct run_wish *wish, struct tdi_policy *policy)
{
    char why[WHY];
    if (tdi_policy_from_environ(policy, environ, tdi_policy_program(wish->command[0]), why, sizeof(why)) == 0)
        return CLI_OK;
    cli_say(NULL, "%s", why);
    return CLI_RUN_FAILED;
}

/* What the tokens of the outer rule stand for. */
static int find_outer_count(const struct tdi_policy *outer, bool *bytes)
{
    struct tundish *bucket;
    struct tundish_info info;
    *bytes = outer->count == TDI_COUNT_BYTES;
    if (outer->count != TDI_COUNT_BY_BUCKET)
        return CLI_OK;
    if (cli_bucket_open(tdi_policy_bucket(outer, 0), &bucket, &info) != CLI_OK)
        return CLI_RUN_FAILED;
    *bytes = (info.flags & TUNDISH_BYTES) != 0;
    tundish_close(bucket);
    return CLI_OK;
}

/* Whether the outer rule and this run's can be one. */
static int check_outer(const struct run_wish *wish, const struct run_buckets *buckets,
                       const struct tdi_policy *outer)
{
    bool bytes;
    if (outer->buckets == 0) {
        cli_say("run",
                "the outer run gives each process a quota of its own (TUNDISH_RATE=%s), to which no other "
                "limit can be added",
                getenv("TUNDISH_RATE"));
        return CLI_RUN_FAILED;
    }
    if (wish->per_process) {
        cli_say("run", "--per-process cannot be added to the outer run's bucket %s",
                getenv("TUNDISH_BUCKET"));
        return CLI_RUN_FAILED;
    }
    int status = find_outer_count(outer, &bytes);
    if (status == CLI_OK && bytes != buckets->bytes) {
        cli_say("run",
                "the outer run's bucket %s counts %s, this run counts %s: both cannot hold in one program",
                getenv("TUNDISH_BUCKET"), count_word(bytes), count_word(buckets->bytes));
        status = CLI_RUN_FAILED;
    }
    return status;
}

static int check_calls(const struct tdi_policy *outer, const struct tdi_policy *inner, bool bytes)
{
    if (tdi_policy_calls(outer, bytes) == tdi_policy_calls(inner, bytes))
        return CLI_OK;
    cli_say("run", "the outer run limits other calls than this one: both cannot hold in one program");
    return CLI_RUN_FAILED;
}

/* A path as a name: % would be a key there. */
static void print_escaped(FILE *out, const char *path)
{
    for (; *path; path++)
        fputs(*path == '%' ? "%%" : (char[]){*path, '\0'}, out);
}

static bool names(const char *list, const char *name)
{
    const char *item;
    size_t len;
    while (tdi_list_next(&list, &item, &len))
        if (tdi_item_is(item, len, name))
            return true;
    return false;
}

/* The outer run's list and what is not in it yet. malloc'ed, or NULL without memory. */
static char *join_buckets(const char *outer, const struct run_buckets *buckets)
{
    char *list = outer ? strdup(outer) : NULL;
    for (size_t i = 0; i < buckets->count; i++) {
        char *name = NULL, *longer = NULL;
        size_t len;
        FILE *out = open_memstream(&name, &len);
        if (!out)
            break;
        print_escaped(out, buckets->paths[i]);
        if (fclose(out) == 0 && !names(list, name)) {
            if (asprintf(&longer, "%s%s%s", list ? list : "", list ? "," : "", name) < 0)
                longer = NULL;
            free(list);
            list = longer;
        }
        free(name);
        if (!list)
            break;
    }
    return list;
}

static int set_buckets(const struct run_buckets *buckets)
{
    char *list = join_buckets(get("TUNDISH_BUCKET"), buckets);
    int result = list ? setenv("TUNDISH_BUCKET", list, 1) : -1;
    free(list);
    return result;
}

static int set_or_unset(const char *name, const char *value)
{
    return value ? setenv(name, value, 1) : unsetenv(name);
}

static int set_quota(const struct run_wish *wish)
{
    return unsetenv("TUNDISH_BUCKET") || set_or_unset("TUNDISH_RATE", wish->rate) ||
           set_or_unset("TUNDISH_BURST", wish->burst);
}

/* With buckets the launcher has made, a rate would only make them again once they are removed. */
static int forget_quota(void)
{
    return unsetenv("TUNDISH_RATE") || unsetenv("TUNDISH_BURST");
}

static int write_rule(const struct run_wish *wish, const struct run_buckets *buckets, bool has_outer)
{
    int result = wish->per_process ? set_quota(wish) : set_buckets(buckets);
    if (result == 0 && !wish->per_process && !has_outer)
        result = forget_quota();
    if (result == 0)
        result = setenv("TUNDISH_COUNT", count_word(buckets->bytes), 1);
    if (result == 0 && wish->calls)
        result = setenv("TUNDISH_CALLS", wish->calls, 1);
    if (result == 0 && wish->verbose)
        result = setenv("TUNDISH_VERBOSE", "1", 1);
    if (result == 0)
        return CLI_OK;
    cli_say("run", "%s", strerror(ENOMEM));
    return CLI_RUN_FAILED;
}

static void say_joined(const struct run_wish *wish)
{
    if (wish->verbose)
        cli_say("run", "the outer run's limit holds as well: %s", getenv("TUNDISH_BUCKET"));
}

int run_environment_set(const struct run_wish *wish, const struct run_buckets *buckets)
{
    const bool has_outer = get("TUNDISH_BUCKET") || get("TUNDISH_RATE");
    struct tdi_policy outer, inner;
    if (is_switched_off()) {
        cli_say("run", "TUNDISH_OFF is set: the command runs without any limit");
        return write_rule(wish, buckets, has_outer);
    }
    int status = has_outer ? read_rule(wish, &outer) : CLI_OK;
    if (status == CLI_OK && has_outer)
        status = check_outer(wish, buckets, &outer);
    if (status == CLI_OK)
        status = write_rule(wish, buckets, has_outer);
    if (status == CLI_OK)
        status = read_rule(wish, &inner);
    if (status == CLI_OK && has_outer)
        status = check_calls(&outer, &inner, buckets->bytes);
    if (status == CLI_OK && has_outer)
        say_joined(wish);
    return status;
}
