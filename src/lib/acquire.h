/* SPDX-License-Identifier: MIT */
/* Taking tokens without waiting, for those who count the outcome themselves. */
#ifndef TUNDISH_LIB_ACQUIRE_H
#define TUNDISH_LIB_ACQUIRE_H

#include <stdint.h>

#include "core/stats.h"
#include "lib/handle.h"

/* As tundish_try_acquire, counted as `kind` if it is granted and not at all if it is refused. */
int tdi_acquire_try(struct tundish *bucket, uint32_t n, enum tdi_layout_kind kind);

/* The same, not counted; and gives back what was taken so. */
int tdi_acquire_draw(struct tundish *bucket, uint32_t n);
void tdi_acquire_return(struct tundish *bucket, uint32_t n);

/* An acquire that ended: 0 granted, -EAGAIN or -E2BIG refused, else given up. It began then; 0: did not wait. */
void tdi_acquire_count(struct tundish *bucket, enum tdi_layout_kind kind, uint32_t n, int error,
                       uint64_t began_ns);

#endif
