/* SPDX-License-Identifier: MIT */
/*
 * `tundish run`, in the order of its steps: the command line is read and checked, the configuration file is
 * found and read, the command is found, the buckets are opened or made, the environment is written, the preload
 * library is found, and the command takes this process's place. Each function returns CLI_OK or the exit
 * status, with its line said.
 */
#ifndef TUNDISH_CLI_RUN_H
#define TUNDISH_CLI_RUN_H

#include "cli/cli.h"
#include "cli/config.h"
#include "policy/policy.h"

enum {
    RUN_PATH = 4096,
    RUN_BUCKETS = TDI_CONF_BUCKETS + TDI_FROZEN_RULES * TDI_POLICY_BUCKETS + TDI_POLICY_BUCKETS,
};

/* A bucket with a name of its own that the run needs. */
struct run_bucket {
    const char *name;               /* as written */
    bool has_rate;                  /* it is made if it is missing, else it must be what is asked for: */
    struct cli_rule limit;          /* its rate and burst */
    bool has_burst;                 /* the burst was asked for too */
    struct tundish_options options; /* with has_rate */
    const char *asker;              /* who asks: "this run"; and what to do if it is another */
    const char *remedy;
    unsigned line; /* of the asking file, or 0 */
    bool missing, made;
    struct tundish_info info; /* unless it is missing */
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
    const char *config_option; /* --config, or NULL */
    bool no_config;
    const char *relaunched; /* the program to execute, for the preloaded library; or NULL */
    char **command;
    struct config config;
    struct run_bucket named[RUN_BUCKETS];
    size_t named_count;
    struct run_rule rules[RUN_FLOWS];
    size_t rule_count;
};

/* run_wish.c */

/* Checks the options with one another and with the configuration, and makes rules of them. */
int run_wish_check(struct run_wish *wish);

/* run_command.c */

/* Writes the file that exec will run for command[0]. CLI_NOT_FOUND, CLI_NOT_EXECUTABLE. */
int run_command_find(const char *name, char path[RUN_PATH]);

/* Warns about programs that no preload can reach. */
void run_command_warn(const char *name, const char *path);

/* Do not return on success: found by its name, or this very file. */
int run_command_exec(char **command);
int run_command_exec_file(const char *path, char **command);

/* run_preload.c */

/*
 * Appends the preload library to LD_PRELOAD unless it is there, and puts the hook library (a path, or NULL)
 * before it in the place of any other one. `is_there` tells that the library is listed for sure, however it is
 * written.
 */
int run_preload_set(const char *hooks, bool is_there);

/* run_names.c */

/*
 * The name as the command is to have it. Exits: CLI_RUN_FAILED. *keyed is set if it is one of many; with
 * `makes` the command will make them, so that they need their directory.
 */
int run_name_make(const char *name, bool makes, char **out, bool *keyed);

/* The same for a path as it is. */
int run_name_of_path(const char *path, char **out);

/* run_bucket.c */

/* Adds a bucket, and checks it if it is there: *place is the entry. Of equal ones without a rate there is one. */
int run_bucket_add(struct run_wish *wish, const struct run_bucket *bucket, struct run_bucket **place);

/* Makes those that are missing, all or none. */
int run_bucket_make_all(struct run_wish *wish);

/* Removes those that were made and that nobody else has opened. */
void run_bucket_discard_all(struct run_wish *wish);

/* Whether its tokens are bytes. */
bool run_bucket_has_bytes(const struct run_bucket *bucket);

/*
 * One rule counts one thing: *counts becomes what this bucket counts if it is not known yet. CLI_RUN_FAILED if
 * it was another, as `first` counts, with `remedy`.
 */
int run_bucket_agree(const struct run_bucket *bucket, enum tdi_count *counts, const char *first,
                     const char *remedy);

/* run_config.c */

/* Finds and reads the file that holds for the run: CLI_USAGE with its mistakes said, CLI_RUN_FAILED. */
int run_config_find(struct run_wish *wish);

/* Whether there is a rule of a file. */
bool run_config_is_in_force(const struct run_wish *wish);

/* Adds the buckets of the file. */
int run_config_add_buckets(struct run_wish *wish);

/* Gives the file's rules the names of their buckets as the command is to have them. */
int run_config_settle(struct run_wish *wish);

/* Freezes the file into the environment; *hooks is the hook library's path, malloc'ed, or NULL if there is none. */
int run_config_set(struct run_wish *wish, char **hooks);

/* run_buckets.c */

/* Opens what options and the file name, and makes what their rates ask for. */
int run_buckets_prepare(struct run_wish *wish);

/* Undoes it: the buckets that were made go away. */
void run_buckets_discard(struct run_wish *wish);

/* run_environment.c */

/* Adds the rules to those that an outer run has set. */
int run_environment_set(const struct run_wish *wish);

#endif
