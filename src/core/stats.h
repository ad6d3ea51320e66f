/* SPDX-License-Identifier: MIT */
/*
 * What the operations on a bucket came to, counted in the file: anybody may read it, at any time, without the
 * help of those who count.
 *
 * Each thread of an instance writes a stripe of its own, so that counting is a plain addition; the last stripe
 * is for all who found none. Counts are never set back: what a place of the table has counted since it came
 * into use is in the bucket's total for ever, and its present owner's share is what has been added since.
 */
#ifndef TUNDISH_CORE_STATS_H
#define TUNDISH_CORE_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/instance.h"
#include "plat/atom.h"
#include "shm/layout.h"

#define TDI_STATS_SHARED (TDI_LAYOUT_STRIPES - 1) /* the stripe of those without one */

/* A copy of counts, added up over stripes. */
struct tdi_stats {
    uint64_t count[TDI_KINDS][TDI_COUNTS];
    uint64_t sum[TDI_SUMS];
    uint64_t waits[TDI_LAYOUT_WAITS];
    uint64_t pushed; /* observations put into the rings, */
    uint64_t taken;  /* and taken out of them; the place's, not the owner's */
};

/* n tokens were granted; one more of `what`; n more of `sum`. In the stripe of the calling thread alone. */
static inline void tdi_stats_grant(struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind, uint32_t n)
{
    tdi_atom_add_own(&stripe->tally.count[kind][TDI_COUNT_GRANTED], 1);
    tdi_atom_add_own(&stripe->tally.count[kind][TDI_COUNT_TOKENS], n);
}

static inline void tdi_stats_count(struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind,
                                   enum tdi_layout_count what)
{
    tdi_atom_add_own(&stripe->tally.count[kind][what], 1);
}

static inline void tdi_stats_sum(struct tdi_layout_stripe *stripe, enum tdi_layout_sum sum, uint64_t n)
{
    tdi_atom_add_own(&stripe->tally.sum[sum], n);
}

/* The same in the shared stripe. */
void tdi_stats_grant_shared(struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind, uint32_t n);
void tdi_stats_count_shared(struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind,
                            enum tdi_layout_count what);
void tdi_stats_sum_shared(struct tdi_layout_stripe *stripe, enum tdi_layout_sum sum, uint64_t n);

/* A wait ended with its tokens after so long. Any thread. */
void tdi_stats_note_wait(struct tdi_layout_account *account, uint64_t waited_ns);

/*
 * The classes of waiting times: 4 in each power of two, from 1 us up; the first holds all below, the last all
 * above an hour or so. A class ends where the next one begins.
 */
uint32_t tdi_stats_wait_class(uint64_t waited_ns);
uint64_t tdi_stats_wait_from_ns(uint32_t class); /* UINT64_MAX behind the last */

/* The time below which that share (0 .. 1) of the waits were over, to the end of its class; 0 if there were none. */
uint64_t tdi_stats_wait_quantile_ns(const uint64_t waits[TDI_LAYOUT_WAITS], double share);

/* The owner of a place begins to count, from what is there. */
void tdi_stats_begin(struct tdi_layout_account *account, uint64_t owner);

/* All that was ever counted in a place; added to *out. */
void tdi_stats_add_place(const struct tdi_layout_account *account, struct tdi_stats *out);

/* What its owner counted: false if it has not begun yet, then *out is all 0. */
bool tdi_stats_read_owner(const struct tdi_layout_account *account, uint64_t owner, struct tdi_stats *out);

/* What was added between two readings. */
void tdi_stats_subtract(struct tdi_stats *from, const struct tdi_stats *earlier);

/* Operations on one stripe, whatever came of them: to tell whether its thread is at it. */
uint64_t tdi_stats_stripe_operations(const struct tdi_layout_stripe *stripe);

/* Operations of all kinds. */
uint64_t tdi_stats_all(const struct tdi_stats *stats, enum tdi_layout_count what);

#endif
