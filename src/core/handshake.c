/* SPDX-License-Identifier: MIT */
/*
 * See handshake.h. With two parities a second change must not begin before the first one's old generation has
 * left: callers have one change under way at a time, and begin none while anybody is of the generation before.
 */
#include "core/handshake.h"

uint32_t tdi_handshake_begin_change(struct tdi_layout_account *account, uint32_t strategy)
{
    /* The strategy first: who sees the new generation sees it too. */
    atomic_store_explicit(&account->handshake.strategy, strategy, memory_order_relaxed);
    return atomic_fetch_add(&account->handshake.generation, 1);
}

static uint32_t load(const tdi_handshake_inside *inside)
{
    /* Acquire pairs with the release in tdi_handshake_leave. */
    return atomic_load_explicit(inside, memory_order_acquire);
}

bool tdi_handshake_is_inside(const tdi_handshake_inside *inside)
{
    return load(inside) != 0;
}

bool tdi_handshake_is_of(const tdi_handshake_inside *inside, uint32_t generation)
{
    uint32_t word = load(inside);
    return word != 0 && (word & 1) == (generation & 1);
}

void tdi_handshake_note_in_flight(struct tdi_layout_account *account, uint32_t generation, uint64_t count)
{
    atomic_store_explicit(&account->handshake.in_flight[generation & 1], count, memory_order_relaxed);
}

uint64_t tdi_handshake_in_flight(const struct tdi_layout_account *account)
{
    return atomic_load_explicit(&account->handshake.in_flight[0], memory_order_relaxed) +
           atomic_load_explicit(&account->handshake.in_flight[1], memory_order_relaxed);
}

void tdi_handshake_begin(struct tdi_layout_account *account)
{
    tdi_handshake_note_in_flight(account, 0, 0);
    tdi_handshake_note_in_flight(account, 1, 0);
    tdi_handshake_begin_change(account, 0);
}
