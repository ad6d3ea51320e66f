/* SPDX-License-Identifier: MIT */
/* See handshake.h. */
#include "core/handshake.h"

bool tdi_handshake_is_inside(const tdi_handshake_inside *inside)
{
    /* Acquire pairs with the release in tdi_handshake_leave. */
    return atomic_load_explicit(inside, memory_order_acquire) != 0;
}

uint32_t tdi_handshake_strategy(const struct tdi_layout_account *account)
{
    return atomic_load_explicit(&account->handshake.strategy, memory_order_relaxed);
}

uint32_t tdi_handshake_generation(const struct tdi_layout_account *account)
{
    return atomic_load_explicit(&account->handshake.generation, memory_order_relaxed);
}

void tdi_handshake_begin_change(struct tdi_layout_account *account, uint32_t strategy)
{
    atomic_store_explicit(&account->handshake.strategy, strategy, memory_order_relaxed);
    atomic_fetch_add_explicit(&account->handshake.generation, 1, memory_order_relaxed);
}

void tdi_handshake_note_in_flight(struct tdi_layout_account *account, uint32_t count)
{
    atomic_store_explicit(&account->handshake.in_flight, count, memory_order_relaxed);
}

uint32_t tdi_handshake_in_flight(const struct tdi_layout_account *account)
{
    return atomic_load_explicit(&account->handshake.in_flight, memory_order_relaxed);
}

void tdi_handshake_begin(struct tdi_layout_account *account)
{
    tdi_handshake_note_in_flight(account, 0);
    tdi_handshake_begin_change(account, 0);
}
