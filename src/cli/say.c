/* SPDX-License-Identifier: MIT */
/* The program's voice. Each message is one line and one write, so that lines of several processes stay whole.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/explain.h"

enum {
    LINE = 8192, /* two paths and a sentence */
};

void cli_disarm(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = '?';
}

static void put_line(const char *subject, const char *format, va_list arguments, const char *hint)
{
    char text[LINE], line[2 * LINE];
    vsnprintf(text, sizeof(text), format, arguments);
    snprintf(line, sizeof(line) - 1, "tundish: %s%s%s%s", subject ? subject : "", subject ? ": " : "", text,
             hint);
    cli_disarm(line);
    strcat(line, "\n");
    fputs(line, stderr);
}

void cli_say(const char *subject, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(subject, format, arguments, "");
    va_end(arguments);
}

int cli_usage(const struct cli_command *command, const char *format, ...)
{
    char hint[64];
    va_list arguments;
    snprintf(hint, sizeof(hint), "; try 'tundish help %s'", command->name);
    va_start(arguments, format);
    put_line(command->name, format, arguments, hint);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_other_option(const struct cli_command *command, int option, char **argv)
{
    const char *word = argv[optind - 1];
    if (option == CLI_OPTION_HELP) {
        cli_help(command);
        return CLI_OK;
    }
    if (option == ':')
        return cli_usage(command, "%s needs a value", word);
    if (optopt >= CLI_OPTION_BURST)
        return cli_usage(command, "%.*s takes no value", (int)strcspn(word, "="), word);
    if (optopt)
        return cli_usage(command, "unknown option -%c", optopt);
    return cli_usage(command, "unknown option %s", word);
}

int cli_bucket_error(const char *name, int error)
{
    return cli_bucket_error_as(name, name, error);
}

int cli_bucket_error_as(const char *label, const char *name, int error)
{
    char sentence[LINE];
    tdi_explain(name, error, sentence, sizeof(sentence));
    cli_say(label, "%s", sentence);
    return CLI_FAILED;
}

bool cli_wants_colors(void)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return (!no_color || !*no_color) && term && *term && strcmp(term, "dumb") != 0;
}

void cli_help(const struct cli_command *command)
{
    printf("usage: tundish %s %s\n\n%s.\n", command->name, command->arguments, command->summary);
    if (command->details)
        printf("\n%s", command->details);
    printf("\nThe whole story is in tundish(1).\n");
}

int cli_finish(int status)
{
    int failed = ferror(stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !failed)
        return status;
    cli_say("standard output", "%s", errno ? strerror(errno) : "could not be written");
    return CLI_FAILED;
}
