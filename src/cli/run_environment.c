/* SPDX-License-Identifier: MIT */
/*
 * What the command finds in its environment. A run inside a run must not let anything out of the outer limit:
 * its rules are added under the next free numbers, and all rules of a program must grant. A bucket that an
 * outer rule already takes the same tokens from is left out, so that it is not charged twice.
 *
 * Words of the first rule that limit nothing by themselves, such as TUNDISH_ONLY, belong to the run: they
 * hold for each of its rules unless an option says otherwise.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/env.h"

extern char **environ;

enum {
    WHY = 512,
    NAME = 48,
};

/* The words of a rule. */
static const char *const rule_words[] = {"BUCKET", "RATE",       "BURST",    "COUNT", "CALLS",
                                         "DEST",   "WHEN_EMPTY", "MAX_WAIT", "ONLY",  "SKIP"};

/* "TUNDISH_2_RATE" */
static void make_name(char name[NAME], unsigned number, const char *word)
{
    if (number == 1)
        snprintf(name, NAME, "TUNDISH_%s", word);
    else
        snprintf(name, NAME, "TUNDISH_%u_%s", number, word);
}

/* A word that says something, or NULL. */
static const char *get(unsigned number, const char *word)
{
    char name[NAME];
    make_name(name, number, word);
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int put(unsigned number, const char *word, const char *value)
{
    char name[NAME];
    make_name(name, number, word);
    return value ? setenv(name, value, 1) : unsetenv(name);
}

static bool is_switched_off(void)
{
    const char *value = get(1, "OFF");
    return value && strcmp(value, "0") != 0 && strcmp(value, "no") != 0;
}

static bool limits(unsigned number)
{
    return get(number, "BUCKET") || get(number, "RATE");
}

static bool is_free(unsigned number)
{
    bool empty = true;
    for (size_t i = 0; i < sizeof(rule_words) / sizeof(rule_words[0]); i++)
        empty = empty && !get(number, rule_words[i]);
    return empty || (number == 1 && !limits(1));
}

static int read_rules(const struct run_wish *wish, struct tdi_policy *policy)
{
    char why[WHY];
    if (tdi_policy_from_environ(policy, environ, tdi_policy_program(wish->command[0]), why, sizeof(why)) == 0)
        return CLI_OK;
    cli_say(NULL, "%s", why);
    return CLI_RUN_FAILED;
}

/* One bucket under two names is one. */
static bool is_same_bucket(const char *a, const char *b)
{
    char path_a[RUN_PATH], path_b[RUN_PATH];
    struct stat status_a, status_b;
    if (strcmp(a, b) == 0)
        return true;
    return tundish_path(a, path_a, sizeof(path_a)) == 0 && tundish_path(b, path_b, sizeof(path_b)) == 0 &&
           stat(path_a, &status_a) == 0 && stat(path_b, &status_b) == 0 &&
           status_a.st_dev == status_b.st_dev && status_a.st_ino == status_b.st_ino;
}

/* Whether the rule takes bytes from this bucket. */
static bool takes_bytes(const struct tdi_policy_rule *rule, const char *bucket_name)
{
    struct tundish *bucket;
    struct tundish_info info = TUNDISH_INFO_INIT;
    if (rule->count != TDI_COUNT_BY_BUCKET || tundish_open(&bucket, bucket_name) != 0)
        return rule->count == TDI_COUNT_BYTES;
    (void)tundish_info(bucket, &info);
    tundish_close(bucket);
    return (info.flags & TUNDISH_BYTES) != 0;
}

static bool has_same_dests(const struct tdi_policy *policy, const struct tdi_policy_rule *a,
                           const struct tdi_policy_rule *b)
{
    return a->dests == b->dests &&
           memcmp(&policy->dest[a->dest], &policy->dest[b->dest], a->dests * sizeof(struct tdi_dest)) == 0;
}

/* Whether `outer` takes from this bucket, for every program, all that `inner` would. */
static bool takes_it_already(const struct tdi_policy *policy, const struct tdi_policy_rule *outer,
                             const struct tdi_policy_rule *inner, const char *name)
{
    bool named = false;
    for (uint32_t i = 0; i < outer->buckets; i++)
        named = named || is_same_bucket(tdi_policy_bucket(policy, outer, i), name);
    if (!named || get(outer->number, "ONLY") || get(outer->number, "SKIP"))
        return false;
    const bool bytes = takes_bytes(outer, name);
    return takes_bytes(inner, name) == bytes && has_same_dests(policy, outer, inner) &&
           (tdi_policy_calls(inner, bytes) & ~tdi_policy_calls(outer, bytes)) == 0;
}

static bool has_same_manner(const struct tdi_policy_rule *a, const struct tdi_policy_rule *b)
{
    return a->when_empty == b->when_empty && a->refuse_errno == b->refuse_errno &&
           a->max_wait_ns == b->max_wait_ns;
}

static int fail_without_memory(void)
{
    cli_say("run", "%s", strerror(ENOMEM));
    return CLI_RUN_FAILED;
}

/* The other rule that takes this bucket's tokens already, or NULL. */
static const struct tdi_policy_rule *find_other(const struct tdi_policy *policy,
                                                const struct tdi_policy_rule *inner, const char *name)
{
    for (uint32_t i = 0; i < policy->rules; i++)
        if (&policy->rule[i] != inner && takes_it_already(policy, &policy->rule[i], inner, name))
            return &policy->rule[i];
    return NULL;
}

/* The names of the rule that no other covers. malloc'ed; *list is NULL if there are none. */
static int list_new(const struct tdi_policy *policy, const struct tdi_policy_rule *inner, char **list)
{
    *list = NULL;
    for (uint32_t i = 0; i < inner->buckets; i++) {
        const char *name = tdi_policy_bucket(policy, inner, i);
        const struct tdi_policy_rule *outer = find_other(policy, inner, name);
        char *longer;
        if (outer && has_same_manner(outer, inner))
            continue;
        if (outer) {
            cli_say(name, "the outer run takes these tokens already, with another --when-empty or "
                          "--max-wait; leave -b out");
            free(*list);
            return CLI_RUN_FAILED;
        }
        if (asprintf(&longer, "%s%s%s", *list ? *list : "", *list ? "," : "", name) < 0)
            longer = NULL;
        free(*list);
        *list = longer;
        if (!longer)
            return fail_without_memory();
    }
    return CLI_OK;
}

static int forget(unsigned number)
{
    int result = 0;
    for (size_t i = 0; i < sizeof(rule_words) / sizeof(rule_words[0]); i++)
        result |= put(number, rule_words[i], NULL);
    return result;
}

/* Takes out of rule `number`, just written, what outer rules have anyway. */
static int leave_out_known(const struct run_wish *wish, unsigned number)
{
    struct tdi_policy policy;
    const struct tdi_policy_rule *rule = NULL;
    char *list;
    int status = read_rules(wish, &policy);
    if (status)
        return status;
    for (uint32_t i = 0; i < policy.rules; i++)
        if (policy.rule[i].number == number)
            rule = &policy.rule[i];
    if (!rule || rule->buckets == 0)
        return CLI_OK;
    status = list_new(&policy, rule, &list);
    if (status)
        return status;
    int result = list ? put(number, "BUCKET", list) : forget(number);
    free(list);
    return result == 0 ? CLI_OK : fail_without_memory();
}

/* "a,b". malloc'ed; NULL without memory. */
static char *join_names(const struct run_rule *rule)
{
    char *list = NULL;
    size_t len;
    FILE *out = open_memstream(&list, &len);
    if (!out)
        return NULL;
    for (size_t i = 0; i < rule->count; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", rule->names[i]);
    if (fclose(out) == 0)
        return list;
    free(list);
    return NULL;
}

static int put_buckets(unsigned number, const struct run_rule *rule)
{
    char *list = join_names(rule);
    int result = list ? put(number, "BUCKET", *list ? list : NULL) : -1;
    free(list);
    return result;
}

/* With buckets the launcher has made, a rate would only make them again once they are removed. */
static int put_quota(const struct run_wish *wish, unsigned number, const struct run_rule *rule)
{
    const bool needed = wish->per_process || (rule->keyed && rule->rate);
    static const char *const counts[] = {
        [TDI_COUNT_BY_BUCKET] = NULL, [TDI_COUNT_BYTES] = "bytes", [TDI_COUNT_CALLS] = "calls"};
    return put(number, "RATE", needed ? rule->rate : NULL) |
           put(number, "BURST", needed ? wish->burst : NULL) | put(number, "COUNT", counts[rule->counts]);
}

/* An option, or what the environment says for all rules of the run. */
static int put_choice(unsigned number, const char *word, const char *chosen, bool inherits)
{
    return put(number, word, chosen ? chosen : inherits ? get(1, word) : NULL);
}

static int write_rule(const struct run_wish *wish, const struct run_rule *rule, unsigned number,
                      bool inherits)
{
    int result = put_buckets(number, rule) | put_quota(wish, number, rule) |
                 put_choice(number, "CALLS", rule->calls, inherits) |
                 put_choice(number, "DEST", wish->dest, inherits) |
                 put_choice(number, "WHEN_EMPTY", wish->when_empty, inherits) |
                 put_choice(number, "MAX_WAIT", wish->max_wait, inherits) |
                 put_choice(number, "ONLY", NULL, inherits) | put_choice(number, "SKIP", NULL, inherits);
    return result == 0 ? CLI_OK : fail_without_memory();
}

static int add_rule(const struct run_wish *wish, const struct run_rule *rule, bool has_outer, bool inherits)
{
    unsigned number = 1;
    while (number <= TDI_POLICY_RULES && !is_free(number))
        number++;
    if (number > TDI_POLICY_RULES) {
        cli_say("run",
                "with those of the outer runs there are more than the %d rules that a program can have",
                TDI_POLICY_RULES);
        return CLI_RUN_FAILED;
    }
    int status = write_rule(wish, rule, number, inherits);
    return status == CLI_OK && has_outer ? leave_out_known(wish, number) : status;
}

/* The inner run may only be stricter. */
static int check_inherit(const struct run_wish *wish, const struct tdi_policy *outer)
{
    static const char *const words[] = {
        [TDI_INHERIT_ENV] = "env", [TDI_INHERIT_ALWAYS] = "always", [TDI_INHERIT_NEVER] = "never"};
    const char *inherit = wish->inherit;
    if (!inherit || strcmp(inherit, "always") == 0 || outer->rules == 0 ||
        outer->inherit == TDI_INHERIT_NEVER || strcmp(inherit, words[outer->inherit]) == 0)
        return CLI_OK;
    cli_say("run", "--inherit %s would let programs out of the outer run's limit, which says %s", inherit,
            words[outer->inherit]);
    return CLI_RUN_FAILED;
}

static void say_outer(const struct run_wish *wish)
{
    for (unsigned number = 1; wish->verbose && number <= TDI_POLICY_RULES; number++) {
        const char *bucket = get(number, "BUCKET"), *rate = get(number, "RATE");
        if (bucket || rate)
            cli_say("run", "the outer run's limit holds as well: %s%s", bucket ? bucket : rate,
                    bucket ? "" : " for each process");
    }
}

static int write_all(const struct run_wish *wish, bool has_outer)
{
    const bool inherits = !limits(1);
    int status = CLI_OK;
    for (size_t i = 0; i < wish->rule_count && status == CLI_OK; i++)
        status = add_rule(wish, &wish->rules[i], has_outer, inherits);
    if (status == CLI_OK && (wish->verbose || wish->dry_run) && put(1, "VERBOSE", "1") != 0)
        status = fail_without_memory();
    if (status == CLI_OK && wish->inherit && put(1, "INHERIT", wish->inherit) != 0)
        status = fail_without_memory();
    return status;
}

/* The preloaded library holds as many; a quota is one. */
static int check_buckets(const struct run_wish *wish, const struct tdi_policy *policy)
{
    const struct tdi_frozen *frozen = &wish->config.conf.frozen;
    char name[NAME + TDI_CONF_NAME];
    uint32_t buckets = 0;
    for (uint32_t i = 0; i < policy->rules; i++) {
        const struct tdi_policy_rule *rule = &policy->rule[i];
        buckets += rule->buckets > 0 ? rule->buckets : 1;
        if (buckets <= TDI_POLICY_ALL_BUCKETS || rule->number != 0)
            continue;
        tdi_policy_rule_name(name, sizeof(name), policy, rule);
        cli_say("run", "more than %d buckets for %s, with %s of %s", TDI_POLICY_ALL_BUCKETS,
                tdi_policy_program(wish->command[0]), name, tdi_frozen_text(frozen, frozen->source));
        return CLI_RUN_FAILED;
    }
    return CLI_OK;
}

/* Whether all that the command will read is right, and not too much for one program. */
static int check_all(const struct run_wish *wish)
{
    struct tdi_policy policy;
    char why[WHY];
    int status = read_rules(wish, &policy);
    if (status || !run_config_is_in_force(wish))
        return status;
    if (tdi_frozen_add(&policy, &wish->config.conf.frozen, tdi_policy_program(wish->command[0]), why,
                       sizeof(why)) == 0)
        return check_buckets(wish, &policy);
    cli_say("run", "%s", why);
    return CLI_RUN_FAILED;
}

int run_environment_set(const struct run_wish *wish)
{
    struct tdi_policy policy;
    bool has_outer = false;
    if (is_switched_off()) {
        cli_say("run", "TUNDISH_OFF is set: the command runs without any limit");
        return write_all(wish, false);
    }
    for (unsigned number = 1; number <= TDI_POLICY_RULES; number++)
        has_outer = has_outer || limits(number);
    int status = has_outer ? read_rules(wish, &policy) : CLI_OK;
    if (status == CLI_OK && has_outer)
        status = check_inherit(wish, &policy);
    if (status == CLI_OK && has_outer)
        say_outer(wish);
    if (status == CLI_OK)
        status = write_all(wish, has_outer);
    return status == CLI_OK ? check_all(wish) : status;
}
