/* SPDX-License-Identifier: MIT */
/* tundish check: reads a configuration file as a run would, and tells what it says. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/check.h"

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

void check_put_item(const char *text, size_t len)
{
    for (; len > 0; len--, text++)
        putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
}

void check_put(const char *text)
{
    check_put_item(text, strlen(text));
}

static void put_path(const struct config *config)
{
    const struct tdi_frozen *frozen = &config->conf.frozen;
    check_put(config->path);
    if (config->kind == CONFIG_FROZEN) {
        printf(": a run has made it of ");
        check_put(tdi_frozen_text(frozen, frozen->source));
    }
    printf("\n");
}

static void print(const struct config *config)
{
    const struct tdi_frozen *frozen = &config->conf.frozen;
    put_path(config);
    for (uint32_t i = 0; config->kind == CONFIG_TEXT && i < config->conf.buckets; i++)
        check_bucket(&config->conf.bucket[i]);
    for (uint32_t i = 0; i < frozen->rules; i++)
        check_rule(frozen, &frozen->rule[i]);
    for (uint8_t group = 0; group < TDI_CONF_HOOKS; group++)
        if (check_hook_name(frozen, group))
            check_hooks(frozen, group);
}

static int find_nothing(void)
{
    char path[CONFIG_PATH];
    config_user_path(path);
    cli_say("check", "there is no configuration file: neither %s nor %s is there",
            *path ? path : "one of this user's", config_machine_path);
    return CLI_USAGE;
}

static int run(int argc, char **argv)
{
    static struct config config;
    const int option = getopt_long(argc, argv, ":h", long_options, NULL);
    if (option != -1)
        return cli_other_option(&cmd_check, option, argv);
    if (optind < argc - 1)
        return cli_usage(&cmd_check, "takes one FILE");
    int status = optind < argc ? config_read(&config, argv[optind]) : config_read_default(&config);
    if (status)
        return status;
    if (config.kind == CONFIG_NONE)
        return find_nothing();
    print(&config);
    return CLI_OK;
}

const struct cli_command cmd_check = {
    .name = "check",
    .arguments = "[FILE]",
    .summary = "Tell what a configuration file says",
    .details =
        "Prints each bucket, rule and hook of the file with all that is left to defaults, or all its\n"
        "mistakes. Without FILE it is the one that a run would read: $TUNDISH_CONFIG, else\n"
        "~/.config/tundish/tundish.conf, else /etc/tundish/tundish.conf. What a run has made of a file\n"
        "($TUNDISH_CONFIG of its command) is told as well.\n"
        "\n"
        "Exit status: 0; 64 mistakes, or no such file.\n",
    .run = run,
};
