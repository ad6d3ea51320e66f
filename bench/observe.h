/* SPDX-License-Identifier: MIT */
/* What bare_acquire.c, a library of the bench's with the rooms inside, gives to observe.c. */
#ifndef TUNDISH_BENCH_OBSERVE_H
#define TUNDISH_BENCH_OBSERVE_H

#include <stddef.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "lib/observe.h"

#pragma GCC visibility push(default)

int bare_acquire(struct tundish *bucket, uint32_t n);

/* The drainer of the handle's own instance. */
int bare_attend(struct tdi_drainer *drainer, struct tundish *bucket, uint32_t every);
size_t bare_drain(const struct tdi_drainer *drainer, struct tundish *bucket);
void bare_leave(const struct tdi_drainer *drainer, struct tundish *bucket);

#pragma GCC visibility pop

#endif
