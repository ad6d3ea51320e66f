/* SPDX-License-Identifier: MIT */
/*
 * The steps of one waiter. What a crash right after each leaves:
 *
 *   claim     a slot that nobody counts; freed when its owner is found dead, or when all slots are taken
 *   arrive    a ghost: counted until it is overdue and evicted; nothing is drawn
 *   announce  a ghost, and Q set, which costs others a look at the line
 *   draw      what was drawn counts as granted
 *   promise   a ghost whose promise will pass
 *
 * Q in the word says that somebody may be in line. It is never 0 while somebody is: an arrival publishes its
 * slot and then changes the word in any case, and Q is cleared only by a draw whose compare-and-swap starts
 * from a word that was loaded before the slots were looked at. Either that look saw the arrival, or the swap
 * fails, or the arrival's change comes later and sets Q.
 *
 * First come, first served: a draw needs the bucket to cover all who are ahead as well, and its swap fails if
 * any of them drew in between. Nobody ever takes tokens on somebody else's behalf, so nothing is in flight to
 * a dead waiter, and no slot's content can make tokens.
 */
#include "core/queue.h"

#include <tundish/tundish.h>

#include "core/bucket.h"
#include "core/slots.h"
#include "plat/crash.h"

#define DRAWS_MAX 64      /* lost swaps before the caller should read the time again */
#define FUTURE_MAX_US 100 /* a stamp ahead of the time by less is waited for ... */
#define STALE_MAX 10000   /* ... unless the time stands still */

void tdi_queue_init(struct tdi_queue_waiter *waiter, uint32_t owner, uint32_t n, bool deaf)
{
    *waiter = (struct tdi_queue_waiter){.owner = owner, .need = n, .deaf = deaf};
}

static uint64_t id_of(const struct tdi_queue_waiter *waiter)
{
    return tdi_slot_id(waiter->owner, waiter->ticket);
}

static _Atomic(uint64_t) *id_at(struct tdi_layout *file, const struct tdi_queue_waiter *waiter)
{
    return &file->line.id[waiter->slot];
}

/* Writes the own request; false if the slot is not ours any more. */
static bool write_request(struct tdi_layout *file, struct tdi_queue_waiter *waiter, uint64_t wake_us,
                          bool awake)
{
    uint64_t request = tdi_slot_request(waiter->need, waiter->deaf, wake_us, awake);
    if (!atomic_compare_exchange_strong(&file->line.request[waiter->slot], &waiter->request, request))
        return false;
    waiter->request = request;
    return atomic_load(id_at(file, waiter)) == id_of(waiter);
}

static bool claim_slot(struct tdi_layout *file, struct tdi_queue_waiter *waiter)
{
    for (uint32_t tried = 0; tried < TDI_LAYOUT_SLOTS; tried++) {
        uint64_t nobody = 0;
        waiter->slot = (waiter->owner + tried) % TDI_LAYOUT_SLOTS;
        if (atomic_load(id_at(file, waiter)) == 0 &&
            atomic_compare_exchange_strong(id_at(file, waiter), &nobody, tdi_slot_id(waiter->owner, 0)))
            return true;
    }
    return false;
}

static uint32_t take_ticket(struct tdi_layout *file)
{
    uint32_t ticket;
    do
        ticket = atomic_fetch_add(&file->line.ticket, 1);
    while (ticket == 0);
    return ticket;
}

/* Gets in line; false if all slots are taken. */
static bool arrive(struct tdi_layout *file, struct tdi_queue_waiter *waiter, uint64_t now_us)
{
    for (;;) {
        waiter->ticket = 0;
        waiter->announced = false;
        if (!claim_slot(file, waiter))
            return false;
        waiter->request = atomic_load(&file->line.request[waiter->slot]);
        tdi_crash_here(TDI_CRASH_CLAIMED);
        uint64_t claimed = id_of(waiter);
        if (!write_request(file, waiter, now_us, true)) { /* taken for dead already */
            tdi_slots_leave(file, waiter->slot, claimed, now_us, &waiter->ring);
            continue;
        }
        tdi_crash_here(TDI_CRASH_REQUESTED);
        atomic_store_explicit(&file->line.arrived_us[waiter->slot], (uint32_t)now_us, memory_order_relaxed);
        waiter->ticket = take_ticket(file);
        tdi_crash_here(TDI_CRASH_TICKETED);
        if (atomic_compare_exchange_strong(id_at(file, waiter), &claimed, id_of(waiter)))
            return true;
    }
}

/*
 * Sets Q and changes the word whether Q was set or not: a draw that is about to clear it fails then. The
 * change is the stamp, so the time must be past it; false asks for a newer one. A stamp far in the future
 * (time went back) is moved on by a microsecond without crediting it, since it will not be reached soon.
 */
static bool announce(struct tdi_layout *file, struct tdi_queue_waiter *waiter, uint64_t now_us)
{
    struct tdi_config config;
    uint64_t changed;
    struct tdi_word seen;
    do {
        tdi_word_climb(file, now_us);
        seen = tdi_word_look(file);
        tdi_config_read(file, &config);
        if (tdi_word_is_far(&seen, now_us))
            return false;
        if (now_us <= seen.last_us && seen.last_us - now_us <= FUTURE_MAX_US && waiter->stale++ < STALE_MAX)
            return false;
        uint64_t at_us = tdi_word_later(now_us, seen.last_us + 1);
        changed = tdi_word_pack(at_us, TDI_WORD_QUEUED, tdi_word_refilled(&seen, &config, now_us));
    } while (!tdi_word_swap(file, &seen.bits, changed));
    waiter->announced = true;
    waiter->stale = 0;
    return true;
}

enum attempt {
    ATTEMPT_DONE,  /* all drawn */
    ATTEMPT_PART,  /* a piece drawn, the rest is still needed */
    ATTEMPT_SHORT, /* not yet */
    ATTEMPT_SUSPECT,
    ATTEMPT_UNQUEUED, /* Q was seen clear */
    ATTEMPT_STALE,    /* others were quicker, or the time is too old or too new */
};

/* One look and one swap. The word is loaded before the slots are looked at: see the top of the file. */
static enum attempt attempt(struct tdi_layout *file, struct tdi_queue_waiter *waiter, uint64_t now_us,
                            uint64_t *due_us, uint32_t *ahead_count)
{
    struct tdi_queue_scan scan;
    struct tdi_queue_claim claim;
    struct tdi_config config;
    struct tdi_word seen = tdi_word_look(file);
    tdi_config_read(file, &config);
    if (tdi_word_is_far(&seen, now_us)) {
        tdi_word_climb(file, now_us);
        return ATTEMPT_STALE;
    }
    if (!(seen.bits & TDI_WORD_QUEUED))
        return ATTEMPT_UNQUEUED;
    tdi_slots_scan(file, id_of(waiter), now_us, &scan);
    tdi_slots_claim(&seen, &config, now_us, scan.ahead, scan.ahead_count, waiter->need, &claim);
    *due_us = claim.due_us;
    *ahead_count = scan.ahead_count;
    if (!claim.met) {
        if (!scan.has_suspect)
            return ATTEMPT_SHORT;
        waiter->suspect = scan.suspect;
        return ATTEMPT_SUSPECT;
    }
    uint32_t taking = claim.tokens < waiter->need ? claim.tokens : waiter->need;
    uint64_t queued = scan.others || taking < waiter->need ? TDI_WORD_QUEUED : 0;
    uint64_t left = tdi_word_pack(tdi_word_later(seen.last_us, now_us), queued, claim.tokens - taking);
    if (!tdi_word_swap(file, &seen.bits, left))
        return ATTEMPT_STALE;
    tdi_crash_here(TDI_CRASH_DRAWN);
    waiter->drawn += taking;
    waiter->need -= taking;
    return waiter->need == 0 ? ATTEMPT_DONE : ATTEMPT_PART;
}

static void leave(struct tdi_layout *file, struct tdi_queue_waiter *waiter, uint64_t now_us)
{
    if (waiter->ticket != 0)
        tdi_slots_leave(file, waiter->slot, id_of(waiter), now_us, &waiter->ring);
    waiter->ticket = 0;
}

void tdi_queue_cancel(struct tdi_layout *file, struct tdi_queue_waiter *waiter, uint64_t now_us)
{
    uint32_t refund = waiter->drawn;
    tdi_bucket_refund(file, now_us, refund);
    tdi_crash_here(TDI_CRASH_REFUNDED);
    waiter->need += refund;
    waiter->drawn = 0;
    leave(file, waiter, now_us);
    /* From the front, since a ticket published late may be earlier than ours; and also where somebody else
       had freed the slot, who did not know of the refund. */
    if (refund > 0)
        tdi_queue_ring_front(file, now_us, &waiter->ring);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_look_us(uint64_t now_us, uint64_t due_us, uint64_t deadline_us, uint32_t ahead_count)
{
    uint64_t poll_us = least(TDI_QUEUE_LOOK_US, TDI_QUEUE_POLL_US * (1 + (uint64_t)ahead_count));
    return least(least(due_us, deadline_us), now_us + poll_us);
}

enum tdi_queue_result tdi_queue_step(struct tdi_layout *file, struct tdi_queue_waiter *waiter,
                                     uint64_t now_us, uint64_t deadline_us)
{
    uint64_t due_us = now_us;
    uint32_t ahead_count = 0;
    for (int draws = 0; draws < DRAWS_MAX; draws++) {
        if (waiter->ticket == 0 && !arrive(file, waiter, now_us))
            return TDI_QUEUE_FULL;
        tdi_crash_here(TDI_CRASH_ARRIVED);
        /* Bell, then awake, then the look: whoever leaves after the look rings, and the bell differs. */
        waiter->bell = atomic_load(&file->line.bell[waiter->slot]);
        if (!write_request(file, waiter, now_us, true)) {
            leave(file, waiter, now_us); /* evicted: line up again with what is still needed */
            continue;
        }
        tdi_crash_here(TDI_CRASH_AWAKE);
        if (!waiter->announced && !announce(file, waiter, now_us))
            return TDI_QUEUE_AGAIN;
        tdi_crash_here(TDI_CRASH_ANNOUNCED);
        switch (attempt(file, waiter, now_us, &due_us, &ahead_count)) {
        case ATTEMPT_DONE:
            leave(file, waiter, now_us);
            return TDI_QUEUE_GRANTED;
        case ATTEMPT_SUSPECT:
            return TDI_QUEUE_SUSPECT;
        case ATTEMPT_UNQUEUED:
            waiter->announced = false;
            continue;
        case ATTEMPT_PART:
        case ATTEMPT_STALE:
            continue;
        case ATTEMPT_SHORT:
            break;
        }
        if (now_us >= deadline_us) {
            tdi_queue_cancel(file, waiter, now_us);
            return TDI_QUEUE_TIMED_OUT;
        }
        waiter->wake_us = next_look_us(now_us, due_us, deadline_us, ahead_count);
        if (write_request(file, waiter, waiter->wake_us, false)) {
            tdi_crash_here(TDI_CRASH_PROMISED);
            return TDI_QUEUE_SLEEP;
        }
        leave(file, waiter, now_us);
    }
    return TDI_QUEUE_AGAIN;
}

void tdi_queue_vouch(struct tdi_layout *file, uint32_t slot, uint64_t now_us)
{
    atomic_store_explicit(&file->line.vouched_us[slot], (uint32_t)now_us, memory_order_relaxed);
}
