/* SPDX-License-Identifier: MIT */
/* The configuration file that the environment names, in its frozen form. Once, from the constructor. */
#ifndef TUNDISH_PRELOAD_CONFIG_H
#define TUNDISH_PRELOAD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "policy/frozen.h"

#define TDI_CONFIG_WORD "TUNDISH_CONFIG="
#define TDI_CONFIG_SAID "!" /* its value when a launcher has failed, and has said so */

/* Whether this process is a launcher on its way, see relaunch.h: it is not to be limited. */
bool tdi_config_is_launcher(char *const *words);

/* The process that a launcher made its command, 0 if the environment tells of none. */
pid_t tdi_config_command(char *const *words);

/*
 * The configuration in force, *out being NULL if there is none. Where it is a text file the program is started
 * anew by way of the launcher, which reads it: then this does not return. -EINVAL with one line in `why`, which
 * is empty if that has been said.
 */
int tdi_config_read(const struct tdi_frozen **out, int argc, char *const *argv, char *const *words, char *why,
                    size_t len);

#endif
