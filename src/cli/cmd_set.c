/* SPDX-License-Identifier: MIT */
/* tundish set: changes rate and burst of a bucket while it is in use. */
#include "cli/cli.h"

#include <getopt.h>

static const struct option long_options[] = {
    {"burst", required_argument, NULL, CLI_OPTION_BURST},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"rate", required_argument, NULL, CLI_OPTION_RATE},
    {"verbose", no_argument, NULL, CLI_OPTION_VERBOSE},
    {NULL, 0, NULL, 0},
};

struct words {
    const char *name, *rate, *burst;
    bool verbose;
};

/* The bucket's rule with the words put in; a missing one keeps what is there. */
static int change_rule(const struct words *words, const struct tundish_info *info, struct cli_rule *rule)
{
    *rule = cli_rule_of(info);
    const struct cli_rule old = *rule;
    int status = cli_rule_parse(rule, words->rate, words->burst);
    if (status)
        return status;
    if (!words->burst)
        rule->burst = old.burst;
    if (rule->rate.bytes != old.rate.bytes) {
        cli_say(words->name, "counts %s, and '%s' is a rate of %s; write %s",
                old.rate.bytes ? "bytes" : "calls", words->rate, rule->rate.bytes ? "bytes" : "calls",
                old.rate.bytes ? "it with a unit, as in 5MiB/s" : "it without a unit, as in 10/s");
        return CLI_FAILED;
    }
    return CLI_OK;
}

static int apply(const struct words *words, struct tundish *bucket, const struct tundish_info *info)
{
    struct cli_rule rule;
    int status = change_rule(words, info, &rule);
    if (status)
        return status;
    struct tundish_options options = cli_rule_options(&rule);
    options.flags = info->flags;
    int error = tundish_configure(bucket, &options);
    if (error)
        return cli_rule_error(words->name, &rule, error);
    if (words->verbose)
        cli_rule_say(words->name, &rule, true);
    return CLI_OK;
}

static int set(const struct words *words)
{
    struct tundish *bucket;
    struct tundish_info info;
    int status = cli_bucket_open(words->name, &bucket, &info);
    if (status)
        return status;
    status = apply(words, bucket, &info);
    tundish_close(bucket);
    return status;
}

static int run(int argc, char **argv)
{
    struct words words = {0};
    int option;
    while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        switch (option) {
        case CLI_OPTION_BURST:
            words.burst = optarg;
            break;
        case CLI_OPTION_RATE:
            words.rate = optarg;
            break;
        case CLI_OPTION_VERBOSE:
            words.verbose = true;
            break;
        default:
            return cli_other_option(&cmd_set, option, argv);
        }
    }
    if (optind != argc - 1)
        return cli_usage(&cmd_set, "needs one NAME");
    if (!words.rate && !words.burst)
        return cli_usage(&cmd_set, "needs --rate or --burst");
    words.name = argv[optind];
    return set(&words);
}

const struct cli_command cmd_set = {
    .name = "set",
    .arguments = "NAME [--rate R] [--burst B]",
    .summary = "Change the rate or the burst of a bucket, for all its users at once",
    .details = "  --rate R     the new rate: 10/s, 3/2min, 5MiB/s\n"
               "  --burst B    the new burst: a count, a size or a time's worth of the rate\n"
               "  --verbose    say what holds now\n"
               "\nWhat is not given stays. No token is minted by the change.\n",
    .run = run,
};
