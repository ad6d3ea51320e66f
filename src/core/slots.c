/* SPDX-License-Identifier: MIT */
/* See slots.h for the order of reading and writing, and queue.h for the algorithm. */
#include "core/slots.h"

#include <tundish/tundish.h>

#include "plat/crash.h"

#define READ_TRIES 64         /* a slot changes hands between two loads; a spoilt one may do so for ever */
#define SLEEP_PRECISION_US 20 /* a promise that is late by less is kept anyway */

int32_t tdi_slot_overdue_us(uint64_t request, uint64_t now_us)
{
    uint32_t wake_us = (uint32_t)(request >> 1) & TDI_SLOT_WAKE_MASK;
    uint32_t difference = ((uint32_t)now_us - wake_us) & TDI_SLOT_WAKE_MASK;
    /* Sign-extends 31 bits. */
    return (int32_t)(difference << 1) / 2;
}

bool tdi_slot_is_suspect(uint64_t request, uint64_t now_us, bool *hard)
{
    /* A promise further ahead than any waiter makes is one so old that it wrapped; but whoever looks may have
       read the time long ago. */
    int32_t overdue = tdi_slot_overdue_us(request, now_us);
    bool wrapped = overdue < -(TDI_QUEUE_LOOK_US + TDI_QUEUE_HARD_US);
    *hard = wrapped || overdue > TDI_QUEUE_HARD_US;
    return wrapped || overdue > TDI_QUEUE_SOFT_US;
}

bool tdi_slots_read(const struct tdi_layout *file, uint32_t i, struct tdi_slot *out)
{
    for (int tries = 0; tries < READ_TRIES; tries++) {
        out->id = atomic_load(&file->line.id[i]);
        if (tdi_slot_ticket(out->id) == 0)
            return false;
        out->request = atomic_load(&file->line.request[i]);
        if (atomic_load(&file->line.id[i]) == out->id)
            return true;
    }
    return false;
}

static bool is_vouched_for(const struct tdi_layout *file, uint32_t i, uint64_t now_us)
{
    uint32_t vouched_us = atomic_load_explicit(&file->line.vouched_us[i], memory_order_relaxed);
    int32_t since_us = (int32_t)((uint32_t)now_us - vouched_us);
    return since_us > -TDI_QUEUE_VOUCH_US && since_us < TDI_QUEUE_VOUCH_US;
}

static void note_suspect(const struct tdi_layout *file, uint32_t i, const struct tdi_slot *slot,
                         uint64_t now_us, struct tdi_queue_scan *out)
{
    bool hard;
    if (!tdi_slot_is_suspect(slot->request, now_us, &hard) || (!hard && is_vouched_for(file, i, now_us)))
        return;
    out->has_suspect = true;
    out->suspect = (struct tdi_queue_suspect){i, slot->id, hard};
}

void tdi_slots_scan(const struct tdi_layout *file, uint64_t id, uint64_t now_us, struct tdi_queue_scan *out)
{
    uint32_t ticket = tdi_slot_ticket(id);
    struct tdi_slot slot;
    *out = (struct tdi_queue_scan){.ahead = 0};
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        if (!tdi_slots_read(file, i, &slot) || slot.id == id)
            continue;
        out->others = true;
        if (ticket != 0 && !tdi_slot_is_before(tdi_slot_ticket(slot.id), ticket))
            continue;
        out->ahead += tdi_slot_need(slot.request);
        out->ahead_count++;
        note_suspect(file, i, &slot, now_us, out);
    }
}

void tdi_slots_claim(const struct tdi_word *seen, const struct tdi_config *config, uint64_t now_us,
                     uint64_t ahead, uint32_t ahead_count, uint32_t need, struct tdi_queue_claim *out)
{
    uint32_t most = config->capacity - config->held_back; /* more than that there may never be at once */
    uint64_t limit = (uint64_t)most + config->extra;
    out->tokens = tdi_word_refilled(seen, config, now_us);
    out->target_extra = need;
    if (ahead_count == 0 && (config->flags & TUNDISH_UNFAIR))
        out->target_extra = 1; /* newcomers may come first any time: keep what there is */
    else if (ahead_count == 0 && need > most)
        out->target_extra = most ? most : 1; /* 0 in a spoilt file */
    uint64_t target = ahead + out->target_extra;
    out->met = out->tokens >= target;
    if (out->met)
        out->due_us = now_us;
    else if (out->tokens >= limit)
        out->due_us = now_us + TDI_QUEUE_POLL_US; /* full: only a departure helps */
    else
        out->due_us = tdi_rate_when(config, tdi_word_later(seen->last_us, now_us), target - out->tokens);
}

static void ring_bell(struct tdi_layout *file, uint32_t i, struct tdi_queue_ring *ring)
{
    atomic_fetch_add(&file->line.bell[i], 1);
    ring->slots |= UINT64_C(1) << i;
}

/* One that is still awake after its bell changed finds it changed before it sleeps: no need to wake it. */
static void ring_awake(struct tdi_layout *file, uint32_t i, struct tdi_queue_ring *ring)
{
    ring_bell(file, i, ring);
    if (tdi_slot_is_awake(atomic_load(&file->line.request[i])))
        ring->slots &= ~(UINT64_C(1) << i);
}

/* The waiter that comes next behind `after` (0: the first of all). */
static bool find_next(const struct tdi_layout *file, uint32_t after, uint32_t *at, struct tdi_slot *out)
{
    struct tdi_slot slot;
    bool found = false;
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        if (!tdi_slots_read(file, i, &slot))
            continue;
        uint32_t ticket = tdi_slot_ticket(slot.id);
        if (after != 0 && !tdi_slot_is_before(after, ticket))
            continue;
        if (found && !tdi_slot_is_before(ticket, tdi_slot_ticket(out->id)))
            continue;
        *out = slot;
        *at = i;
        found = true;
    }
    return found;
}

/* Walks down the line from behind `after` and rings whoever should look again; stops at the first sleeper. */
static void ring_behind(struct tdi_layout *file, uint32_t after, uint64_t now_us, struct tdi_queue_ring *ring)
{
    struct tdi_slot slot = {0, 0};
    struct tdi_queue_scan scan;
    struct tdi_queue_claim claim;
    struct tdi_config config;
    uint32_t i = 0;
    for (uint32_t seen = 0; seen < TDI_LAYOUT_SLOTS && find_next(file, after, &i, &slot); seen++) {
        bool hard;
        after = tdi_slot_ticket(slot.id);
        if (tdi_slot_is_awake(slot.request)) {
            ring_awake(file, i, ring); /* it may have counted who left */
            continue;
        }
        if (tdi_slot_is_deaf(slot.request) || tdi_slot_is_suspect(slot.request, now_us, &hard))
            continue;
        struct tdi_word word = tdi_word_look(file);
        tdi_config_read(file, &config);
        tdi_slots_scan(file, slot.id, now_us, &scan);
        tdi_slots_claim(&word, &config, now_us, scan.ahead, scan.ahead_count, tdi_slot_need(slot.request),
                        &claim);
        int64_t sleeps_us = -(int64_t)tdi_slot_overdue_us(slot.request, now_us);
        int64_t due_in_us = (int64_t)(claim.due_us - now_us);
        if (sleeps_us > due_in_us + SLEEP_PRECISION_US)
            ring_bell(file, i, ring);
        return;
    }
}

static void open_door(struct tdi_layout *file, struct tdi_queue_ring *ring)
{
    if (atomic_load(&file->line.door) != 0 && atomic_exchange(&file->line.door, 0) != 0)
        ring->door = true;
}

bool tdi_slots_leave(struct tdi_layout *file, uint32_t i, uint64_t id, uint64_t now_us,
                     struct tdi_queue_ring *ring)
{
    uint64_t expected = id;
    if (!atomic_compare_exchange_strong(&file->line.id[i], &expected, 0))
        return false;
    tdi_crash_here(TDI_CRASH_LEFT);
    if (tdi_slot_ticket(id) != 0)
        ring_behind(file, tdi_slot_ticket(id), now_us, ring);
    open_door(file, ring);
    tdi_crash_here(TDI_CRASH_RUNG);
    return true;
}

uint64_t tdi_queue_holder(const struct tdi_layout *file, uint32_t slot)
{
    return atomic_load(&file->line.id[slot]);
}

enum tdi_queue_doubt tdi_queue_doubt(const struct tdi_layout *file, uint32_t slot, uint64_t now_us,
                                     uint64_t *id)
{
    bool hard;
    struct tdi_slot seen = {.id = 0};
    bool waits = tdi_slots_read(file, slot, &seen);
    *id = seen.id;
    if (!waits)
        return seen.id != 0 && tdi_slot_ticket(seen.id) == 0 ? TDI_QUEUE_CLAIMED : TDI_QUEUE_FINE;
    if (!tdi_slot_is_suspect(seen.request, now_us, &hard))
        return TDI_QUEUE_FINE;
    return hard ? TDI_QUEUE_TOO_LATE : TDI_QUEUE_LATE;
}

void tdi_queue_evict(struct tdi_layout *file, uint32_t slot, uint64_t id, uint64_t now_us,
                     struct tdi_queue_ring *ring)
{
    /* What the evicted one drew stays drawn: only it knows. If it lives after all, it is to know at once. */
    if (tdi_slots_leave(file, slot, id, now_us, ring))
        ring_bell(file, slot, ring);
}

void tdi_queue_evict_overdue(struct tdi_layout *file, uint32_t slot, uint64_t id, uint64_t now_us,
                             struct tdi_queue_ring *ring)
{
    uint64_t found;
    if (tdi_queue_doubt(file, slot, now_us, &found) == TDI_QUEUE_TOO_LATE && found == id)
        tdi_queue_evict(file, slot, id, now_us, ring);
}

bool tdi_queue_find_suspect(const struct tdi_layout *file, uint64_t now_us, struct tdi_queue_suspect *out)
{
    struct tdi_queue_scan scan;
    if (!(tdi_word_load(file) & TDI_WORD_QUEUED))
        return false;
    tdi_slots_scan(file, 0, now_us, &scan);
    *out = scan.suspect;
    return scan.has_suspect;
}

void tdi_queue_ring_front(struct tdi_layout *file, uint64_t now_us, struct tdi_queue_ring *ring)
{
    if (tdi_word_load(file) & TDI_WORD_QUEUED)
        ring_behind(file, 0, now_us, ring);
}

void tdi_queue_ring_all(struct tdi_layout *file, struct tdi_queue_ring *ring)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++)
        if (tdi_slot_ticket(atomic_load(&file->line.id[i])) != 0)
            ring_bell(file, i, ring);
}

void tdi_queue_shut_door(struct tdi_layout *file)
{
    atomic_store(&file->line.door, 1);
}

void tdi_queue_count(const struct tdi_layout *file, uint64_t now_us, struct tdi_queue_census *out)
{
    struct tdi_slot slot;
    uint32_t first = 0;
    *out = (struct tdi_queue_census){.waiting = 0};
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        if (!tdi_slots_read(file, i, &slot))
            continue;
        out->needs += tdi_slot_need(slot.request);
        if (out->waiting++ > 0 && !tdi_slot_is_before(tdi_slot_ticket(slot.id), first))
            continue;
        first = tdi_slot_ticket(slot.id);
        uint32_t arrived_us = atomic_load_explicit(&file->line.arrived_us[i], memory_order_relaxed);
        out->oldest_wait_us = (uint32_t)now_us - arrived_us;
    }
}
