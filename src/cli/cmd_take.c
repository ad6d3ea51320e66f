/* SPDX-License-Identifier: MIT */
/* tundish take: takes tokens now or says by its exit status that there are too few. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int take(const char *name, uint32_t n)
{
    struct tundish *bucket;
    struct tundish_info info;
    int status = cli_bucket_open(name, &bucket, &info);
    if (status)
        return status;
    int error = tundish_try_acquire(bucket, n);
    tundish_close(bucket);
    if (error == -EAGAIN)
        return CLI_SHORT;
    if (error == -E2BIG) {
        cli_say(name, "never holds %u tokens at once, its capacity is %u", n, info.capacity);
        return CLI_FAILED;
    }
    return error ? cli_bucket_error(name, error) : CLI_OK;
}

static int run(int argc, char **argv)
{
    uint32_t n = 1;
    int option = getopt_long(argc, argv, ":h", long_options, NULL);
    if (option != -1)
        return cli_other_option(&cmd_take, option, argv);
    if (argc - optind < 1 || argc - optind > 2)
        return cli_usage(&cmd_take, "needs NAME and perhaps a count");
    if (argc - optind == 2) {
        int status = cli_count_parse("count", argv[optind + 1], &n);
        if (status)
            return status;
    }
    return take(argv[optind], n);
}

const struct cli_command cmd_take = {
    .name = "take",
    .arguments = "NAME [N]",
    .summary = "Take N tokens (1) now, or exit with 75 if there are fewer",
    .details = "N is a count (20) or a size (64KiB). Exit status: 0 taken, 75 too few now, 1 error.\n",
    .run = run,
};
