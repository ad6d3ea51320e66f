/* SPDX-License-Identifier: MIT */
/*
 * Tokens of several buckets, all or none. Stands in line for one demand at a time with nothing in hand; once
 * that is granted the others are tried, and if one refuses everything is given back and that one is waited
 * for. So nobody holds one bucket's tokens while waiting for another's, and crossed orders cannot block each
 * other.
 */
#ifndef TUNDISH_LIB_ALL_H
#define TUNDISH_LIB_ALL_H

#include <stdbool.h>

#include "lib/line.h"

struct tdi_all {
    const struct tundish_demand *demands; /* the caller's, until the end */
    size_t count;
    const sigset_t *mask; /* as in tdi_line_heed_signals, or NULL */
    bool deaf;            /* nobody sleeps for it, it is polled */
    bool in_line;
    size_t waits_for;  /* the demand that is stood in line for */
    uint64_t began_ns; /* when it first got in line; 0: it did not have to */
    struct tdi_line line;
};

/* As tundish_try_acquire_all, but a refusal is not counted. */
int tdi_all_try(const struct tundish_demand *demands, size_t count);

void tdi_all_begin(struct tdi_all *all, const struct tundish_demand *demands, size_t count,
                   const sigset_t *mask);

/* 0 all granted, -E2BIG, -ETIMEDOUT with nothing held, or -EINTR after a signal handler, still in line. */
int tdi_all_wait(struct tdi_all *all, uint64_t deadline_ns);

/* The same without a thread of its own: to be polled, and worth it again at tdi_all_next_ns. */
void tdi_all_begin_deaf(struct tdi_all *all, const struct tundish_demand *demands, size_t count);

/* 0 all granted, -E2BIG, -ETIMEDOUT with nothing held, or -EINPROGRESS. Never sleeps. */
int tdi_all_poll(struct tdi_all *all, uint64_t deadline_ns);

static inline uint64_t tdi_all_next_ns(const struct tdi_all *all)
{
    return all->in_line ? all->line.wake_ns : 0;
}

/* Leaves the line. Fine in any state; what was granted stays. */
void tdi_all_end(struct tdi_all *all);

#endif
