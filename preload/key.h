/* SPDX-License-Identifier: MIT */
/*
 * Destinations: which rules are for one, and the buckets of its own that names with %h and %P give it. Such a
 * bucket is opened when its destination is first met; the table of destinations only grows. Allocates
 * nothing, errno kept, signal-safe.
 */
#ifndef TUNDISH_PRELOAD_KEY_H
#define TUNDISH_PRELOAD_KEY_H

#include <stdint.h>

#include "fd.h"
#include "rule.h"

#define TDI_KEYS 1024 /* destinations told apart; all further ones share the buckets named "others" */

/* The rules for a place, a bit each. */
uint32_t tdi_key_rules(const struct tdi_rules *rules, const struct tdi_place *place);

/* The number of a place, 0 if no rule asks for it. */
uint32_t tdi_key_of(const struct tdi_rules *rules, const struct tdi_place *place);

/* Bucket i of a rule for that place; NULL if it cannot be opened, which has been said. */
struct tundish *tdi_key_bucket(const struct tdi_rule *rule, uint32_t i, uint32_t key);

/* In a forked child: names with %p mean other files now. */
void tdi_key_after_fork(void);

#endif
