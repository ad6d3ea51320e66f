/* SPDX-License-Identifier: MIT */
/*
 * The token bucket on its packed word. Time is an argument: microseconds since the bucket's birth, read by
 * the caller BEFORE the call, so that a late caller counts too little and never too much. Nothing here makes
 * a system call, waits or keeps state outside the file.
 */
#ifndef TUNDISH_CORE_BUCKET_H
#define TUNDISH_CORE_BUCKET_H

#include <stdint.h>

#include "core/config.h"
#include "shm/layout.h"

#define TDI_BUCKET_TRIES 64 /* lost compare-and-swaps before the caller should let others run: -EBUSY */

/* Writes the word and the hint of a file that nobody else sees yet. */
void tdi_bucket_init(struct tdi_layout *file, uint32_t tokens);

/*
 * Takes n tokens: 0 or, granted too, how often others won the word before; -EAGAIN if there are fewer, -E2BIG if n is more than the capacity, -EBUSY if others won
 * the word each time: nothing is said about tokens then, let them run and call again with a newer time.
 */
int tdi_bucket_try(struct tdi_layout *file, uint64_t now_us, uint32_t n);

/* The same for somebody who has just lost the word once: pauses, as all do who lose it. Never 0. */
int tdi_bucket_try_after_loss(struct tdi_layout *file, uint64_t now_us, uint32_t n);

/* Takes up to n tokens, at least one; *taken says how many. Errors as above. */
int tdi_bucket_try_some(struct tdi_layout *file, uint64_t now_us, uint32_t n, uint32_t *taken);

/* Gives n tokens back, up to the capacity. */
void tdi_bucket_refund(struct tdi_layout *file, uint64_t now_us, uint32_t n);

/*
 * Takes n tokens to be spent later, by a lessee (core/lease), within its share: 0, or -EAGAIN if somebody waits
 * for tokens, if they are not plenty, or if others won the word. And gives back what was not spent.
 */
int tdi_bucket_lease(struct tdi_layout *file, uint64_t now_us, uint32_t n);
void tdi_bucket_end_lease(struct tdi_layout *file, uint64_t now_us, uint32_t n);

/*
 * Counts what is due by now. Before a lessee ends: what fell due above the limit while tokens were out on lease is
 * lost, and must not be found by whoever counts next, when the limit is the capacity again.
 */
void tdi_bucket_count(struct tdi_layout *file, uint64_t now_us);

/* Tokens there are at this time. */
uint32_t tdi_bucket_available(const struct tdi_layout *file, uint64_t now_us);

/* The first time at which n tokens will have been there, now if they are; past the capacity: gained in all.
 */
uint64_t tdi_bucket_when(const struct tdi_layout *file, uint64_t now_us, uint32_t n);

/* Full again. */
void tdi_bucket_reset(struct tdi_layout *file, uint64_t now_us);

/* Time the tokens were last counted at. */
uint64_t tdi_bucket_stamp(const struct tdi_layout *file);

/*
 * A change of refill, interval, capacity and flags in two steps, so that the caller reads the time before
 * each: what fell due until now is counted at the old rate, then the new one is put in force. -EAGAIN from
 * the second step: somebody else was quicker, or it took too long; begin anew. Fractions of a token carry
 * over, rounded down.
 */
struct tdi_change {
    struct tdi_config next;
    struct tdi_clock_base base;
    uint64_t at_us; /* it takes effect */
};
void tdi_bucket_begin_change(struct tdi_layout *file, uint64_t now_us, const struct tdi_config *want,
                             struct tdi_change *out);
int tdi_bucket_end_change(struct tdi_layout *file, uint64_t now_us, const struct tdi_change *change);

/*
 * After a boot: puts another base in force beside the configuration that goes with `current`, the head's
 * word. 0, or -EAGAIN if that has changed: read the base again.
 */
int tdi_bucket_rebase(struct tdi_layout *file, uint64_t current, const struct tdi_clock_base *base);

#endif
