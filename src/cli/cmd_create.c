/* SPDX-License-Identifier: MIT */
/* tundish create: makes a bucket, never touches one that is there. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

enum {
    OPTION_INITIAL = CLI_OPTION_OWN,
    OPTION_MODE,
    OPTION_STEPPED,
    OPTION_STRICT,
    OPTION_UNFAIR,
};

static const struct option long_options[] = {
    {"burst", required_argument, NULL, CLI_OPTION_BURST}, {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"initial", required_argument, NULL, OPTION_INITIAL}, {"mode", required_argument, NULL, OPTION_MODE},
    {"rate", required_argument, NULL, CLI_OPTION_RATE},   {"stepped", no_argument, NULL, OPTION_STEPPED},
    {"strict", no_argument, NULL, OPTION_STRICT},         {"unfair", no_argument, NULL, OPTION_UNFAIR},
    {"verbose", no_argument, NULL, CLI_OPTION_VERBOSE},   {NULL, 0, NULL, 0},
};

/* The words of the command line, before the rate makes sense of them. */
struct words {
    const char *name, *rate, *burst, *initial, *mode;
    uint32_t flags;
    bool verbose;
};

static int parse_mode(const char *text, mode_t *out)
{
    mode_t mode = 0;
    size_t len = strspn(text, "01234567");
    for (size_t i = 0; i < len && mode <= 0777; i++)
        mode = mode * 8 + (mode_t)(text[i] - '0');
    if (len == 0 || text[len] != '\0' || mode > 0777)
        return cli_usage(&cmd_create, "--mode %s is no octal mode such as 0660", text);
    *out = mode;
    return CLI_OK;
}

static int make_rule(const struct words *words, struct cli_rule *rule)
{
    int status = cli_rule_parse(rule, words->rate, words->burst);
    if (status == CLI_OK && !words->burst)
        rule->burst = tdi_unit_burst_of(&rule->rate, (words->flags & TUNDISH_STEPPED) != 0);
    return status;
}

static int make_options(const struct words *words, const struct cli_rule *rule,
                        struct tundish_options *options)
{
    int status = CLI_OK;
    *options = cli_rule_options(rule);
    options->flags |= words->flags;
    if (words->mode)
        status = parse_mode(words->mode, &options->mode);
    if (status == CLI_OK && words->initial)
        status = cli_count_parse("--initial", words->initial, &options->initial);
    if (status == CLI_OK && words->initial && options->initial > options->capacity)
        status = cli_usage(&cmd_create, "--initial %s is more than the burst of %u", words->initial,
                           options->capacity);
    return status;
}

static int create(const struct words *words)
{
    struct cli_rule rule;
    struct tundish_options options;
    struct tundish *bucket;
    int status = make_rule(words, &rule);
    if (status == CLI_OK)
        status = make_options(words, &rule, &options);
    if (status)
        return status;
    int error = tundish_create(&bucket, words->name, &options);
    if (error == -EEXIST) {
        cli_say(words->name, "exists already; 'tundish set' changes it, 'tundish rm' removes it");
        return CLI_FAILED;
    }
    if (error)
        return cli_rule_error(words->name, &rule, error);
    tundish_close(bucket);
    if (words->verbose)
        cli_rule_say(words->name, &rule, words->burst != NULL);
    return CLI_OK;
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
        case OPTION_INITIAL:
            words.initial = optarg;
            break;
        case OPTION_MODE:
            words.mode = optarg;
            break;
        case OPTION_STEPPED:
            words.flags |= TUNDISH_STEPPED;
            break;
        case OPTION_STRICT:
            words.flags |= TUNDISH_STRICT;
            break;
        case OPTION_UNFAIR:
            words.flags |= TUNDISH_UNFAIR;
            break;
        default:
            return cli_other_option(&cmd_create, option, argv);
        }
    }
    if (optind != argc - 1)
        return cli_usage(&cmd_create, "needs one NAME");
    if (!words.rate)
        return cli_usage(&cmd_create, "needs --rate");
    words.name = argv[optind];
    return create(&words);
}

const struct cli_command cmd_create = {
    .name = "create",
    .arguments = "NAME --rate R [--burst B] [--initial N] [--unfair] [--stepped] [--strict] [--mode 0660]",
    .summary = "Make a bucket",
    .details = "  --rate R       tokens gained per time: 10/s, 3/2min, 5MiB/s, 8Mbit/s\n"
               "  --burst B      most it holds: a count, a size, or a time's worth of the rate (200ms)\n"
               "                 default: calls 1s, at least 1; bytes 200ms, at least 64KiB; a whole step\n"
               "  --initial N    tokens at the start (default: full)\n"
               "  --unfair       newcomers may take tokens while others wait in line\n"
               "  --stepped      gain the whole rate at the end of each interval\n"
               "  --strict       hold the limit to the token even while waiters wake late\n"
               "  --mode M       permissions of the file, octal (default: 0600)\n"
               "  --verbose      say what was made\n",
    .run = run,
};
