/* SPDX-License-Identifier: MIT */
/*
 * A lessee's byte is its index + 1. The highest byte counts the changes, so that somebody who clears up after
 * the dead and was held up cannot clear the byte of who has the place now.
 */
#include "core/lease.h"

#define BITS 8
#define CHANGE (UINT64_C(1) << (BITS * TDI_LEASE_LESSEES))

/* Where the value is among the lessees, TDI_LEASE_LESSEES if nowhere. */
static uint32_t find(uint64_t lessees, uint64_t value)
{
    uint32_t i = 0;
    while (i < TDI_LEASE_LESSEES && (lessees >> (BITS * i) & 0xff) != value)
        i++;
    return i;
}

bool tdi_lease_claim(struct tdi_layout *file, const struct tdi_instance *instance)
{
    uint64_t value = instance->index + 1;
    uint64_t seen = atomic_load_explicit(&file->head.lessees, memory_order_relaxed);
    for (;;) {
        if (find(seen, value) < TDI_LEASE_LESSEES)
            return true;
        uint32_t free = find(seen, 0);
        if (free == TDI_LEASE_LESSEES)
            return false;
        /* seq_cst, like the swap of the word that takes the tokens after it: who sees the word without them
           sees the lessee. */
        if (atomic_compare_exchange_weak(&file->head.lessees, &seen,
                                         (seen | value << (BITS * free)) + CHANGE))
            return true;
    }
}

bool tdi_lease_is_lessee(const struct tdi_layout *file, uint32_t index)
{
    uint64_t seen = atomic_load_explicit(&file->head.lessees, memory_order_relaxed);
    return find(seen, index + 1) < TDI_LEASE_LESSEES;
}

void tdi_lease_release(struct tdi_layout *file, const struct tdi_instance *instance)
{
    uint64_t value = instance->index + 1;
    uint64_t seen = atomic_load(&file->head.lessees);
    for (;;) {
        uint32_t at = find(seen, value);
        /* The owner after the word: while it is still there, this byte is its own. */
        if (at == TDI_LEASE_LESSEES ||
            atomic_load(&file->instance[instance->index % TDI_LAYOUT_INSTANCES].owner) != instance->owner)
            return;
        if (atomic_compare_exchange_weak(&file->head.lessees, &seen, (seen ^ value << (BITS * at)) + CHANGE))
            return;
    }
}
