/* SPDX-License-Identifier: MIT */
/*
 * What the program's commands share: how they are listed, how they speak, and the words they all read. Data
 * goes to stdout, everything else to stderr as one line `tundish: SUBJECT: what is wrong`.
 */
#ifndef TUNDISH_CLI_CLI_H
#define TUNDISH_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "policy/unit.h"

enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 64,       /* EX_USAGE of sysexits.h */
    CLI_SHORT = 75,       /* EX_TEMPFAIL: too few tokens now */
    CLI_TIMED_OUT = 124,  /* as timeout(1) */
    CLI_RUN_FAILED = 125, /* these three as env(1) and timeout(1) have them */
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
};

struct cli_command {
    const char *name;
    const char *arguments;             /* the synopsis after the name */
    const char *summary;               /* half a line for the list of commands */
    const char *details;               /* the options, for `tundish help NAME` */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

extern const struct cli_command cmd_check, cmd_create, cmd_doctor, cmd_peek, cmd_reset, cmd_rm, cmd_run,
    cmd_set, cmd_sidecar, cmd_stat, cmd_status, cmd_take, cmd_top, cmd_wait;

/* say.c */

/* Names come from anywhere: none may forge a second line or speak to the terminal. */
void cli_disarm(char *text);

/* One line on stderr: "tundish: SUBJECT: ...", or "tundish: ..." if subject is NULL. */
void cli_say(const char *subject, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with a hint at the command's help. Returns CLI_USAGE. */
int cli_usage(const struct cli_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * What getopt_long returned that is no option of the command's own: --help (value CLI_OPTION_HELP) prints the
 * help and is CLI_OK; ':' and '?' (the option string starts with ':') are complaints and CLI_USAGE.
 */
int cli_other_option(const struct cli_command *command, int option, char **argv);

/* Says what is wrong with a bucket, for a negative errno. Returns CLI_FAILED. */
int cli_bucket_error(const char *name, int error);

/* The same for one that was opened by another name than it has for people. */
int cli_bucket_error_as(const char *label, const char *name, int error);

/* Whether a terminal on standard output is to have colours: NO_COLOR and TERM say so. */
bool cli_wants_colors(void);

/* Prints a command's help to stdout. */
void cli_help(const struct cli_command *command);

/* `status`, or CLI_FAILED with a line if what was printed did not arrive. */
int cli_finish(int status);

/* words.c */

/* Long options of several commands; those of one command follow from CLI_OPTION_OWN. */
enum {
    CLI_OPTION_HELP = 'h',
    CLI_OPTION_BURST = 256,
    CLI_OPTION_RATE,
    CLI_OPTION_VERBOSE,
    CLI_OPTION_OWN,
};

/* A rate and its burst, as a bucket takes them. */
struct cli_rule {
    struct tdi_rate rate;
    uint32_t burst;
};

enum {
    CLI_RULE_TEXT = 160,
};

/* Reads a rate. CLI_OK, or CLI_USAGE with a line said that calls it `what`. */
int cli_rate_parse(const char *what, const char *text, struct tdi_rate *out);

/*
 * Fills the rule from the words of --rate and --burst: without a rate word the rate that is there is kept,
 * without a burst word it becomes the rate's default. CLI_OK, or CLI_USAGE with a line said.
 */
int cli_rule_parse(struct cli_rule *rule, const char *rate, const char *burst);

/* Options for a bucket of this rule. */
struct tundish_options cli_rule_options(const struct cli_rule *rule);

/* The rule that a bucket has. */
struct cli_rule cli_rule_of(const struct tundish_info *info);

/*
 * Says why a bucket of this name and rule could not be made or changed: what the rule has to do with it, else
 * as cli_bucket_error. Returns CLI_FAILED.
 */
int cli_rule_error(const char *name, const struct cli_rule *rule, int error);

/* "10/s, burst 10" */
void cli_rule_format(char text[CLI_RULE_TEXT], const struct cli_rule *rule);

/* The same as a line about `name`, and whether the burst is the default. */
void cli_rule_say(const char *name, const struct cli_rule *rule, bool burst_chosen);

/* A count of tokens. CLI_OK, or CLI_USAGE with a line said that calls it `what`. */
int cli_count_parse(const char *what, const char *text, uint32_t *out);

/* How many of something, not of tokens: 1 at least. CLI_OK, or CLI_USAGE with a line said that calls it `what`. */
int cli_number_parse(const struct cli_command *command, const char *what, const char *text, uint32_t *out);

/* A time within these bounds: seconds if it has no unit. CLI_OK, or CLI_USAGE, said as above. */
struct cli_span {
    uint64_t least_ns;
    uint64_t most_ns;
};
int cli_time_parse(const struct cli_command *command, const char *what, const char *text,
                   const struct cli_span *bounds, uint64_t *out_ns);

/* Opens a bucket, and reads what is to be known about it if info is not NULL. CLI_OK or CLI_FAILED, said. */
int cli_bucket_open(const char *name, struct tundish **out, struct tundish_info *info);

#endif
