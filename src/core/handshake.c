/* SPDX-License-Identifier: MIT */
/*
 * See handshake.h. With two parities a second change must not begin before the first one's old generation has
 * left: callers have one change under way at a time, and begin none while tdi_handshake_in_flight of the
 * generation before is not 0.
 */
#include "core/handshake.h"

struct tdi_handshake tdi_handshake_enter(struct tdi_layout_account *account, uint32_t stripe)
{
    if (stripe != TDI_STATS_SHARED)
        return tdi_handshake_enter_own(account, &account->stripe[stripe]);
    for (;;) {
        uint32_t generation = tdi_handshake_generation(account);
        /* seq_cst: either the second look sees the new generation, or who began it sees us. */
        atomic_fetch_add(&account->handshake.in_flight[generation & 1], 1);
        if (atomic_load(&account->handshake.generation) == generation)
            return (struct tdi_handshake){generation, 0};
        atomic_fetch_sub(&account->handshake.in_flight[generation & 1], 1);
    }
}

void tdi_handshake_leave(struct tdi_layout_account *account, uint32_t stripe, struct tdi_handshake self)
{
    if (stripe != TDI_STATS_SHARED)
        tdi_handshake_leave_own(&account->stripe[stripe], self);
    else /* release as in tdi_handshake_leave_own */
        atomic_fetch_sub_explicit(&account->handshake.in_flight[self.generation & 1], 1,
                                  memory_order_release);
}

uint32_t tdi_handshake_begin_change(struct tdi_layout_account *account, uint32_t strategy)
{
    /* The strategy first: who sees the new generation sees it too. */
    atomic_store_explicit(&account->handshake.strategy, strategy, memory_order_relaxed);
    return atomic_fetch_add(&account->handshake.generation, 1);
}

static uint32_t inside(const struct tdi_layout_account *account, uint32_t stripe)
{
    /* Acquire pairs with the release in tdi_handshake_leave. */
    return atomic_load_explicit(&account->stripe[stripe].inside, memory_order_acquire);
}

bool tdi_handshake_is_inside(const struct tdi_layout_account *account, uint32_t stripe)
{
    return inside(account, stripe) != 0;
}

uint64_t tdi_handshake_in_flight(const struct tdi_layout_account *account, uint32_t generation)
{
    uint32_t parity = generation & 1;
    uint64_t count =
        atomic_load(&account->handshake.in_flight[parity]); /* seq_cst: see tdi_handshake_enter */
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++) {
        uint32_t generation_inside = inside(account, i);
        count += generation_inside != 0 && (generation_inside & 1) == parity;
    }
    return count;
}

void tdi_handshake_begin(struct tdi_layout_account *account)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        atomic_store_explicit(&account->stripe[i].inside, 0, memory_order_relaxed);
    atomic_store_explicit(&account->handshake.in_flight[0], 0, memory_order_relaxed);
    atomic_store_explicit(&account->handshake.in_flight[1], 0, memory_order_relaxed);
    tdi_handshake_begin_change(account, 0);
}
