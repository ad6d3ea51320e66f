/* SPDX-License-Identifier: MIT */
/* A descriptor that becomes readable at a time, for event loops. */
#ifndef TUNDISH_PLAT_TIMER_H
#define TUNDISH_PLAT_TIMER_H

#include <stdint.h>

/* A descriptor (close-on-exec, non-blocking), or a negative errno. */
int tdi_timer_open(void);

/* Readable from the time tdi_clock shows wake_ns on, and not before. 0 or a negative errno. */
int tdi_timer_set(int fd, uint64_t wake_ns);

void tdi_timer_close(int fd);

#endif
