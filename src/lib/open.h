/* SPDX-License-Identifier: MIT */
/* What the rest of the room needs of opening. */
#ifndef TUNDISH_LIB_OPEN_H
#define TUNDISH_LIB_OPEN_H

#include <stdint.h>

#include "lib/handle.h"

/* 0 if the configuration in the file is one this library would have written, else -EPROTO. */
int tdi_open_check(const struct tdi_layout *file);

/* Entries whose processes may live. */
uint32_t tdi_open_count_live(const struct tdi_layout *file);

/* Processes that may live and have the bucket open, without the calling one. */
uint32_t tdi_open_count_others(const struct tundish *bucket);

/* Clears this process's entry and leaves the handle as it is: for the end of a process that never closes. */
void tdi_open_leave(struct tundish *bucket);

#endif
