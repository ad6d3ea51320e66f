/* SPDX-License-Identifier: MIT */
/*
 * `tundish run`, in the order of its steps: the command is found, the preload library is found, the buckets
 * are opened or made, the environment is written, and the command takes this process's place. Each function
 * returns CLI_OK or the exit status, with its line said.
 */
#ifndef TUNDISH_CLI_RUN_H
#define TUNDISH_CLI_RUN_H

#include "cli/cli.h"
#include "policy/policy.h"

enum {
    RUN_PATH = 4096,
};

/* What the command line asks for. */
struct run_wish {
    const char *names[TDI_POLICY_BUCKETS];
    size_t name_count;
    const char *rate, *burst; /* as written, or NULL */
    struct cli_rule rule;     /* the two, read; of no meaning without a rate */
    enum tdi_count count;
    const char *calls;
    bool per_process;
    bool verbose;
    char **command;
};

/* The buckets that the command will obey. */
struct run_buckets {
    char *paths[TDI_POLICY_BUCKETS]; /* absolute, not escaped */
    size_t count;
    bool bytes;          /* what a token is */
    struct tundish *own; /* the run's own bucket; open until exec, which keeps it from being swept */
};

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

/* run_buckets.c */

/* Opens what -b names, makes what --rate asks for. */
int run_buckets_prepare(const struct run_wish *wish, struct run_buckets *buckets);

/* Undoes it: the run's own bucket goes away. */
void run_buckets_discard(struct run_buckets *buckets);

/* run_environment.c */

/* Sets TUNDISH_BUCKET and the others, joined with what an outer run has set. */
int run_environment_set(const struct run_wish *wish, const struct run_buckets *buckets);

#endif
