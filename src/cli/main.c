/* SPDX-License-Identifier: MIT */
/* `tundish COMMAND ...`: finds the command in the table and runs it. */
#include "cli/cli.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command *const commands[] = {
    &cmd_run,  &cmd_create, &cmd_set,  &cmd_reset, &cmd_rm,      &cmd_take,  &cmd_wait,
    &cmd_peek, &cmd_status, &cmd_stat, &cmd_top,   &cmd_sidecar, &cmd_check, &cmd_doctor,
};

enum {
    COMMANDS = sizeof(commands) / sizeof(commands[0]),
};

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown(const char *word)
{
    cli_say(word, "%s; try 'tundish help'", word[0] == '-' ? "unknown option" : "no such command");
    return CLI_USAGE;
}

static int print_help(void)
{
    printf("usage: tundish COMMAND ...\n\n"
           "Token buckets that processes share: limits on what programs do, across all of them.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n'tundish help COMMAND' tells more about one, tundish(1) about all.\n");
    return CLI_OK;
}

static int help(int argc, char **argv)
{
    if (argc < 2)
        return print_help();
    const struct cli_command *command = find(argv[1]);
    if (!command)
        return unknown(argv[1]);
    cli_help(command);
    return CLI_OK;
}

static int print_version(void)
{
    printf("tundish %s\n", tundish_version());
    return CLI_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 1) {
        cli_say(NULL, "no command; try 'tundish help'");
        return CLI_USAGE;
    }
    if (strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
        return help(argc, argv);
    if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "version") == 0)
        return print_version();
    const struct cli_command *command = find(argv[0]);
    return command ? command->run(argc, argv) : unknown(argv[0]);
}

/*
 * A standard descriptor that was closed stays of no use, to us and to what we execute, but nothing else gets its
 * number: it would be taken for the input, or written to.
 */
static void fill_closed(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int wrong_way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", wrong_way | O_CLOEXEC); /* the lowest free one */
    }
}

int main(int argc, char **argv)
{
    fill_closed();
    setlocale(LC_CTYPE, ""); /* for the width of names in tables */
    return cli_finish(dispatch(argc - 1, argv + 1));
}
