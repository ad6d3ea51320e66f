/* SPDX-License-Identifier: MIT */
/*
 * `tundish check`: a configuration in words, one line for each bucket, rule and hook, with all that is left to
 * defaults spelled out. Each function prints its line or lines to stdout.
 */
#ifndef TUNDISH_CLI_CHECK_H
#define TUNDISH_CLI_CHECK_H

#include "cli/config.h"

/* A text from a file, or the first bytes of one: none may forge a second line or speak to the terminal. */
void check_put(const char *text);
void check_put_item(const char *text, size_t len);

/* check_bucket.c */

void check_bucket(const struct tdi_conf_bucket *bucket);

/* "2 MB/s, burst 400 kB by default" */
void check_put_rate(const struct tdi_rate *rate, uint32_t burst, bool has_burst);

/* check_rule.c */

void check_rule(const struct tdi_frozen *frozen, const struct tdi_frozen_rule *rule);

/* check_hook.c */

/* The hooks of a group, which is a [hook] section and stands for all names of its function. */
void check_hooks(const struct tdi_frozen *frozen, uint8_t group);

/* The name of the group's section, or NULL if there is no such group. */
const char *check_hook_name(const struct tdi_frozen *frozen, uint8_t group);

#endif
