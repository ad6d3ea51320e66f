/* SPDX-License-Identifier: MIT */
/*
 * Numbers that are about to mean something else. What is known of one is forgotten before the real call, not
 * after: after it the number may already be another thread's new descriptor, and what was noted of that one
 * would be lost. What a thread notes that uses the number while it is being closed is a mistake that lasts
 * until the number is given out again: every call that makes a descriptor forgets what was known of it.
 */
#ifndef TUNDISH_PRELOAD_CALLS_GONE_H
#define TUNDISH_PRELOAD_CALLS_GONE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "inside.h"
#include "known.h"
#include "ready/ready.h"
#include "ready/watch.h"
#include "rule.h"

/* Whether closing it needs more than forgetting. Numbers too high to be known may; our own never do. */
static inline bool tdi_gone_matters(int fd)
{
    if (tdi_rules() == NULL || fd < 0 || tdi_inside.house > 0)
        return false;
    return (unsigned)fd >= TDI_KNOWN_FDS ||
           (atomic_load_explicit(&tdi_known_words[fd], memory_order_relaxed) & TDI_KNOWN_WATCHED) != 0;
}

/*
 * The descriptor is about to be closed. A child that lives in our memory (vfork) closes its own, not ours:
 * then what matters stays.
 */
static inline void tdi_gone(int fd)
{
    if (tdi_gone_matters(fd)) {
        if (!tdi_known_is_ours())
            return;
        tdi_ready_before_close(fd);
    }
    tdi_known_forget(fd);
}

/* A call has returned a new descriptor, or an error. */
static inline int tdi_born(int fd)
{
    if (fd >= 0)
        tdi_known_forget(fd);
    return fd;
}

/* The same for another number of what `from` is, an epoll perhaps. */
static inline int tdi_born_of(int from, int fd)
{
    (void)tdi_born(fd);
    if (fd >= 0 && tdi_gone_matters(from))
        tdi_watch_duplicated(from, fd);
    return fd;
}

#endif
