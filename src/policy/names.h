/* SPDX-License-Identifier: MIT */
/* Names of calls and of errors: tables. No allocation, no locale, no errno. */
#ifndef TUNDISH_POLICY_NAMES_H
#define TUNDISH_POLICY_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "policy/env.h"

/* The TDI_CALL_ bits of a call or a group of them, 0 if nobody knows it. */
uint32_t tdi_names_call(const char *item, size_t len);

/* Adds all of them: "up, down, connect, write, ...". */
void tdi_names_add_calls(struct tdi_text *line);

/* The number of "ECONNREFUSED" and the like, 0 if it is none that a call could be refused with. */
int tdi_names_errno(const char *name);

/* The name of such a number, NULL if it has none. */
const char *tdi_names_errno_name(int error);

#endif
