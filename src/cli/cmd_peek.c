/* SPDX-License-Identifier: MIT */
/* tundish peek: what is in a bucket, for scripts: one `key value` per line. */
#include "cli/cli.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* Seconds, exact and without needless zeros: scripts compute with it. */
static void print_seconds(const char *key, uint64_t ns)
{
    char fraction[16];
    if (ns == UINT64_MAX) {
        printf("%s never\n", key);
        return;
    }
    snprintf(fraction, sizeof(fraction), ".%09" PRIu64, ns % 1000000000);
    size_t len = strlen(fraction);
    while (len > 0 && (fraction[len - 1] == '0' || fraction[len - 1] == '.'))
        fraction[--len] = '\0';
    printf("%s %" PRIu64 "%s s\n", key, ns / 1000000000, fraction);
}

static int peek(const char *name, uint32_t n)
{
    struct tundish *bucket;
    struct tundish_info info;
    char rate[64];
    int status = cli_bucket_open(name, &bucket, &info);
    if (status)
        return status;
    const struct cli_rule rule = cli_rule_of(&info);
    tdi_unit_format_rate(rate, sizeof(rate), &rule.rate);
    printf("available %" PRIu32 "\ncapacity %" PRIu32 "\nrate %s\n", info.available, info.capacity, rate);
    print_seconds("wait", tundish_wait_time_ns(bucket, n));
    printf("waiting %" PRIu32 "\n", info.waiting);
    print_seconds("oldest_wait", info.oldest_wait_ns);
    tundish_close(bucket);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    uint32_t n = 1;
    int option = getopt_long(argc, argv, ":h", long_options, NULL);
    if (option != -1)
        return cli_other_option(&cmd_peek, option, argv);
    if (argc - optind < 1 || argc - optind > 2)
        return cli_usage(&cmd_peek, "needs NAME and perhaps a count");
    if (argc - optind == 2) {
        int status = cli_count_parse("count", argv[optind + 1], &n);
        if (status)
            return status;
    }
    return peek(argv[optind], n);
}

const struct cli_command cmd_peek = {
    .name = "peek",
    .arguments = "NAME [N]",
    .summary = "Show what is in a bucket and how long N tokens (1) would take; takes nothing",
    .details =
        "Prints one `key value` per line: available and capacity in tokens, rate, wait in seconds, how\n"
        "many are waiting in line and since when the first of them.\n",
    .run = run,
};
