/* SPDX-License-Identifier: MIT */
/*
 * A handle's pages and its entry in the file. Handles are pages of their own, nothing from malloc: buckets
 * are also opened before main inside other programs.
 */
#include "lib/handle.h"

#include <errno.h>

#include "core/config.h"
#include "core/lease.h"
#include "lib/post.h"
#include "lib/repair.h"
#include "plat/file.h"
#include "plat/quiet.h"

int tdi_handle_new(struct tundish **out)
{
    void *handle, *here;
    int error = tdi_file_map_nameless(sizeof(struct tundish), TDI_FILE_COPIED, &handle);
    if (error)
        return error;
    error = tdi_file_map_nameless(sizeof(struct tdi_handle_here), TDI_FILE_WIPED, &here);
    if (error) {
        tdi_file_unmap(handle, sizeof(struct tundish));
        return error;
    }
    *out = handle;
    (*out)->here = here;
    (*out)->post = tdi_post_new();
    return 0;
}

void tdi_handle_free(struct tundish *bucket)
{
    tdi_file_unmap(bucket->here, sizeof *bucket->here);
    tdi_file_unmap(bucket, sizeof *bucket);
}

void tdi_handle_list(struct tundish *bucket, const struct tdi_instance *instance,
                     const struct tdi_identity *self)
{
    bucket->here->instance = *instance;
    bucket->here->self = *self;
    /* Pairs with the acquires in tdi_handle_leave and tdi_handle_identify. */
    atomic_store_explicit(&bucket->here->listed, 1, memory_order_release);
}

void tdi_handle_identify(const struct tundish *bucket, struct tdi_identity *out)
{
    /* Pairs with the release in tdi_handle_list. */
    if (atomic_load_explicit(&bucket->here->listed, memory_order_acquire))
        *out = bucket->here->self;
    else
        tdi_proc_identify(out);
}

static bool is_same_process(const struct tdi_identity *a, const struct tdi_identity *b)
{
    return a->pid == b->pid && a->start_time == b->start_time && a->pid_namespace == b->pid_namespace;
}

/*
 * What this process was before it executed the present program has left its entries; the launcher does on purpose,
 * so that the bucket is never without one.
 */
static void clear_former_programs(struct tundish *bucket, const struct tdi_identity *self)
{
    struct tdi_layout *file = bucket->file;
    struct tdi_identity who;
    struct tdi_instance instance;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_instance_get(file, i, &instance, &who) && is_same_process(&who, self) &&
            who.start_time != 0 && !tdi_proc_is_same_execution(&who, self))
            tdi_repair_clear(bucket, &instance);
}

static void enter(struct tundish *bucket, uint32_t number)
{
    struct tdi_layout *file = bucket->file;
    struct tdi_identity self;
    struct tdi_instance instance;
    tdi_proc_identify(&self);
    if (tdi_unlikely(tdi_lease_any(file)))
        tdi_repair_lessees(bucket, &self);
    int error = tdi_instance_enter(file, &self, number, &instance);
    if (error) {
        tdi_repair_instances(bucket, &self);
        error = tdi_instance_enter(file, &self, number, &instance);
    }
    if (error)
        tdi_instance_count_unlisted(file);
    else
        tdi_handle_list(bucket, &instance, &self);
    clear_former_programs(bucket, &self);
    tdi_post_open(bucket, error ? NULL : &instance);
}

/* Without signals: a child that a handler forked in the midst would go on in its parent's name. */
void tdi_handle_enter_now(struct tundish *bucket)
{
    uint32_t none = 0, number = tdi_instance_number(bucket->file);
    sigset_t former;
    tdi_quiet_begin_all(&former);
    /* Else another thread, or whom this signal handler interrupted, is at it. */
    if (atomic_compare_exchange_strong_explicit(&bucket->here->number, &none, number, memory_order_relaxed,
                                                memory_order_relaxed))
        enter(bucket, number);
    tdi_quiet_end_all(&former);
}

uint32_t tdi_handle_count_live(const struct tdi_layout *file)
{
    struct tdi_identity self, who;
    struct tdi_instance instance;
    uint32_t live = 0;
    tdi_proc_identify(&self);
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_instance_get(file, i, &instance, &who) && tdi_proc_may_live(&who, &self))
            live++;
    return live;
}

void tdi_handle_forking(struct tundish *bucket)
{
    tdi_instance_note_fork(bucket->file, tdi_handle_now_us(bucket));
}

/* Whoever used the bucket in another boot of the machine is gone. Where one of the two is unknown, it is this. */
static bool is_other_boot(const struct tdi_clock_base *base)
{
    uint64_t boot[2];
    tdi_proc_boot_id(boot);
    bool known = (base->boot_id[0] | base->boot_id[1]) != 0 && (boot[0] | boot[1]) != 0;
    return known && (base->boot_id[0] != boot[0] || base->boot_id[1] != boot[1]);
}

bool tdi_handle_forked_lately(const struct tdi_layout *file)
{
    struct tdi_clock_base base;
    tdi_config_read_base(file, &base);
    if (is_other_boot(&base))
        return false;
    if (!tdi_proc_boottime_offset_known())
        return true; /* the bucket's time cannot be told here */
    return tdi_instance_forked_lately(file, tdi_handle_shift(base.shift_us, tdi_clock_now_ns()));
}

/* Whether an entry before this one is the same process's: another handle, or that of the launcher it was. */
static bool is_counted(const struct tdi_layout *file, uint32_t index, const struct tdi_identity *who)
{
    struct tdi_identity other;
    struct tdi_instance instance;
    for (uint32_t i = 0; i < index; i++)
        if (tdi_instance_get(file, i, &instance, &other) && is_same_process(&other, who))
            return true;
    return false;
}

uint32_t tdi_handle_count_others(const struct tundish *bucket)
{
    struct tdi_identity self, who;
    struct tdi_instance instance;
    uint32_t others = 0;
    tdi_handle_identify(bucket, &self);
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_instance_get(bucket->file, i, &instance, &who) && !is_same_process(&who, &self) &&
            !is_counted(bucket->file, i, &who) && tdi_proc_may_live(&who, &self))
            others++;
    return others;
}

void tdi_handle_leave(struct tundish *bucket)
{
    /* Acquire pairs with the release in tdi_handle_list. */
    if (!atomic_exchange_explicit(&bucket->here->listed, 0, memory_order_acquire))
        return;
    tdi_post_close(bucket);
    tdi_repair_clear(bucket, &bucket->here->instance);
}
