/* SPDX-License-Identifier: MIT */
/* The one line that a guest may say, on standard error. No stdio, no allocation, errno kept, signal-safe. */
#ifndef TUNDISH_PRELOAD_SAY_H
#define TUNDISH_PRELOAD_SAY_H

#include <stdint.h>

/* Remembers what standard error is, once at the start. */
void tdi_say_to(void);

/* "tundish: " and the parts up to a NULL, and a newline, in one write. */
void tdi_say(const char *const *parts);

#define tdi_say_line(...) tdi_say((const char *const[]){__VA_ARGS__, (const char *)0})

#define TDI_DECIMAL 21

/* The number in decimal, in a buffer of TDI_DECIMAL bytes. Returns buf. */
const char *tdi_decimal(char *buf, uint64_t value);

#endif
