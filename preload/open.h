/* SPDX-License-Identifier: MIT */
/* Opening the buckets of the rules: once, from the constructor; and those that a forked child has of its own. */
#ifndef TUNDISH_PRELOAD_OPEN_H
#define TUNDISH_PRELOAD_OPEN_H

#include <stdbool.h>

#include "rule.h"

/* Fills rules->rule from rules->policy. false if something is wrong, which has been said; nothing stays open. */
bool tdi_open_rules(struct tdi_rules *rules);

/*
 * In a forked child: quotas of a process and names with %p are made anew. The parent's are closed only if no
 * call is under way that may go on with them here.
 */
void tdi_open_after_fork(struct tdi_rules *rules, bool under_way);

#endif
