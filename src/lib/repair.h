/* SPDX-License-Identifier: MIT */
/*
 * Getting the dead out of the way. Only those who are kept waiting ask, and what they ask is the kernel; a
 * wrong answer does no harm, since a waiter that finds itself evicted lines up again.
 */
#ifndef TUNDISH_LIB_REPAIR_H
#define TUNDISH_LIB_REPAIR_H

#include <stdbool.h>

#include "core/queue.h"
#include "lib/handle.h"

/* Wakes whom the core rang for, and empties the ring. */
void tdi_repair_wake(struct tundish *bucket, struct tdi_queue_ring *ring);

/* Evicts the suspect if it is gone, or so late that it does not matter; else says false: it lives. */
bool tdi_repair_suspect(struct tundish *bucket, const struct tdi_queue_suspect *suspect,
                        struct tdi_queue_ring *ring);

/* Slots that were found claimed and nothing else, at each look since. */
struct tdi_repair_claims {
    uint64_t slots;
    uint64_t since_us;
};

/* Frees the slots of all who are gone, or so late that it does not matter, for one who finds none free. */
void tdi_repair_slots(struct tundish *bucket, struct tdi_repair_claims *claims, struct tdi_queue_ring *ring);

/* Frees the entries of handles whose processes are gone, and their slots. */
void tdi_repair_instances(struct tundish *bucket, const struct tdi_identity *self);

/*
 * Clears an entry, unless it is somebody else's by now. What falls due is counted first if it was a lessee's: what
 * was held back for it is not to be found due afterwards.
 */
void tdi_repair_clear(struct tundish *bucket, const struct tdi_instance *instance);

/*
 * Gives back what killed processes had on lease, and those that have executed another program: while they are
 * lessees, the bucket fills up to less.
 */
void tdi_repair_lessees(struct tundish *bucket, const struct tdi_identity *self);

/* For somebody refused without being in line: true if somebody dead was in the way and is no more. */
bool tdi_repair_line(struct tundish *bucket);

#endif
