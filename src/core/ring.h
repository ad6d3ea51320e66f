/* SPDX-License-Identifier: MIT */
/*
 * Observations: one record of one operation. Each stripe of an instance has a ring with one writer, the
 * stripe's thread, and one reader, whoever drains. Threads without a stripe share the last ring, one at a time.
 * A record that finds no room, or the ring in somebody's hands, is dropped and counted; nothing waits.
 */
#ifndef TUNDISH_CORE_RING_H
#define TUNDISH_CORE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/stats.h"
#include "shm/layout.h"

struct tdi_observation {
    uint64_t at_us;
    uint64_t wait_ns;
    uint32_t tokens;
    uint32_t thread;
    uint32_t process; /* it may not have the place any more */
    uint16_t kind;    /* enum tdi_layout_kind */
    uint16_t error;   /* 0 granted, or the positive errno */
};

/* One of so many operations is to be recorded; 0: none. */
static inline uint32_t tdi_ring_every(const struct tdi_layout_stripe *stripe)
{
    return atomic_load_explicit(&stripe->every, memory_order_relaxed);
}

/* Whether a record would find no room now. By the stripe's thread: there may be room a moment later. */
static inline bool tdi_ring_is_full(const struct tdi_layout_account *account,
                                    const struct tdi_layout_stripe *stripe)
{
    /* Relaxed: who finds room looks again before it writes. */
    uint64_t pushed = atomic_load_explicit(&stripe->pushed, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&account->taken[stripe - account->stripe], memory_order_relaxed);
    return pushed - taken >= TDI_LAYOUT_OBSERVATIONS;
}

/*
 * Puts a record in, or counts it as dropped. By the stripe's thread, which is not in the middle of another
 * push (its signal handlers see to that: `busy` is theirs, set meanwhile); the last stripe's by anybody.
 */
void tdi_ring_push(struct tdi_layout *file, uint32_t place, uint32_t stripe, _Atomic(uint32_t) *busy,
                   const struct tdi_observation *observation);

/*
 * The drainer of a place, `pid << 32 | number`. One at a time: claims it if nobody has it, or if `former` does,
 * who is gone or has not been heard of. False: somebody else was quicker.
 */
uint64_t tdi_ring_drainer(const struct tdi_layout_account *account, uint64_t *seen_us);
bool tdi_ring_claim(struct tdi_layout_account *account, uint64_t former, uint64_t drainer, uint64_t now_us);

/* Takes up to `most` records out, stripe by stripe, and says that the drainer was here. By the drainer. */
size_t tdi_ring_drain(struct tdi_layout *file, uint32_t place, uint64_t drainer, uint64_t now_us,
                      struct tdi_observation *out, size_t most);

/* Records one of so many operations from now on; 0 none. The rings have memory. By the drainer. */
void tdi_ring_arm(struct tdi_layout_account *account, uint32_t every);

/* Whether that is so in each stripe: a new owner of the place may just have switched some off. */
bool tdi_ring_is_armed(const struct tdi_layout_account *account, uint32_t every);

/* Nothing is recorded any more and nobody drains, unless somebody else does by now. */
void tdi_ring_leave(struct tdi_layout_account *account, uint64_t drainer);

/*
 * What a former owner of the place left in the way of writing; and nothing is recorded where no drainer has been
 * heard of for TDI_RING_SILENT_US. By the new owner, before its first operation.
 */
#define TDI_RING_SILENT_US 3000000
void tdi_ring_begin(struct tdi_layout_account *account, uint64_t now_us);

#endif
