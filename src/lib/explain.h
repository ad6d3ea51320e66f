/* SPDX-License-Identifier: MIT */
/* Errors of opening and making buckets, in sentences for people. */
#ifndef TUNDISH_LIB_EXPLAIN_H
#define TUNDISH_LIB_EXPLAIN_H

#include <stddef.h>

/* Why `name` gave the (negative) error and what to do about it; looks at the file again. Cut to len. */
void tdi_explain(const char *name, int error, char *buf, size_t len);

#endif
