/* SPDX-License-Identifier: MIT */
/* What was understood of a configuration file, in words: see the README. */
#ifndef TUNDISH_TESTS_CONF_DESCRIBE_H
#define TUNDISH_TESTS_CONF_DESCRIBE_H

#include <stdio.h>

#include "policy/conf.h"

void describe_conf(FILE *out, const struct tdi_conf *conf);

/* A tdi_conf_complain that writes to the FILE in `context`. */
void note_complaint(void *context, unsigned line, const char *message);

/* Reads a text of `len` bytes. The number of mistakes; *complaints, `LINE: MESSAGE` each, is to be freed. */
unsigned read_conf(struct tdi_conf *conf, const char *text, size_t len, char **complaints);

#endif
