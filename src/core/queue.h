/* SPDX-License-Identifier: MIT */
/*
 * The line of waiters: fair, without coordinator, lock or list. Waiters stand in the file's slots, each finds
 * its place by looking at all of them, sleeps until its own due time and takes its tokens itself. Time is an
 * argument, the caller does the sleeping and the waking:
 *
 *     tdi_queue_init(&waiter, owner, n);
 *     while ((step = tdi_queue_step(file, &waiter, now, deadline)) is not GRANTED or TIMED_OUT)
 *         SLEEP    sleep until waiter.wake_us or until the bell of waiter.slot is not waiter.bell any more
 *         SUSPECT  ask about waiter.suspect, then tdi_queue_evict or tdi_queue_vouch for it
 *         FULL     evict slots of the dead, or sleep on the door
 *         AGAIN    the time must be newer
 *     wake the bells in waiter.ring, and the door if it is in there too
 *
 * Whatever a killed waiter leaves behind is valid; it delays others until it is evicted.
 */
#ifndef TUNDISH_CORE_QUEUE_H
#define TUNDISH_CORE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

#define TDI_QUEUE_POLL_US 20000   /* who is not due looks again after this, times its place in the line */
#define TDI_QUEUE_LOOK_US 1000000 /* but no later than this */
#define TDI_QUEUE_SOFT_US 5000    /* overdue by this: suspect, worth asking the kernel about */
#define TDI_QUEUE_VOUCH_US 20000  /* who was found alive is not asked about again for this, by anybody */
#define TDI_QUEUE_HARD_US 2000000 /* overdue by this: evicted whoever it is */
#define TDI_QUEUE_DOOR_US 10000   /* who finds no slot looks again after this */

enum tdi_queue_result {
    TDI_QUEUE_GRANTED,
    TDI_QUEUE_TIMED_OUT, /* everything is given back */
    TDI_QUEUE_SLEEP,
    TDI_QUEUE_SUSPECT,
    TDI_QUEUE_FULL,
    TDI_QUEUE_AGAIN,
};

/* Bells that somebody has to be woken for: a bit for each slot, and the door. */
struct tdi_queue_ring {
    uint64_t slots;
    bool door;
};

struct tdi_queue_suspect {
    uint32_t slot;
    uint64_t id;
    bool overdue_hard; /* no question needed */
};

/* One acquire in line. Private to its owner; in another process (a forked child) it means nothing. */
struct tdi_queue_waiter {
    uint32_t owner; /* number of the handle's entry, unique in the file */
    uint32_t need;  /* still missing */
    uint32_t drawn; /* already taken from the bucket */
    uint32_t slot;
    uint32_t ticket; /* 0: not in line */
    uint32_t bell;   /* what the slot's bell showed before the last look */
    bool deaf;       /* nobody sleeps on the bell: an event loop */
    bool announced;
    uint32_t stale;   /* times the clock was asked for a newer time in a row */
    uint64_t request; /* last value written to the slot */
    uint64_t wake_us; /* when the next step is worth while */
    struct tdi_queue_suspect suspect;
    struct tdi_queue_ring ring; /* gathered until the caller has woken them */
};

void tdi_queue_init(struct tdi_queue_waiter *waiter, uint32_t owner, uint32_t n, bool deaf);

enum tdi_queue_result tdi_queue_step(struct tdi_layout *file, struct tdi_queue_waiter *waiter,
                                     uint64_t now_us, uint64_t deadline_us);

/* Leaves the line from any state, giving back what was drawn. */
void tdi_queue_cancel(struct tdi_layout *file, struct tdi_queue_waiter *waiter, uint64_t now_us);

/* Takes a slot from an owner that is gone, unless it changed hands since `id` was read. */
void tdi_queue_evict(struct tdi_layout *file, uint32_t slot, uint64_t id, uint64_t now_us,
                     struct tdi_queue_ring *ring);

/* The same from one that may live but is overdue by TDI_QUEUE_HARD_US, unless it has woken up. */
void tdi_queue_evict_overdue(struct tdi_layout *file, uint32_t slot, uint64_t id, uint64_t now_us,
                             struct tdi_queue_ring *ring);

/* The holder of a slot lives, though it is late. Said in the file: one question is enough for all who wait. */
void tdi_queue_vouch(struct tdi_layout *file, uint32_t slot, uint64_t now_us);

/* Who holds a slot: its id, 0 if it is free. The owner's number is in the high half. */
uint64_t tdi_queue_holder(const struct tdi_layout *file, uint32_t slot);

/* Whether anybody may be in line; wrong only in saying yes. */
static inline bool tdi_queue_may_be_waiting(const struct tdi_layout *file)
{
    return atomic_load_explicit(&file->word, memory_order_relaxed) & TDI_WORD_QUEUED;
}

/* Looks for a waiter that may be dead, for somebody who is refused without being in line. */
bool tdi_queue_find_suspect(const struct tdi_layout *file, uint64_t now_us, struct tdi_queue_suspect *out);

/* Rings those whom more tokens help: after a release. */
void tdi_queue_ring_front(struct tdi_layout *file, uint64_t now_us, struct tdi_queue_ring *ring);

/* Rings all: after a change of the configuration. */
void tdi_queue_ring_all(struct tdi_layout *file, struct tdi_queue_ring *ring);

/* Sets the door, so that the next one to leave wakes who sleeps on it. */
void tdi_queue_shut_door(struct tdi_layout *file);

/* What is to be thought of the holder of a slot. */
enum tdi_queue_doubt {
    TDI_QUEUE_FINE,    /* or the slot is free */
    TDI_QUEUE_CLAIMED, /* not in line: dead, or here in less than a microsecond */
    TDI_QUEUE_LATE,    /* worth asking about */
    TDI_QUEUE_TOO_LATE,
};
enum tdi_queue_doubt tdi_queue_doubt(const struct tdi_layout *file, uint32_t slot, uint64_t now_us,
                                     uint64_t *id);

/* Those in line now. */
struct tdi_queue_census {
    uint32_t waiting;
    uint64_t needs;
    uint64_t oldest_wait_us; /* of the first of them, modulo 2^32 */
};
void tdi_queue_count(const struct tdi_layout *file, uint64_t now_us, struct tdi_queue_census *out);

#endif
