/* SPDX-License-Identifier: MIT */
/*
 * The slots that waiters stand in: reading them consistently, adding up who is ahead, leaving, and telling
 * those behind. Ids, requests, bells and the word are sequentially consistent here: a waiter stores "awake"
 * in its request and then reads the ids and the word; whoever leaves clears its id, or gives tokens back, and
 * then reads the requests. In any weaker order both could miss the other, and the waiter would sleep past the
 * due time that the other gave it.
 */
#ifndef TUNDISH_CORE_SLOTS_H
#define TUNDISH_CORE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/queue.h"
#include "core/word.h"
#include "shm/layout.h"

/* One waiter as seen from outside. */
struct tdi_slot {
    uint64_t id;
    uint64_t request;
};

static inline uint32_t tdi_slot_owner(uint64_t id)
{
    return (uint32_t)(id >> 32);
}

static inline uint32_t tdi_slot_ticket(uint64_t id)
{
    return (uint32_t)id;
}

static inline uint64_t tdi_slot_id(uint32_t owner, uint32_t ticket)
{
    return (uint64_t)owner << 32 | ticket;
}

/* Whether ticket a came before b; they are never further apart than there are slots and lost ones. */
static inline bool tdi_slot_is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

#define TDI_SLOT_WAKE_BITS 31
#define TDI_SLOT_WAKE_MASK ((UINT32_C(1) << TDI_SLOT_WAKE_BITS) - 1)

/* A need beyond the 31 bits is more than any bucket holds, and shown as the most that fits. */
static inline uint64_t tdi_slot_request(uint32_t need, bool deaf, uint64_t wake_us, bool awake)
{
    uint64_t shown = need < TDI_WORD_TOKENS ? need : TDI_WORD_TOKENS;
    return shown << 33 | (uint64_t)deaf << 32 | (wake_us & TDI_SLOT_WAKE_MASK) << 1 | awake;
}

static inline uint32_t tdi_slot_need(uint64_t request)
{
    return (uint32_t)(request >> 33);
}

static inline bool tdi_slot_is_deaf(uint64_t request)
{
    return request >> 32 & 1;
}

static inline bool tdi_slot_is_awake(uint64_t request)
{
    return request & 1;
}

/* How long ago the waiter promised to look again, negative if it is still to come; modulo 2^31 us. */
int32_t tdi_slot_overdue_us(uint64_t request, uint64_t now_us);

/* Whether a waiter is so late that it may be dead; *hard if it is so late that it does not matter. */
bool tdi_slot_is_suspect(uint64_t request, uint64_t now_us, bool *hard);

/* Reads slot i: false if nobody waits there. */
bool tdi_slots_read(const struct tdi_layout *file, uint32_t i, struct tdi_slot *out);

/* Who stands before whom. */
struct tdi_queue_scan {
    uint64_t ahead; /* sum of the needs of those before */
    uint32_t ahead_count;
    bool others; /* anybody but the one who asks */
    bool has_suspect;
    struct tdi_queue_suspect suspect; /* one of those before */
};

/* Looks at all slots for a waiter with this id; 0 asks for somebody who is not in line, behind all. */
void tdi_slots_scan(const struct tdi_layout *file, uint64_t id, uint64_t now_us, struct tdi_queue_scan *out);

/* Frees slot i if it still has this id, and tells those behind; false if somebody else did. */
bool tdi_slots_leave(struct tdi_layout *file, uint32_t i, uint64_t id, uint64_t now_us,
                     struct tdi_queue_ring *ring);

/*
 * When a waiter with this much ahead of it can draw: what it needs, how much of it at once, and the first
 * instant, which is a poll away where only a departure helps.
 */
struct tdi_queue_claim {
    uint32_t target_extra; /* tokens wanted beyond those ahead */
    uint64_t due_us;
    uint32_t tokens; /* there are now */
    bool met;
};
void tdi_slots_claim(const struct tdi_word *seen, const struct tdi_config *config, uint64_t now_us,
                     uint64_t ahead, uint32_t ahead_count, uint32_t need, struct tdi_queue_claim *out);

#endif
