/* SPDX-License-Identifier: MIT */
/* tundish reset and tundish rm: one thing done to each name; one that fails does not keep the others from it.
 */
#include "cli/cli.h"

#include <getopt.h>

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int for_each(const struct cli_command *command, int argc, char **argv, int act(const char *name))
{
    int status = CLI_OK;
    int option = getopt_long(argc, argv, ":h", long_options, NULL);
    if (option != -1)
        return cli_other_option(command, option, argv);
    if (optind == argc)
        return cli_usage(command, "needs a NAME");
    for (int i = optind; i < argc; i++)
        if (act(argv[i]) != CLI_OK)
            status = CLI_FAILED;
    return status;
}

static int reset(const char *name)
{
    struct tundish *bucket;
    int status = cli_bucket_open(name, &bucket, NULL);
    if (status)
        return status;
    int error = tundish_reset(bucket);
    tundish_close(bucket);
    return error ? cli_bucket_error(name, error) : CLI_OK;
}

static int run_reset(int argc, char **argv)
{
    return for_each(&cmd_reset, argc, argv, reset);
}

static int rm(const char *name)
{
    int error = tundish_unlink(name);
    return error ? cli_bucket_error(name, error) : CLI_OK;
}

static int run_rm(int argc, char **argv)
{
    return for_each(&cmd_rm, argc, argv, rm);
}

const struct cli_command cmd_reset = {
    .name = "reset",
    .arguments = "NAME...",
    .summary = "Fill buckets to the brim",
    .run = run_reset,
};

const struct cli_command cmd_rm = {
    .name = "rm",
    .arguments = "NAME...",
    .summary = "Remove buckets; processes that have one open go on sharing it",
    .details = "A file that is no bucket is never removed.\n",
    .run = run_rm,
};
