/* SPDX-License-Identifier: MIT */
/*
 * The configuration file as `tundish run` and `tundish check` have it: which one it is, and what it says.
 * Mistakes are said as "tundish: FILE:LINE: what is wrong".
 */
#ifndef TUNDISH_CLI_CONFIG_H
#define TUNDISH_CLI_CONFIG_H

#include "cli/cli.h"
#include "policy/conf.h"

#define CONFIG_WORD "TUNDISH_CONFIG"
#define CONFIG_SAID "!" /* its value when a launcher has failed, and has said so */

enum {
    CONFIG_PATH = 4096,
};

enum config_kind {
    CONFIG_NONE,
    CONFIG_TEXT,
    CONFIG_FROZEN, /* what an outer run has made of one: only conf.frozen is set */
};

struct config {
    enum config_kind kind;
    char path[CONFIG_PATH]; /* absolute */
    struct tdi_conf conf;
};

/* Reads this file, which must be there. CLI_OK, or CLI_USAGE with all its mistakes said. */
int config_read(struct config *config, const char *path);

/*
 * The same for the file that holds when no option names one: $TUNDISH_CONFIG, which must be there, else the
 * user's, else the machine's. CONFIG_NONE if there is none of them.
 */
int config_read_default(struct config *config);

/* What $TUNDISH_CONFIG says, NULL if nothing. */
const char *config_word(void);

/* Whether it is what an outer run has frozen. */
bool config_is_frozen(const char *path);

/* Whether both are the same file, or would be if they were there. `absolute` is a path from the root on. */
bool config_is_same(const char *path, const char *absolute);

/* Where the user's file and the machine's would be; "" for a user without a home. */
void config_user_path(char path[CONFIG_PATH]);
extern const char config_machine_path[];

/* The hooks that the rules name, a bit for each [hook]. */
uint32_t config_hooks_in_use(const struct tdi_frozen *frozen);

#endif
