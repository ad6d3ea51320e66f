/* SPDX-License-Identifier: MIT */
/*
 * Changing an instance's strategy under way. An operation that depends on the strategy enters, finds out what it may
 * do, and leaves; who changes it says so, has all threads of the process pass a barrier (tdi_proc_barrier), and waits
 * until each has been seen outside: whoever enters afterwards finds what was said. Operations on the shared word are
 * right under every strategy: they need not enter.
 *
 * A thread enters by a plain store to a word of its own. What a full barrier on its side would do, the one who
 * changes does for all at once: so only the process itself can change its strategy, and the words are in its own
 * memory, which a fork wipes. In the file they would not do: a child that a signal handler forked in the midst of an
 * operation goes on with it, and would write to its parent's.
 */
#ifndef TUNDISH_CORE_HANDSHAKE_H
#define TUNDISH_CORE_HANDSHAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plat/atom.h"
#include "shm/layout.h"

/* A thread's word: whether it is inside. */
typedef _Atomic(uint32_t) tdi_handshake_inside;

/*
 * Enters. False for a signal handler that came while its thread was inside: it does as one that need not enter. The
 * word is not counted up and down, since each operation would wait for the store of the one before.
 */
TDI_INLINE bool tdi_handshake_enter(tdi_handshake_inside *inside)
{
    if (tdi_unlikely(atomic_load_explicit(inside, memory_order_relaxed) != 0))
        return false;
    atomic_store_explicit(inside, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the processor's is tdi_proc_barrier, on the other side */
    return true;
}

TDI_INLINE void tdi_handshake_leave(tdi_handshake_inside *inside)
{
    atomic_signal_fence(memory_order_seq_cst);
    /* Release pairs with the acquire in tdi_handshake_is_inside: what was done is seen by who waited. */
    atomic_store_explicit(inside, 0, memory_order_release);
}

/* Whether its thread is inside; asked after a barrier. */
bool tdi_handshake_is_inside(const tdi_handshake_inside *inside);

/* The strategy in force, a public number, any in a spoilt file; and how often it was changed. */
uint32_t tdi_handshake_strategy(const struct tdi_layout_account *account);
uint32_t tdi_handshake_generation(const struct tdi_layout_account *account);

/* Puts a strategy in force. One at a time: the next one when all were seen outside. */
void tdi_handshake_begin_change(struct tdi_layout_account *account, uint32_t strategy);

/* For whoever looks from outside: so many threads are still inside since before the change. */
void tdi_handshake_note_in_flight(struct tdi_layout_account *account, uint32_t count);
uint32_t tdi_handshake_in_flight(const struct tdi_layout_account *account);

/* Nobody is inside, and the strategy is the one that needs nothing. By a place's new owner. */
void tdi_handshake_begin(struct tdi_layout_account *account);

#endif
