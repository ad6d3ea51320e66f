/* SPDX-License-Identifier: MIT */
/*
 * Tokens taken from the bucket in advance, to be spent by one thread without touching the shared word.
 *
 * What is out on lease still counts against the capacity: while any instance is a lessee the bucket fills up to
 * TDI_LEASE_PART less than its capacity, and all leases together are no more than that. So a burst is never
 * more than the capacity, wherever its tokens were. Few instances can be lessees at a time, each has an equal
 * share; the head names them, in one word, so that those of the dead are given back with their entries.
 */
#ifndef TUNDISH_CORE_LEASE_H
#define TUNDISH_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/instance.h"
#include "shm/layout.h"

#define TDI_LEASE_LESSEES 7 /* instances at a time */
#define TDI_LEASE_PART 20   /* 1 / 20 of the capacity may be out */

/* Whether any tokens may be out. */
static inline bool tdi_lease_any(const struct tdi_layout *file)
{
    return (atomic_load_explicit(&file->head.lessees, memory_order_relaxed) << 8) != 0;
}

/* What may be out in all. */
static inline uint32_t tdi_lease_held_back(uint32_t capacity)
{
    return capacity / TDI_LEASE_PART;
}

/* What one instance may have out. */
static inline uint32_t tdi_lease_share(uint32_t capacity)
{
    return tdi_lease_held_back(capacity) / TDI_LEASE_LESSEES;
}

/*
 * Makes an instance a lessee; true if it is one already, false if there are too many. The time for taking the
 * tokens is read after this.
 */
bool tdi_lease_claim(struct tdi_layout *file, const struct tdi_instance *instance);

/* Whether the place's owner may have tokens out. */
bool tdi_lease_is_lessee(const struct tdi_layout *file, uint32_t index);

/* The instance has no tokens out any more, or it is gone. Nothing if it was no lessee. */
void tdi_lease_release(struct tdi_layout *file, const struct tdi_instance *instance);

#endif
