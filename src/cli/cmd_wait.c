/* SPDX-License-Identifier: MIT */
/* tundish wait: stands in line for tokens, so that scripts can pace themselves. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>

enum {
    OPTION_TIMEOUT = CLI_OPTION_OWN,
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {NULL, 0, NULL, 0},
};

static int wait_for(const char *name, uint32_t n, uint64_t timeout_ns)
{
    struct tundish *bucket;
    int status = cli_bucket_open(name, &bucket, NULL);
    if (status)
        return status;
    int error = tundish_acquire_for(bucket, n, timeout_ns);
    tundish_close(bucket);
    if (error == -ETIMEDOUT)
        return CLI_TIMED_OUT;
    return error ? cli_bucket_error(name, error) : CLI_OK;
}

static int parse_timeout(const char *text, uint64_t *out)
{
    const char *why;
    if (tdi_unit_parse_duration_ns(text, out, &why) == 0)
        return CLI_OK;
    cli_say("--timeout", "'%s': %s", text, why);
    return CLI_USAGE;
}

static int run(int argc, char **argv)
{
    uint64_t timeout_ns = UINT64_MAX;
    uint32_t n = 1;
    int option, status = CLI_OK;
    while (status == CLI_OK && (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option != OPTION_TIMEOUT)
            return cli_other_option(&cmd_wait, option, argv);
        status = parse_timeout(optarg, &timeout_ns);
    }
    if (status)
        return status;
    if (argc - optind < 1 || argc - optind > 2)
        return cli_usage(&cmd_wait, "needs NAME and perhaps a count");
    if (argc - optind == 2 && (status = cli_count_parse("count", argv[optind + 1], &n)) != CLI_OK)
        return status;
    return wait_for(argv[optind], n, timeout_ns);
}

const struct cli_command cmd_wait = {
    .name = "wait",
    .arguments = "NAME [N] [--timeout D]",
    .summary = "Wait in line for N tokens (1) and take them",
    .details = "  --timeout D   give up after this time, with exit status 124 and nothing taken\n\n"
               "First come, first served, with all who wait for this bucket. More than the capacity is\n"
               "gathered piece by piece. Exit status: 0 taken, 124 timed out, 1 error.\n",
    .run = run,
};
