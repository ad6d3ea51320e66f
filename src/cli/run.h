/* SPDX-License-Identifier: MIT */
/*
 * `tundish run`, in the order of its steps: the command line is read and checked, the command is found, the
 * preload library is found, the buckets are opened or made, the environment is written, and the command takes
 * this process's place. Each function returns CLI_OK or the exit status, with its line said.
 */
#ifndef TUNDISH_CLI_RUN_H
#define TUNDISH_CLI_RUN_H

#include "cli/cli.h"
#include "policy/policy.h"

enum {
    RUN_PATH = 4096,
};

/* What a run can limit; each is a rule of its own. */
enum run_flow {
    RUN_CHOSEN, /* -b or --rate: the calls of --calls */
    RUN_UP,
    RUN_DOWN,
    RUN_CONNECT,
    RUN_FLOWS,
};

/* One rule of the run, and the buckets that the command will obey. */
struct run_rule {
    const char *rate;      /* as written, or NULL */
    struct cli_rule limit; /* the rate and the burst, read; of no meaning without a rate */
    const char *calls;     /* TUNDISH_CALLS, or NULL for the default */
    const char *suffix;    /* of its own bucket's name: "-up" */

    char *names[TDI_POLICY_BUCKETS]; /* absolute, and escaped as TUNDISH_BUCKET has them */
    size_t count;
    bool keyed;            /* a name is only known in the process that uses it: it needs the rate too */
    enum tdi_count counts; /* what a token is; TDI_COUNT_BY_BUCKET: only known later */
    struct tundish *own;   /* the run's own bucket; open until exec, which keeps it from being swept */
    char *own_path;
};

/* What the command line asks for. */
struct run_wish {
    const char *names[TDI_POLICY_BUCKETS]; /* -b */
    size_t name_count;
    const char *rates[RUN_FLOWS]; /* as written, or NULL */
    const char *burst, *calls, *dest, *when_empty, *max_wait, *inherit;
    enum tdi_count count;
    bool per_process;
    bool dry_run;
    bool verbose;
    char **command;
    struct run_rule rules[RUN_FLOWS];
    size_t rule_count;
};

/* run_wish.c */

/* Checks the options with one another, and makes rules of them. */
int run_wish_check(struct run_wish *wish);

/* run_command.c */

/* Writes the file that exec will run for command[0]. CLI_NOT_FOUND, CLI_NOT_EXECUTABLE. */
int run_command_find(const char *name, char path[RUN_PATH]);

/* Warns about programs that no preload can reach. */
void run_command_warn(const char *name, const char *path);

/* Does not return on success. */
int run_command_exec(char **command);

/* run_preload.c */

/* Appends the preload library to LD_PRELOAD. */
int run_preload_set(void);

/* run_names.c */

/* The name as the command is to have it. Exits: CLI_RUN_FAILED. *keyed is set if it is one of many. */
int run_name_make(const struct run_wish *wish, const char *name, char **out, bool *keyed);

/* The same for a path as it is. */
int run_name_of_path(const char *path, char **out);

/* run_buckets.c */

/* Opens what -b names, makes what the rates ask for. */
int run_buckets_prepare(struct run_wish *wish);

/* Undoes it: the run's own buckets go away. */
void run_buckets_discard(struct run_wish *wish);

/* run_environment.c */

/* Adds the rules to those that an outer run has set. */
int run_environment_set(const struct run_wish *wish);

#endif
