/* SPDX-License-Identifier: MIT */
/* What a hooked call costs, when its arguments come from anybody. */
#ifndef TUNDISH_PRELOAD_PRICE_H
#define TUNDISH_PRELOAD_PRICE_H

#include <stdint.h>

#include "policy/cost.h"

/* No call costs more: what the kernel takes in one call. An absurd size is an error, and not waited for. */
#define TDI_PRICE_MOST UINT64_C(0x7ffff000)

/* Before the call; 0 if it is known after it, or if a pointer cannot be read: the function will find out. */
uint64_t tdi_price_before(const struct tdi_cost *cost, void *const *arguments);

/* After the call. */
uint64_t tdi_price_after(const struct tdi_cost *cost, const void *result);

#endif
