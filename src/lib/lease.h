/* SPDX-License-Identifier: MIT */
/*
 * The strategy LEASED: each thread of an instance takes tokens in advance and spends them without touching the
 * shared word. See core/lease for what that means for the bucket. Switched on and off, and looked after, by the
 * process's own sidecar: a lease is only as long as somebody is there to take it back.
 */
#ifndef TUNDISH_LIB_LEASE_H
#define TUNDISH_LIB_LEASE_H

#include "core/handshake.h"
#include "core/stats.h"
#include "lib/handle.h"
#include "lib/post.h"

#define TDI_LEASE_MIN 8         /* fewer tokens for a thread are not worth it */
#define TDI_LEASE_MAX 512       /* more would save nothing */
#define TDI_LEASE_IDLE_US 10000 /* who has not spent for so long gives back */

static inline bool tdi_lease_is_on(const struct tundish *bucket)
{
    return atomic_load_explicit(&bucket->here->lease_tokens, memory_order_relaxed) != 0;
}

/*
 * Under LEASED most acquires are no more than this: n tokens of the calling thread's lease. False: there are not
 * so many, they are just taken back, or there is no lease to spend from. Inside the handshake, see lease.c.
 */
TDI_INLINE bool tdi_lease_spend(struct tdi_handle_here *here, const struct tdi_post_note *note, uint32_t n)
{
    if (!tdi_post_is_leasing(here, note))
        return false;
    if (!tdi_handshake_enter(&note->thread->inside))
        return false;
    bool spent = tdi_likely(atomic_load_explicit(&note->thread->closed, memory_order_relaxed) == 0) &&
                 tdi_likely(tdi_atom_spend_own(&note->thread->leased, n));
    tdi_handshake_leave(&note->thread->inside);
    return spent;
}

/* The rest of an acquire under LEASED: from the bucket, and a new lease if there can be one. Counts grants only. */
int tdi_lease_try(struct tundish *bucket, uint32_t n, enum tdi_layout_kind kind);

/*
 * Puts a strategy in force: 0, -ENOTSUP where it cannot be had (the bucket is small, the table is full, the
 * kernel has no barrier), -EAGAIN if a thread was stopped in the middle of an operation: again later. Going back
 * to DIRECT returns all leases. One thread at a time.
 */
int tdi_lease_switch(struct tundish *bucket, uint32_t strategy);

/*
 * Takes back what threads have not spent from for a while, everything if somebody waits in line, and what a switch
 * could not take back; whether the instance is a lessee still. The same thread.
 */
bool tdi_lease_tend(struct tundish *bucket);

/* Whether the instance is a lessee. */
bool tdi_lease_is_out(const struct tundish *bucket);

/*
 * What the one who tends leases sleeps on. Once it has asked, the next lease that a thread of this process takes
 * rings; tdi_lease_is_out after that misses none.
 */
extern _Atomic(uint32_t) tdi_lease_bell;
void tdi_lease_ask_to_be_woken(void);

/* Tokens out on lease now. */
uint32_t tdi_lease_tokens(const struct tundish *bucket);

#endif
