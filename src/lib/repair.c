/* SPDX-License-Identifier: MIT */
/* See repair.h. */
#include "lib/repair.h"

#include "core/bucket.h"
#include "core/instance.h"
#include "core/lease.h"
#include "plat/futex.h"
#include "plat/proc.h"

void tdi_repair_wake(struct tundish *bucket, struct tdi_queue_ring *ring)
{
    for (uint32_t i = 0; ring->slots != 0; i++, ring->slots >>= 1)
        if (ring->slots & 1)
            tdi_futex_wake_all(&bucket->file->line.bell[i]);
    if (ring->door)
        tdi_futex_wake_one(&bucket->file->line.door);
    ring->door = false;
}

/* Certainly gone; an owner that is in no entry (the table was full) may be anybody. */
static bool is_owner_gone(const struct tdi_layout *file, uint32_t number, const struct tdi_identity *self)
{
    struct tdi_instance instance;
    struct tdi_identity who;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_instance_get(file, i, &instance, &who) && (uint32_t)instance.owner == number)
            return !tdi_proc_may_live(&who, self);
    return false;
}

static void evict_owner(struct tundish *bucket, uint32_t number, struct tdi_queue_ring *ring)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        uint64_t id = tdi_queue_holder(bucket->file, i);
        if (id != 0 && (uint32_t)(id >> 32) == number)
            tdi_queue_evict(bucket->file, i, id, tdi_handle_now_us(bucket), ring);
    }
}

bool tdi_repair_suspect(struct tundish *bucket, const struct tdi_queue_suspect *suspect,
                        struct tdi_queue_ring *ring)
{
    struct tdi_identity self;
    uint32_t number = (uint32_t)(suspect->id >> 32);
    tdi_handle_identify(bucket, &self);
    if (is_owner_gone(bucket->file, number, &self))
        evict_owner(bucket, number, ring);
    else if (suspect->overdue_hard)
        tdi_queue_evict_overdue(bucket->file, suspect->slot, suspect->id, tdi_handle_now_us(bucket), ring);
    else
        return false;
    tdi_repair_wake(bucket, ring);
    return true;
}

/* A claim lasts less than a microsecond: one that was there at each look for so long was left by the dead. */
static void evict_old_claims(struct tundish *bucket, struct tdi_repair_claims *claims, uint64_t claimed,
                             uint64_t now_us, struct tdi_queue_ring *ring)
{
    claims->slots &= claimed;
    if (claims->slots == 0)
        *claims = (struct tdi_repair_claims){claimed, now_us};
    if (now_us - claims->since_us <= TDI_QUEUE_HARD_US)
        return;
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        uint64_t id;
        if ((claims->slots >> i & 1) && tdi_queue_doubt(bucket->file, i, now_us, &id) == TDI_QUEUE_CLAIMED)
            tdi_queue_evict(bucket->file, i, id, now_us, ring);
    }
    claims->slots = 0;
}

void tdi_repair_slots(struct tundish *bucket, struct tdi_repair_claims *claims, struct tdi_queue_ring *ring)
{
    struct tdi_identity self;
    uint64_t claimed = 0, now_us = tdi_handle_now_us(bucket);
    tdi_handle_identify(bucket, &self);
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        uint64_t id;
        enum tdi_queue_doubt doubt = tdi_queue_doubt(bucket->file, i, now_us, &id);
        if (doubt == TDI_QUEUE_FINE)
            continue;
        if (is_owner_gone(bucket->file, (uint32_t)(id >> 32), &self))
            evict_owner(bucket, (uint32_t)(id >> 32), ring);
        else if (doubt == TDI_QUEUE_TOO_LATE)
            tdi_queue_evict_overdue(bucket->file, i, id, now_us, ring);
        else if (doubt == TDI_QUEUE_CLAIMED)
            claimed |= UINT64_C(1) << i;
    }
    evict_old_claims(bucket, claims, claimed, now_us, ring);
    tdi_repair_wake(bucket, ring);
}

void tdi_repair_clear(struct tundish *bucket, const struct tdi_instance *instance)
{
    if (tdi_lease_is_lessee(bucket->file, instance->index))
        tdi_bucket_count(bucket->file, tdi_handle_now_us(bucket));
    tdi_instance_leave(bucket->file, instance);
}

static void bury(struct tundish *bucket, uint32_t index, const struct tdi_identity *self,
                 struct tdi_queue_ring *ring)
{
    struct tdi_instance instance;
    struct tdi_identity who;
    if (!tdi_instance_get(bucket->file, index, &instance, &who) || tdi_proc_may_live(&who, self))
        return;
    evict_owner(bucket, (uint32_t)instance.owner, ring); /* while it is still known that it is gone */
    tdi_repair_clear(bucket, &instance);
}

void tdi_repair_instances(struct tundish *bucket, const struct tdi_identity *self)
{
    struct tdi_queue_ring ring = {0, false};
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        bury(bucket, i, self, &ring);
    tdi_repair_wake(bucket, &ring);
}

/* Its process lives, but as another program, which knows nothing of leases. The place stays its process's. */
static void end_forgotten_lease(struct tundish *bucket, uint32_t index, const struct tdi_identity *self)
{
    struct tdi_instance instance;
    struct tdi_identity who;
    if (!tdi_instance_get(bucket->file, index, &instance, &who) || who.pid == self->pid ||
        !tdi_proc_has_executed(&who, self))
        return;
    tdi_bucket_count(bucket->file, tdi_handle_now_us(bucket));
    tdi_lease_release(bucket->file, &instance);
}

void tdi_repair_lessees(struct tundish *bucket, const struct tdi_identity *self)
{
    struct tdi_queue_ring ring = {0, false};
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++) {
        if (tdi_lease_is_lessee(bucket->file, i))
            bury(bucket, i, self, &ring);
        if (tdi_lease_is_lessee(bucket->file, i))
            end_forgotten_lease(bucket, i, self);
    }
    tdi_repair_wake(bucket, &ring);
}

bool tdi_repair_line(struct tundish *bucket)
{
    struct tdi_queue_suspect suspect;
    struct tdi_queue_ring ring = {0, false};
    uint64_t now_us = tdi_handle_now_us(bucket);
    bool any = false;
    while (tdi_queue_find_suspect(bucket->file, now_us, &suspect)) {
        if (tdi_repair_suspect(bucket, &suspect, &ring))
            any = true;
        else
            tdi_queue_vouch(bucket->file, suspect.slot, now_us);
    }
    return any;
}
