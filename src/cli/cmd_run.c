/* SPDX-License-Identifier: MIT */
/* tundish run: reads its options and goes through the steps of run.h; on success it has become the command.
 */
#include "cli/run.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_CALLS = CLI_OPTION_OWN,
    OPTION_CONFIG,
    OPTION_CONNECT,
    OPTION_COUNT,
    OPTION_DEST,
    OPTION_DOWN,
    OPTION_DRY_RUN,
    OPTION_INHERIT,
    OPTION_MAX_WAIT,
    OPTION_NO_CONFIG,
    OPTION_PER_PROCESS,
    OPTION_RELAUNCHED,
    OPTION_UP,
    OPTION_WHEN_EMPTY,
};

static const struct option long_options[] = {
    {"bucket", required_argument, NULL, 'b'},
    {"burst", required_argument, NULL, CLI_OPTION_BURST},
    {"calls", required_argument, NULL, OPTION_CALLS},
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"connect", required_argument, NULL, OPTION_CONNECT},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"dest", required_argument, NULL, OPTION_DEST},
    {"down", required_argument, NULL, OPTION_DOWN},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"inherit", required_argument, NULL, OPTION_INHERIT},
    {"max-wait", required_argument, NULL, OPTION_MAX_WAIT},
    {"no-config", no_argument, NULL, OPTION_NO_CONFIG},
    {"per-process", no_argument, NULL, OPTION_PER_PROCESS},
    {"rate", required_argument, NULL, CLI_OPTION_RATE},
    {"relaunched", required_argument, NULL, OPTION_RELAUNCHED}, /* for the preloaded library */
    {"up", required_argument, NULL, OPTION_UP},
    {"verbose", no_argument, NULL, CLI_OPTION_VERBOSE},
    {"when-empty", required_argument, NULL, OPTION_WHEN_EMPTY},
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

/* Where the value of an option is kept as written; NULL if it has none. */
static const char **find_place(struct run_wish *wish, int option)
{
    switch (option) {
    case CLI_OPTION_RATE:
        return &wish->rates[RUN_CHOSEN];
    case OPTION_UP:
        return &wish->rates[RUN_UP];
    case OPTION_DOWN:
        return &wish->rates[RUN_DOWN];
    case OPTION_CONNECT:
        return &wish->rates[RUN_CONNECT];
    case CLI_OPTION_BURST:
        return &wish->burst;
    case OPTION_CALLS:
        return &wish->calls;
    case OPTION_CONFIG:
        return &wish->config_option;
    case OPTION_DEST:
        return &wish->dest;
    case OPTION_INHERIT:
        return &wish->inherit;
    case OPTION_MAX_WAIT:
        return &wish->max_wait;
    case OPTION_RELAUNCHED:
        return &wish->relaunched;
    case OPTION_WHEN_EMPTY:
        return &wish->when_empty;
    default:
        return NULL;
    }
}

/* Where a flag is kept. */
static bool *find_flag(struct run_wish *wish, int option)
{
    switch (option) {
    case CLI_OPTION_VERBOSE:
        return &wish->verbose;
    case OPTION_DRY_RUN:
        return &wish->dry_run;
    case OPTION_NO_CONFIG:
        return &wish->no_config;
    case OPTION_PER_PROCESS:
        return &wish->per_process;
    default:
        return NULL;
    }
}

static int take_option(struct run_wish *wish, int option, char **argv)
{
    const char **place = find_place(wish, option);
    bool *flag = find_flag(wish, option);
    if (place)
        *place = optarg;
    else if (flag)
        *flag = true;
    else if (option == 'b')
        return add_name(wish, optarg);
    else if (option == OPTION_COUNT)
        return parse_count(wish, optarg);
    else
        return cli_other_option(&cmd_run, option, argv);
    return CLI_OK;
}

static void say_quotas(const struct run_wish *wish)
{
    char text[CLI_RULE_TEXT];
    for (size_t i = 0; wish->verbose && wish->per_process && i < wish->rule_count; i++) {
        cli_rule_format(text, &wish->rules[i].limit);
        cli_say("run", "%s for each process%s%s", text, wish->rules[i].calls ? ": " : "",
                wish->rules[i].calls ? wish->rules[i].calls : "");
    }
}

/* All that the command will find. */
static int prepare(struct run_wish *wish)
{
    char *hooks = NULL;
    int status = run_buckets_prepare(wish);
    if (status == CLI_OK && !wish->relaunched)
        status = run_environment_set(wish);
    if (status == CLI_OK)
        status = run_config_set(wish, &hooks);
    if (status == CLI_OK)
        status = run_preload_set(hooks, wish->relaunched != NULL);
    free(hooks);
    return status;
}

/* Returns only if it fails, and then leaves nothing behind. */
static int start(struct run_wish *wish)
{
    char path[RUN_PATH];
    int status = run_command_find(wish->command[0], path);
    if (status)
        return status;
    status = prepare(wish);
    if (status == CLI_OK) {
        say_quotas(wish);
        run_command_warn(wish->command[0], path);
        status = run_command_exec(wish->command);
    }
    run_buckets_discard(wish);
    return status;
}

/*
 * A program that was preloaded by hand has started us in its place, to read its configuration file. It is to
 * run, whatever is wrong: that is said here, and it learns that it has been said.
 */
static int start_again(struct run_wish *wish)
{
    int status = run_config_find(wish);
    if (status == CLI_OK)
        status = prepare(wish);
    if (status) {
        run_buckets_discard(wish);
        setenv(CONFIG_WORD, CONFIG_SAID, 1);
    }
    return run_command_exec_file(wish->relaunched, wish->command);
}

static int run(int argc, char **argv)
{
    static struct run_wish wish;
    int option, status;
    while ((option = getopt_long(argc, argv, "+:hb:", long_options, NULL)) != -1) {
        status = take_option(&wish, option, argv);
        if (status || option == CLI_OPTION_HELP)
            return status;
    }
    wish.command = argv + optind;
    unsetenv("TUNDISH_RELAUNCHED"); /* it is about this process, and the command may keep its number */
    if (wish.relaunched)
        return start_again(&wish);
    if (!wish.command[0])
        return cli_usage(&cmd_run, "needs a command");
    if (wish.config_option && wish.no_config)
        return cli_usage(&cmd_run, "--config and --no-config exclude each other");
    status = run_config_find(&wish);
    if (status == CLI_OK)
        status = run_wish_check(&wish);
    return status ? status : start(&wish);
}

const struct cli_command cmd_run = {
    .name = "run",
    .arguments = "[-b NAME]... [--rate R] [--up R] [--down R] [--connect R]\n"
                 "                   [--burst B] [--per-process] [--calls LIST] [--count bytes|calls]\n"
                 "                   [--dest LIST] [--when-empty WHAT] [--max-wait D] [--dry-run]\n"
                 "                   [--inherit env|always|never] [--config FILE | --no-config] [--verbose]\n"
                 "                   -- COMMAND [ARGUMENT]...",
    .summary = "Run a command within the limit of buckets",
    .details =
        "  -b NAME          obey this bucket; more than one: all must grant. With --rate it is made "
        "if missing\n"
        "  --rate R         without -b: one bucket for the command and all it starts: 10/s, 5MiB/s\n"
        "  --up R           one bucket for what they send: 1MB/s\n"
        "  --down R         one bucket for what they receive\n"
        "  --connect R      one bucket for their connections: 10/s\n"
        "  --burst B        the burst of each of these: a count, a size or a time's worth of the rate\n"
        "  --per-process    give each process a quota of its own instead\n"
        "  --calls LIST     which calls -b and --rate limit: up, down, connect or names of calls\n"
        "                   (default: up if bytes are counted, connect if calls are)\n"
        "  --count WHAT     bytes or calls (default: by the unit of the rate, or as the bucket says)\n"
        "  --dest LIST      only these: 10.0.0.0/8, 10.0.0.1:443, [2001:db8::]/32, :443, unix, pipe, "
        "file,\n"
        "                   tty, inet (default: inet)\n"
        "  --when-empty W   wait, refuse, refuse:ERRNO, drop or observe (default: wait)\n"
        "  --max-wait D     the longest that a call waits: 500ms\n"
        "  --dry-run        hold nothing, and say at the end what would have been held\n"
        "  --inherit W      what executed programs inherit: env (by their environment, the default), "
        "always\n"
        "                   or never\n"
        "  --config FILE    obey the rules of this file too (default: $TUNDISH_CONFIG, else\n"
        "                   ~/.config/tundish/tundish.conf, else /etc/tundish/tundish.conf);\n"
        "                   'tundish check' tells what it says\n"
        "  --no-config      read no file; what an outer run has in force stays\n"
        "  --verbose        say what limit holds, and let the command's processes say a line each\n"
        "\n"
        "Exit status: the command's own; 125 tundish failed, 126 the command cannot be executed, 127 "
        "there is\n"
        "no such command, 64 wrong usage.\n",
    .run = run,
};
