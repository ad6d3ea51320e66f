/* SPDX-License-Identifier: MIT */
/* See observe.h. */
#include "lib/observe.h"

#include <errno.h>
#include <string.h>

#include "core/handshake.h"
#include "core/lease.h"
#include "lib/handle.h"
#include "lib/repair.h"
#include "plat/file.h"

static const struct tdi_layout_account *account_of(const struct tundish *bucket, uint32_t index)
{
    bool has = index < TDI_LAYOUT_INSTANCES && tdi_instance_has(bucket->file, index, TDI_MEMORY_ACCOUNT);
    return has ? &bucket->file->account[index] : NULL;
}

static uint64_t us_ago(const struct tundish *bucket, uint64_t then_us)
{
    uint64_t now_us = tdi_handle_now_us(bucket);
    return then_us < now_us ? now_us - then_us : 0;
}

static void read_account(const struct tundish *bucket, const struct tdi_layout_account *account,
                         struct tdi_observe_instance *out)
{
    uint64_t seen_us;
    uint32_t strategy = tdi_handshake_strategy(account);
    uint64_t drainer = tdi_ring_drainer(account, &seen_us);
    out->counts = tdi_stats_read_owner(account, out->instance.owner, &out->stats);
    out->strategy = strategy <= TUNDISH_LEASED ? strategy : TUNDISH_DIRECT;
    out->generation = tdi_handshake_generation(account);
    out->in_flight = tdi_handshake_in_flight(account);
    out->every = tdi_ring_every(&account->stripe[0]);
    out->drainer_pid = (uint32_t)(drainer >> 32);
    out->drained_ns_ago = drainer ? us_ago(bucket, seen_us) * TDI_NS_PER_US : 0;
}

bool tdi_observe_instance(const struct tundish *bucket, uint32_t index, struct tdi_observe_instance *out)
{
    struct tdi_identity self;
    memset(out, 0, sizeof *out);
    if (!tdi_instance_get(bucket->file, index, &out->instance, &out->who))
        return false;
    tdi_proc_identify(&self);
    out->may_live = tdi_proc_may_live(&out->who, &self);
    const struct tdi_layout_account *account = account_of(bucket, index);
    if (account)
        read_account(bucket, account, out);
    return true;
}

bool tdi_observe_owner(const struct tundish *bucket, uint32_t index, struct tdi_identity *out)
{
    return index < TDI_LAYOUT_INSTANCES && tdi_instance_get_last(bucket->file, index, out);
}

void tdi_observe_total(const struct tundish *bucket, struct tdi_stats *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++) {
        const struct tdi_layout_account *account = account_of(bucket, i);
        if (account)
            tdi_stats_add_place(account, out);
    }
    if (tdi_instance_has_rest(bucket->file))
        tdi_stats_add_place(&bucket->file->rest, out);
}

void tdi_observe_bury(struct tundish *bucket)
{
    struct tdi_identity self;
    tdi_proc_identify(&self);
    tdi_repair_instances(bucket, &self);
    if (tdi_lease_any(bucket->file))
        tdi_repair_lessees(bucket, &self);
}

uint32_t tdi_observe_processes(const struct tundish *bucket)
{
    return tdi_handle_count_others(bucket);
}

double tdi_observe_age_s(const struct tundish *bucket)
{
    return (double)tdi_handle_now_us(bucket) / 1e6;
}

bool tdi_observe_is_file(const struct tundish *bucket, uint64_t device, uint64_t inode)
{
    return bucket->device == device && bucket->inode == inode;
}

void tdi_drainer_init(struct tdi_drainer *drainer)
{
    tdi_proc_identify(&drainer->self);
    drainer->word = (uint64_t)drainer->self.pid << 32 | (uint32_t)drainer->self.start_time;
}

static bool is_silent(const struct tundish *bucket, uint64_t seen_us)
{
    return us_ago(bucket, seen_us) * TDI_NS_PER_US > TDI_DRAINER_SILENT_NS;
}

/*
 * Whether the drainer whose word that is, is certainly gone. Where it lives is not written; an instance's own
 * sidecar is in the instance's pid namespace, and if that is not ours, its number says nothing to us: then only
 * its silence tells.
 */
static bool is_drainer_gone(const struct tdi_drainer *asker, const struct tundish *bucket, uint32_t index,
                            uint64_t word, uint64_t seen_us)
{
    struct tdi_identity who = asker->self, owner;
    bool is_near = !tdi_observe_owner(bucket, index, &owner) || owner.pid_namespace == who.pid_namespace;
    who.pid = (uint32_t)(word >> 32);
    who.start_time = (who.start_time & ~(uint64_t)UINT32_MAX) | (uint32_t)word;
    return (is_near || is_silent(bucket, seen_us)) && !tdi_proc_may_live(&who, &asker->self);
}

static int give_rings_memory(struct tundish *bucket, uint32_t index)
{
    if (tdi_instance_has(bucket->file, index, TDI_MEMORY_RINGS))
        return 0;
    int error = tdi_file_populate(&bucket->file->rings[index], sizeof bucket->file->rings[index]);
    if (!error)
        tdi_instance_note_memory(bucket->file, index, TDI_MEMORY_RINGS);
    return error;
}

int tdi_drainer_attend(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index,
                       uint32_t every)
{
    uint64_t seen_us;
    if (!account_of(bucket, index))
        return -ENOENT;
    struct tdi_layout_account *account = &bucket->file->account[index];
    uint64_t present = tdi_ring_drainer(account, &seen_us);
    if (present != drainer->word) {
        if (present != 0 && !is_silent(bucket, seen_us) &&
            !is_drainer_gone(drainer, bucket, index, present, seen_us))
            return -EBUSY;
        if (!tdi_ring_claim(account, present, drainer->word, tdi_handle_now_us(bucket)))
            return -EBUSY;
    }
    int error = every ? give_rings_memory(bucket, index) : 0;
    if (!error && !tdi_ring_is_armed(account, every))
        tdi_ring_arm(account, every);
    return error;
}

size_t tdi_drainer_drain(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index,
                         struct tdi_observation *out, size_t most)
{
    if (!account_of(bucket, index) || !tdi_instance_has(bucket->file, index, TDI_MEMORY_RINGS))
        return 0;
    return tdi_ring_drain(bucket->file, index, drainer->word, tdi_handle_now_us(bucket), out, most);
}

void tdi_drainer_relieve(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index)
{
    uint64_t seen_us;
    if (!account_of(bucket, index))
        return;
    struct tdi_layout_account *account = &bucket->file->account[index];
    uint64_t present = tdi_ring_drainer(account, &seen_us);
    if (present != 0 && is_drainer_gone(drainer, bucket, index, present, seen_us) &&
        tdi_ring_claim(account, present, drainer->word, tdi_handle_now_us(bucket)))
        tdi_ring_leave(account, drainer->word);
}

void tdi_drainer_leave(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index)
{
    if (account_of(bucket, index))
        tdi_ring_leave(&bucket->file->account[index], drainer->word);
}
