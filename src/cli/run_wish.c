/* SPDX-License-Identifier: MIT */
/* The options of a run: which of them go together, and the rules that they make. */
#include "cli/run.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *option;
    const char *calls;
    const char *suffix;
} flows[RUN_FLOWS] = {
    [RUN_CHOSEN] = {"--rate", NULL, ""},
    [RUN_UP] = {"--up", "up", "-up"},
    [RUN_DOWN] = {"--down", "down", "-down"},
    [RUN_CONNECT] = {"--connect", "connect", "-connect"},
};

/* Asks the reader of the environment, which is who will read it in the end. */
static int check_word(const char *option, const char *word, const char *value)
{
    char setting[2048], bucket[] = "TUNDISH_BUCKET=x", why[512];
    char *words[] = {bucket, setting, NULL};
    struct tdi_policy policy;
    if (!value)
        return CLI_OK;
    if (snprintf(setting, sizeof(setting), "%s=%s", word, value) >= (int)sizeof(setting))
        return cli_usage(&cmd_run, "%s is too long", option);
    if (tdi_policy_from_environ(&policy, words, "", why, sizeof(why)) == 0)
        return CLI_OK;
    size_t shown = strlen(value) < 80 ? strlen(value) : 80; /* as the complaint repeats it */
    return cli_usage(&cmd_run, "%s %s: %s", option, value, why + strlen(word) + 1 + shown + 2);
}

static int check_words(const struct run_wish *wish)
{
    int status = check_word("--calls", "TUNDISH_CALLS", wish->calls);
    if (status == CLI_OK)
        status = check_word("--dest", "TUNDISH_DEST", wish->dest);
    if (status == CLI_OK)
        status = check_word("--when-empty", "TUNDISH_WHEN_EMPTY", wish->when_empty);
    if (status == CLI_OK)
        status = check_word("--max-wait", "TUNDISH_MAX_WAIT", wish->max_wait);
    if (status == CLI_OK)
        status = check_word("--inherit", "TUNDISH_INHERIT", wish->inherit);
    return status;
}

/* Reads a rate and the burst together with --count: 10/s with --count bytes is ten bytes a second. */
static int parse_limit(const struct run_wish *wish, enum run_flow flow, struct cli_rule *limit)
{
    const char *option = flows[flow].option, *rate = wish->rates[flow];
    int status = cli_rate_parse(option, rate, &limit->rate);
    if (status)
        return status;
    if (limit->rate.bytes && flow == RUN_CONNECT)
        return cli_usage(&cmd_run, "--connect %s is in bytes, but a connection is a call: 10/s", rate);
    if (limit->rate.bytes && wish->count == TDI_COUNT_CALLS)
        return cli_usage(&cmd_run, "%s %s is in bytes, but --count says calls", option, rate);
    if (wish->count == TDI_COUNT_BYTES && flow != RUN_CONNECT)
        limit->rate.bytes = true;
    return cli_rule_parse(limit, NULL, wish->burst);
}

static int make_rule(struct run_wish *wish, enum run_flow flow)
{
    struct run_rule *rule = &wish->rules[wish->rule_count++];
    rule->rate = wish->rates[flow];
    rule->calls = flow == RUN_CHOSEN ? wish->calls : flows[flow].calls;
    rule->suffix = flows[flow].suffix;
    rule->counts = flow == RUN_CONNECT ? TDI_COUNT_CALLS : wish->count;
    if (!rule->rate)
        return CLI_OK;
    int status = parse_limit(wish, flow, &rule->limit);
    rule->counts = rule->limit.rate.bytes ? TDI_COUNT_BYTES : TDI_COUNT_CALLS;
    return status;
}

/* What is said about rules of options alone; those of a file say it themselves. */
static int refuse_idle(const struct run_wish *wish)
{
    const char *idle = wish->burst         ? "--burst"
                       : wish->calls       ? "--calls"
                       : wish->count       ? "--count"
                       : wish->dest        ? "--dest"
                       : wish->max_wait    ? "--max-wait"
                       : wish->per_process ? "--per-process"
                       : wish->when_empty  ? "--when-empty"
                                           : NULL;
    if (!run_config_is_in_force(wish))
        return cli_usage(&cmd_run,
                         "needs -b NAME, --rate, --up, --down or --connect, or a configuration file "
                         "with rules, else there is nothing to limit");
    if (idle)
        return cli_usage(&cmd_run,
                         "%s goes with -b, --rate, --up, --down or --connect; the rules of a file say "
                         "it themselves",
                         idle);
    return CLI_OK;
}

static int check_company(const struct run_wish *wish)
{
    const bool chosen = wish->rates[RUN_CHOSEN] || wish->name_count > 0;
    const bool flowing = wish->rates[RUN_UP] || wish->rates[RUN_DOWN] || wish->rates[RUN_CONNECT];
    if (!chosen && !flowing)
        return refuse_idle(wish);
    if (wish->name_count > 0 && flowing)
        return cli_usage(&cmd_run, "-b goes with --rate only: --up, --down and --connect have buckets of "
                                   "their own");
    if (!chosen && wish->calls)
        return cli_usage(&cmd_run, "--calls goes with -b or --rate: --up, --down and --connect name their "
                                   "calls");
    if (!flowing && !wish->rates[RUN_CHOSEN] && wish->burst)
        return cli_usage(&cmd_run, "--burst goes with --rate, --up, --down or --connect");
    if (wish->per_process && wish->name_count > 0)
        return cli_usage(&cmd_run, "--per-process and -b exclude each other: a bucket is shared");
    if (wish->dry_run && wish->when_empty && strcmp(wish->when_empty, "observe") != 0)
        return cli_usage(&cmd_run, "--dry-run holds nothing, so --when-empty %s has no meaning",
                         wish->when_empty);
    return CLI_OK;
}

int run_wish_check(struct run_wish *wish)
{
    int status = check_company(wish);
    for (enum run_flow flow = RUN_CHOSEN; flow < RUN_FLOWS && status == CLI_OK; flow++)
        if (wish->rates[flow] || (flow == RUN_CHOSEN && wish->name_count > 0))
            status = make_rule(wish, flow);
    if (status == CLI_OK)
        status = check_words(wish);
    if (wish->dry_run)
        wish->when_empty = "observe";
    return status;
}
