/* SPDX-License-Identifier: MIT */
/* The words that several commands read: rates, bursts, counts, times and names of buckets. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int complain(const char *what, const char *text, const char *why)
{
    char subject[256];
    snprintf(subject, sizeof(subject), "%s '%s'", what, text);
    cli_say(subject, "%s", why);
    return CLI_USAGE;
}

int cli_rate_parse(const char *what, const char *text, struct tdi_rate *out)
{
    const char *why = NULL;
    return tdi_unit_parse_rate(text, out, &why) < 0 ? complain(what, text, why) : CLI_OK;
}

int cli_rule_parse(struct cli_rule *rule, const char *rate, const char *burst)
{
    const char *why = NULL;
    if (rate && cli_rate_parse("--rate", rate, &rule->rate) != CLI_OK)
        return CLI_USAGE;
    if (burst && tdi_unit_parse_burst(burst, &rule->rate, &rule->burst, &why) < 0)
        return complain("--burst", burst, why);
    if (!burst)
        rule->burst = tdi_unit_default_burst(&rule->rate);
    return CLI_OK;
}

struct tundish_options cli_rule_options(const struct cli_rule *rule)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(rule->burst, rule->rate.refill);
    options.interval_us = rule->rate.interval_us;
    if (rule->rate.bytes)
        options.flags |= TUNDISH_BYTES;
    return options;
}

struct cli_rule cli_rule_of(const struct tundish_info *info)
{
    return (struct cli_rule){
        .rate = {info->refill, info->interval_us, (info->flags & TUNDISH_BYTES) != 0},
        .burst = info->capacity,
    };
}

void cli_rule_format(char text[CLI_RULE_TEXT], const struct cli_rule *rule)
{
    char rate[64], burst[64];
    tdi_unit_format_rate(rate, sizeof(rate), &rule->rate);
    tdi_unit_format_count(burst, sizeof(burst), rule->burst, rule->rate.bytes);
    snprintf(text, CLI_RULE_TEXT, "%s, burst %s", rate, burst);
}

void cli_rule_say(const char *name, const struct cli_rule *rule, bool burst_chosen)
{
    char text[CLI_RULE_TEXT];
    cli_rule_format(text, rule);
    cli_say(name, "%s%s", text, burst_chosen ? "" : " by default");
}

int cli_rule_error(const char *name, const struct cli_rule *rule, int error)
{
    char path[4096], text[CLI_RULE_TEXT];
    int resolved = tundish_path(name, path, sizeof(path));
    if (error == -EINVAL && resolved == 0) {
        cli_rule_format(text, rule);
        cli_say(name, "%s is more than a bucket can do; lower the rate or the burst", text);
        return CLI_FAILED;
    }
    if (error == -ENOENT && resolved == 0) {
        *strrchr(path, '/') = '\0';
        cli_say(name, "its directory does not exist: %s", path[0] ? path : "/");
        return CLI_FAILED;
    }
    return cli_bucket_error(name, error);
}

int cli_count_parse(const char *what, const char *text, uint32_t *out)
{
    const char *why = NULL;
    if (tdi_unit_parse_count(text, out, &why) < 0)
        return complain(what, text, why);
    return CLI_OK;
}

int cli_number_parse(const struct cli_command *command, const char *what, const char *text, uint32_t *out)
{
    const char *why = NULL;
    int error = tdi_unit_parse_count(text, out, &why);
    if (error == -ERANGE)
        return cli_usage(command, "%s '%s': is more than %" PRIu32, what, text, UINT32_MAX);
    if (error)
        return cli_usage(command, "%s '%s': is no whole number, such as 20", what, text);
    return *out == 0 ? cli_usage(command, "%s '%s': is zero", what, text) : CLI_OK;
}

/* "1", "0.5" and ".5" are seconds, as other tools that repeat something have it. */
int cli_time_parse(const struct cli_command *command, const char *what, const char *text,
                   const struct cli_span *bounds, uint64_t *out_ns)
{
    char seconds[64], bound[64];
    const char *why = NULL;
    bool bare = text[0] && text[strspn(text, "0123456789.")] == '\0';
    snprintf(seconds, sizeof(seconds), "%s%s%s", text[0] == '.' ? "0" : "", text, bare ? "s" : "");
    if (tdi_unit_parse_duration_ns(seconds, out_ns, &why) < 0)
        return cli_usage(command, "%s '%s': %s", what, text, why);
    bool less = *out_ns < bounds->least_ns;
    tdi_unit_format_duration(bound, sizeof(bound), less ? bounds->least_ns : bounds->most_ns);
    if (less || *out_ns > bounds->most_ns)
        return cli_usage(command, "%s '%s': is %s than %s", what, text, less ? "less" : "more", bound);
    return CLI_OK;
}

int cli_bucket_open(const char *name, struct tundish **out, struct tundish_info *info)
{
    int error = tundish_open(out, name);
    if (error)
        return cli_bucket_error(name, error);
    if (!info)
        return CLI_OK;
    *info = (struct tundish_info)TUNDISH_INFO_INIT;
    error = tundish_info(*out, info);
    if (error == 0)
        return CLI_OK;
    tundish_close(*out);
    return cli_bucket_error(name, error);
}
