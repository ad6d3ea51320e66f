/* SPDX-License-Identifier: MIT */
/*
 * Changing an instance's strategy under way. An operation that depends on the strategy enters, finds out which
 * is in force, and leaves; who changes it writes the new one, begins a new generation, and waits until all of
 * the old generation have left. Operations on the shared word are right under every strategy: they need not
 * enter.
 *
 * A thread enters by a plain store to a word of its own. What a full barrier on its side would do, the one who
 * changes does for all threads of the process at once (tdi_proc_barrier, between begin and the first question):
 * so only the process itself can change its strategy, and the words are in its own memory, which a fork wipes.
 * In the file they would not do: a child that a signal handler forked in the midst of an operation goes on with
 * it, and would write to its parent's.
 */
#ifndef TUNDISH_CORE_HANDSHAKE_H
#define TUNDISH_CORE_HANDSHAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plat/atom.h"
#include "shm/layout.h"

/* A thread's word: 0 it is not inside; else this, and the generation. */
typedef _Atomic(uint32_t) tdi_handshake_inside;
#define TDI_HANDSHAKE_INSIDE (UINT32_C(1) << 31)

/* The strategy in force, a public number; any in a spoilt file. */
static inline uint32_t tdi_handshake_strategy(const struct tdi_layout_account *account)
{
    return atomic_load_explicit(&account->handshake.strategy, memory_order_relaxed);
}

static inline uint32_t tdi_handshake_generation(const struct tdi_layout_account *account)
{
    return atomic_load_explicit(&account->handshake.generation, memory_order_relaxed);
}

/* Where an operation came in, for leaving. */
struct tdi_handshake {
    uint32_t generation;
    uint32_t before; /* what the word said: a signal handler leaves it as it found it */
};

/* Enters. The strategy and what depends on it are read after this. */
TDI_INLINE struct tdi_handshake tdi_handshake_enter(const struct tdi_layout_account *account,
                                                    tdi_handshake_inside *inside)
{
    struct tdi_handshake self = {0, atomic_load_explicit(inside, memory_order_relaxed)};
    do {
        self.generation = tdi_handshake_generation(account);
        atomic_store_explicit(inside, self.generation | TDI_HANDSHAKE_INSIDE, memory_order_relaxed);
        atomic_signal_fence(
            memory_order_seq_cst); /* the processor's is tdi_proc_barrier, on the other side */
    } while (tdi_unlikely(tdi_handshake_generation(account) != self.generation));
    return self;
}

TDI_INLINE void tdi_handshake_leave(tdi_handshake_inside *inside, struct tdi_handshake self)
{
    /* Release pairs with the acquire in tdi_handshake_is_inside: what was done is seen by who waited. */
    atomic_store_explicit(inside, self.before, memory_order_release);
}

/* Puts a strategy in force and begins a generation; returns the old one. One at a time. */
uint32_t tdi_handshake_begin_change(struct tdi_layout_account *account, uint32_t strategy);

/* Whether a word's thread is inside, of whichever generation; and whether it is of that generation's parity. */
bool tdi_handshake_is_inside(const tdi_handshake_inside *inside);
bool tdi_handshake_is_of(const tdi_handshake_inside *inside, uint32_t generation);

/*
 * For whoever looks from outside: so many of the generation's operations have not left. Written by who changes
 * the strategy, as often as it asks.
 */
void tdi_handshake_note_in_flight(struct tdi_layout_account *account, uint32_t generation, uint64_t count);
uint64_t tdi_handshake_in_flight(const struct tdi_layout_account *account);

/* Nobody is inside, and the strategy is the one that needs nothing. By a place's new owner. */
void tdi_handshake_begin(struct tdi_layout_account *account);

#endif
