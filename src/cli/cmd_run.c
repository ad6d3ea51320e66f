/* SPDX-License-Identifier: MIT */
/* tundish run: reads its options and goes through the steps of run.h; on success it has become the command.
 */
#include "cli/run.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum {
    OPTION_CALLS = CLI_OPTION_OWN,
    OPTION_COUNT,
    OPTION_PER_PROCESS,
};

static const struct option long_options[] = {
    {"bucket", required_argument, NULL, 'b'},
    {"burst", required_argument, NULL, CLI_OPTION_BURST},
    {"calls", required_argument, NULL, OPTION_CALLS},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"per-process", no_argument, NULL, OPTION_PER_PROCESS},
    {"rate", required_argument, NULL, CLI_OPTION_RATE},
    {"verbose", no_argument, NULL, CLI_OPTION_VERBOSE},
    {NULL, 0, NULL, 0},
};

static int add_name(struct run_wish *wish, const char *name)
{
    if (wish->name_count == TDI_POLICY_BUCKETS)
        return cli_usage(&cmd_run, "no more than %d buckets at once", TDI_POLICY_BUCKETS);
    wish->names[wish->name_count++] = name;
    return CLI_OK;
}

static int parse_count(struct run_wish *wish, const char *word)
{
    if (strcmp(word, "bytes") == 0)
        wish->count = TDI_COUNT_BYTES;
    else if (strcmp(word, "calls") == 0)
        wish->count = TDI_COUNT_CALLS;
    else
        return cli_usage(&cmd_run, "--count %s is neither bytes nor calls", word);
    return CLI_OK;
}

/* Asks the reader of the environment, which is who will read it in the end. */
static int check_calls(const char *calls)
{
    char word[512], bucket[] = "TUNDISH_BUCKET=x", why[512];
    char *words[] = {bucket, word, NULL};
    struct tdi_policy policy;
    if (snprintf(word, sizeof(word), "TUNDISH_CALLS=%s", calls) >= (int)sizeof(word))
        return cli_usage(&cmd_run, "--calls is too long");
    if (tdi_policy_from_environ(&policy, words, "", why, sizeof(why)) == 0)
        return CLI_OK;
    const char *reason = strstr(why, ": ");
    return cli_usage(&cmd_run, "--calls %s: %s", calls, reason ? reason + 2 : why);
}

/* Reads --rate and --burst together with --count: 10/s with --count bytes is ten bytes a second. */
static int parse_rule(struct run_wish *wish)
{
    int status = cli_rule_parse(&wish->rule, wish->rate, NULL);
    if (status)
        return status;
    if (wish->rule.rate.bytes && wish->count == TDI_COUNT_CALLS)
        return cli_usage(&cmd_run, "--rate %s is in bytes, but --count says calls", wish->rate);
    if (wish->count == TDI_COUNT_BYTES)
        wish->rule.rate.bytes = true;
    return cli_rule_parse(&wish->rule, NULL, wish->burst);
}

static int check_wish(struct run_wish *wish)
{
    if (!wish->command[0])
        return cli_usage(&cmd_run, "needs a command");
    if (!wish->rate && wish->name_count == 0)
        return cli_usage(&cmd_run, "needs -b NAME or --rate, else there is nothing to limit");
    if (!wish->rate && wish->burst)
        return cli_usage(&cmd_run, "--burst goes with --rate");
    if (wish->per_process && wish->name_count > 0)
        return cli_usage(&cmd_run, "--per-process and -b exclude each other: a bucket is shared");
    if (wish->rate) {
        int status = parse_rule(wish);
        if (status)
            return status;
    }
    return wish->calls ? check_calls(wish->calls) : CLI_OK;
}

static void say_quota(const struct run_wish *wish)
{
    char text[CLI_RULE_TEXT];
    if (!wish->verbose || !wish->per_process)
        return;
    cli_rule_format(text, &wish->rule);
    cli_say("run", "%s for each process", text);
}

/* Returns only if it fails, and then leaves nothing behind. */
static int start(const struct run_wish *wish)
{
    char path[RUN_PATH];
    struct run_buckets buckets;
    int status = run_command_find(wish->command[0], path);
    if (status)
        return status;
    status = run_buckets_prepare(wish, &buckets);
    if (status == CLI_OK)
        status = run_environment_set(wish, &buckets);
    if (status == CLI_OK)
        status = run_preload_set();
    if (status == CLI_OK) {
        say_quota(wish);
        run_command_warn(wish->command[0], path);
        status = run_command_exec(wish->command);
    }
    run_buckets_discard(&buckets);
    return status;
}

static int run(int argc, char **argv)
{
    struct run_wish wish = {0};
    int option, status;
    while ((option = getopt_long(argc, argv, "+:hb:", long_options, NULL)) != -1) {
        status = CLI_OK;
        switch (option) {
        case 'b':
            status = add_name(&wish, optarg);
            break;
        case CLI_OPTION_BURST:
            wish.burst = optarg;
            break;
        case CLI_OPTION_RATE:
            wish.rate = optarg;
            break;
        case CLI_OPTION_VERBOSE:
            wish.verbose = true;
            break;
        case OPTION_CALLS:
            wish.calls = optarg;
            break;
        case OPTION_COUNT:
            status = parse_count(&wish, optarg);
            break;
        case OPTION_PER_PROCESS:
            wish.per_process = true;
            break;
        default:
            return cli_other_option(&cmd_run, option, argv);
        }
        if (status)
            return status;
    }
    wish.command = argv + optind;
    status = check_wish(&wish);
    return status ? status : start(&wish);
}

const struct cli_command cmd_run = {
    .name = "run",
    .arguments = "[-b NAME]... [--rate R] [--burst B] [--per-process] [--calls LIST]\n"
                 "                   [--count bytes|calls] [--verbose] -- COMMAND [ARGUMENT]...",
    .summary = "Run a command within the limit of buckets",
    .details = "  -b NAME          obey this bucket; more than one: all must grant. With --rate it is made "
               "if missing\n"
               "  --rate R         without -b: one bucket for the command and all it starts: 10/s, 5MiB/s\n"
               "  --burst B        its burst: a count, a size or a time's worth of the rate\n"
               "  --per-process    give each process a quota of its own instead\n"
               "  --calls LIST     which calls: connect, write, writev, send, sendto, sendmsg, or up for all "
               "but connect\n"
               "                   (default: up if bytes are counted, connect if calls are)\n"
               "  --count WHAT     bytes or calls (default: by the unit of the rate, or as the bucket says)\n"
               "  --verbose        say what limit holds, and let the command's processes say a line each\n"
               "\n"
               "Exit status: the command's own; 125 tundish failed, 126 the command cannot be executed, 127 "
               "there is\n"
               "no such command, 64 wrong usage.\n",
    .run = run,
};
