/* SPDX-License-Identifier: MIT */
/*
 * The configuration file of a run. What an outer run has frozen is kept as it is: an inner run can let nobody
 * out of it. Any other file is frozen here, once its buckets are there: from then on the buckets' names are
 * absolute, and nothing of the file needs to be understood again.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/stub.h"

/* Finding. */

/* The outer run's, unless another file is asked for. */
static int keep(struct run_wish *wish)
{
    const struct tdi_frozen *frozen = &wish->config.conf.frozen;
    int status = config_read(&wish->config, config_word());
    if (status)
        return status;
    const char *source = tdi_frozen_text(frozen, frozen->source);
    if (!wish->config_option || config_is_same(wish->config_option, source))
        return CLI_OK;
    cli_say(wish->config_option,
            "an outer run's configuration holds already: %s; put the rules of both into one file", source);
    return CLI_RUN_FAILED;
}

static int read_option(struct run_wish *wish)
{
    int status = config_read(&wish->config, wish->config_option);
    if (status || wish->config.kind == CONFIG_TEXT)
        return status;
    cli_say(wish->config_option, "is what a run has made of a configuration file; give that one: %s",
            tdi_frozen_text(&wish->config.conf.frozen, wish->config.conf.frozen.source));
    return CLI_USAGE;
}

int run_config_find(struct run_wish *wish)
{
    const char *word = config_word();
    if (word && config_is_frozen(word))
        return keep(wish);
    if (wish->config_option)
        return read_option(wish);
    if (wish->no_config || (word && strcmp(word, CONFIG_SAID) == 0))
        return CLI_OK;
    return config_read_default(&wish->config);
}

bool run_config_is_in_force(const struct run_wish *wish)
{
    return wish->config.kind != CONFIG_NONE && wish->config.conf.frozen.rules > 0;
}

/* Buckets. */

static struct tundish_options make_options(const struct tdi_conf_bucket *section,
                                           const struct cli_rule *limit)
{
    struct tundish_options options = cli_rule_options(limit);
    options.flags |= (section->unfair ? TUNDISH_UNFAIR : 0) | (section->stepped ? TUNDISH_STEPPED : 0) |
                     (section->strict ? TUNDISH_STRICT : 0);
    options.mode = section->mode;
    if (section->has_initial)
        options.initial = section->initial;
    return options;
}

static int add_section(struct run_wish *wish, const struct tdi_conf_bucket *section)
{
    struct run_bucket bucket = {.name = section->name, .has_rate = true, .has_burst = section->has_burst};
    struct run_bucket *place;
    bucket.limit = (struct cli_rule){.rate = section->rate, .burst = section->burst};
    bucket.options = make_options(section, &bucket.limit);
    bucket.asker = wish->config.path;
    bucket.line = section->line;
    bucket.remedy = "change the file";
    return run_bucket_add(wish, &bucket, &place);
}

static const char *bucket_name(const struct run_wish *wish, const struct tdi_policy_rule *rule, uint32_t i)
{
    return tdi_frozen_text(&wish->config.conf.frozen, rule->bucket[i]);
}

/* What a bucket of the rule holds decides what the rule counts, if nothing else did; `first` says who did. */
static int add_bucket(struct run_wish *wish, struct tdi_policy_rule *rule, uint32_t i, const char *first)
{
    const struct run_bucket bucket = {.name = bucket_name(wish, rule, i)};
    struct run_bucket *place;
    if (tdi_policy_name_has(bucket.name, "hPpn"))
        return CLI_OK;
    int status = run_bucket_add(wish, &bucket, &place);
    if (status || !first)
        return status;
    return run_bucket_agree(place, &rule->count, first, "count = bytes or count = calls in the rule");
}

/* A function that the rule names and that has no cost, or NULL. */
static const char *find_costless(const struct tdi_frozen *frozen, uint32_t hooks)
{
    for (uint32_t i = 0; i < frozen->hooks; i++) {
        const struct tdi_frozen_hook *hook = &frozen->hook[i];
        if ((hooks >> hook->group & 1) && hook->cost.kind == TDI_COST_TOKENS && hook->cost.tokens == 1)
            return tdi_frozen_text(frozen, hook->symbol);
    }
    return NULL;
}

/* What the reader of the file sees to where the buckets have sections. */
static int check_bytes(const struct run_wish *wish, uint32_t number)
{
    const struct tdi_frozen *frozen = &wish->config.conf.frozen;
    const struct tdi_policy_rule *rule = &frozen->rule[number].rule;
    const char *costless = find_costless(frozen, rule->hooks);
    char subject[CONFIG_PATH + 16];
    if (rule->count != TDI_COUNT_BYTES || (!costless && rule->calls != TDI_CALL_CONNECT))
        return CLI_OK;
    snprintf(subject, sizeof(subject), "%s:%u", wish->config.path, wish->config.conf.rule_line[number]);
    if (costless)
        cli_say(subject, "%s counts bytes, but %s costs 1 for each call; say its cost in [hook \"%s\"]",
                bucket_name(wish, rule, 0), costless, costless);
    else
        cli_say(subject, "%s counts bytes, but a connection is a call; say count = calls in the rule",
                bucket_name(wish, rule, 0));
    return CLI_RUN_FAILED;
}

static int add_rule(struct run_wish *wish, uint32_t number)
{
    struct tdi_conf *conf = &wish->config.conf;
    struct tdi_policy_rule *rule = &conf->frozen.rule[number].rule;
    const bool open = rule->count == TDI_COUNT_BY_BUCKET;
    const char *first = conf->rule_counts[number] ? NULL : open ? bucket_name(wish, rule, 0) : "a section";
    int status = CLI_OK;
    for (uint32_t i = 0; i < rule->buckets && status == CLI_OK; i++)
        status = add_bucket(wish, rule, i, first);
    return status == CLI_OK && open ? check_bytes(wish, number) : status;
}

int run_config_add_buckets(struct run_wish *wish)
{
    struct tdi_conf *conf = &wish->config.conf;
    int status = CLI_OK;
    if (wish->config.kind != CONFIG_TEXT)
        return CLI_OK;
    for (uint32_t i = 0; i < conf->buckets && status == CLI_OK; i++)
        if (!tdi_policy_name_has(conf->bucket[i].name, "hPpn"))
            status = add_section(wish, &conf->bucket[i]);
    for (uint32_t i = 0; i < conf->frozen.rules && status == CLI_OK; i++)
        status = add_rule(wish, i);
    return status;
}

/* Names. */

static uint16_t keep_text(struct run_wish *wish, const char *text)
{
    uint16_t at = tdi_frozen_keep(&wish->config.conf.frozen, text, strlen(text));
    if (!at)
        cli_say(wish->config.path,
                "is too much: the names of its buckets, rules and hooks are at most 32 KiB");
    return at;
}

static int settle_name(struct run_wish *wish, struct tdi_policy_rule *rule, uint32_t i)
{
    bool keyed = false;
    char *name;
    int status = run_name_make(bucket_name(wish, rule, i), rule->has_rate, &name, &keyed);
    if (status)
        return status;
    rule->bucket[i] = keep_text(wish, name);
    free(name);
    return rule->bucket[i] ? CLI_OK : CLI_RUN_FAILED;
}

/* --dry-run holds for all rules, so that nothing is held. */
static void observe(struct tdi_policy_rule *rule)
{
    rule->when_empty = TDI_EMPTY_OBSERVE;
    rule->refuse_errno = 0;
    rule->max_wait_ns = UINT64_MAX;
}

int run_config_settle(struct run_wish *wish)
{
    struct tdi_frozen *frozen = &wish->config.conf.frozen;
    int status = CLI_OK;
    if (wish->config.kind != CONFIG_TEXT)
        return CLI_OK;
    frozen->source = keep_text(wish, wish->config.path);
    if (!frozen->source)
        return CLI_RUN_FAILED;
    for (uint32_t i = 0; i < frozen->rules; i++) {
        struct tdi_policy_rule *rule = &frozen->rule[i].rule;
        for (uint32_t k = 0; k < rule->buckets && status == CLI_OK; k++)
            status = settle_name(wish, rule, k);
        if (wish->dry_run)
            observe(rule);
    }
    return status;
}

/* Freezing. */

static int store(const void *bytes, size_t size, const char *prefix, const char *suffix, bool executable,
                 char path[STUB_PATH])
{
    if (stub_store(bytes, size, prefix, suffix, executable, path) == 0)
        return CLI_OK;
    cli_say("run", "there is no place for %s: %s",
            executable ? "the hook library" : "what is made of the configuration", path);
    return CLI_RUN_FAILED;
}

static int freeze(struct run_wish *wish, char path[STUB_PATH])
{
    struct tdi_frozen *frozen = &wish->config.conf.frozen;
    tdi_frozen_seal(frozen);
    return store(frozen, tdi_frozen_size(frozen), ".tundish-policy-", "", false, path);
}

static int make_hooks(const struct tdi_frozen *frozen, char **hooks)
{
    const char *names[TDI_FROZEN_HOOKS];
    char path[STUB_PATH];
    size_t size;
    for (uint32_t i = 0; i < frozen->hooks; i++)
        names[i] = tdi_frozen_text(frozen, frozen->hook[i].symbol);
    unsigned char *bytes = stub_make(STUB_HERE, names, frozen->hooks, &size);
    if (!bytes) {
        cli_say("run", "the hook library: %s",
                errno == ENOTSUP ? "there are no hooks on this kind of machine" : strerror(errno));
        return CLI_RUN_FAILED;
    }
    int status = store(bytes, size, TDI_STUB_FILE, ".so", true, path);
    free(bytes);
    *hooks = status == CLI_OK ? strdup(path) : NULL;
    return status == CLI_OK && !*hooks ? CLI_RUN_FAILED : status;
}

static int put(const char *word, const char *value)
{
    if ((value ? setenv(word, value, 1) : unsetenv(word)) == 0)
        return CLI_OK;
    cli_say(word, "%s", strerror(errno));
    return CLI_RUN_FAILED;
}

/* A file that is not in force must not be read again by the command; that a launcher has failed stays known. */
static int put_none(void)
{
    const char *word = config_word();
    return word && strcmp(word, CONFIG_SAID) == 0 ? CLI_OK : put(CONFIG_WORD, NULL);
}

static void say(const struct run_wish *wish)
{
    const struct tdi_frozen *frozen = &wish->config.conf.frozen;
    int hooks = __builtin_popcount(config_hooks_in_use(frozen));
    if (wish->verbose && wish->config.kind == CONFIG_FROZEN)
        cli_say("run", "the outer run's configuration holds as well: %s",
                tdi_frozen_text(frozen, frozen->source));
    else if (wish->verbose)
        cli_say("run", "%s: %u rule%s, %d hook%s", wish->config.path, frozen->rules,
                frozen->rules == 1 ? "" : "s", hooks, hooks == 1 ? "" : "s");
}

int run_config_set(struct run_wish *wish, char **hooks)
{
    const struct tdi_frozen *frozen = &wish->config.conf.frozen;
    char path[STUB_PATH], process[24];
    int status = CLI_OK;
    *hooks = NULL;
    if (!run_config_is_in_force(wish))
        return put_none();
    if (wish->config.kind == CONFIG_TEXT) {
        status = freeze(wish, path);
        if (status == CLI_OK)
            status = put(CONFIG_WORD, path);
    }
    snprintf(process, sizeof(process), "%ld", (long)getpid());
    if (status == CLI_OK)
        status = put("TUNDISH_RUN", process);
    if (status == CLI_OK && config_hooks_in_use(frozen))
        status = make_hooks(frozen, hooks);
    if (status == CLI_OK)
        say(wish);
    return status;
}
