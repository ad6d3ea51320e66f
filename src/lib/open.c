/* SPDX-License-Identifier: MIT */
/*
 * From a name to a handle and back. A new file gets its maker's entry before it gets its name, so that a
 * bucket without a living entry is one that nobody uses.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "core/bucket.h"
#include "lib/cancel.h"
#include "lib/handle.h"
#include "lib/name.h"
#include "lib/observe.h"
#include "lib/post.h"
#include "lib/repair.h"
#include "shm/store.h"

#define STAMP_BITS 51 /* 71 years of us; the shift's 52 bits hold the difference of two such times */

struct making {
    const struct tundish_options *options;
    uint32_t number;
    struct tdi_instance instance;
    struct tdi_identity self;
};

static int check_options(const struct tundish_options *options)
{
    if (!options || options->size != sizeof *options)
        return -EINVAL;
    if (options->initial != TUNDISH_INITIAL_FULL && options->initial > options->capacity)
        return -EINVAL;
    if (options->mode & ~(mode_t)07777)
        return -EINVAL;
    return tdi_config_check(options->capacity, options->refill, options->interval_us, options->flags);
}

static struct tdi_config config_of(const struct tundish_options *options)
{
    struct tdi_config config = {
        .interval_us = options->interval_us,
        .refill = options->refill,
        .capacity = options->capacity,
        .flags = options->flags,
    };
    tdi_config_prepare(&config);
    return config;
}

static int64_t boot_us(void)
{
    return (int64_t)(tdi_clock_now_ns() / TDI_NS_PER_US);
}

static void fill(void *map, void *context)
{
    struct making *making = context;
    struct tdi_layout *file = map;
    struct tdi_config config = config_of(making->options);
    struct tdi_clock_base base = {.shift_us = -boot_us()};
    uint32_t initial = making->options->initial;

    tdi_proc_boot_id(base.boot_id);
    tdi_config_init(file, &config, &base);
    tdi_bucket_init(file, initial == TUNDISH_INITIAL_FULL ? config.capacity : initial);
    tdi_proc_identify(&making->self);
    making->number = tdi_instance_number(file);
    tdi_instance_enter(file, &making->self, making->number, &making->instance);
}

/* The maker's place was taken before the file was seen. */
static void take_place(struct tundish *bucket, const struct making *making)
{
    atomic_store_explicit(&bucket->here->number, making->number, memory_order_relaxed);
    tdi_handle_list(bucket, &making->instance, &making->self);
    tdi_post_open(bucket, &making->instance);
}

static bool is_our_boot(const struct tdi_layout *file, const struct tdi_clock_base *base,
                        const uint64_t boot[2])
{
    if (base->boot_id[0] == boot[0] && base->boot_id[1] == boot[1])
        return true;
    bool unknown = (base->boot_id[0] | base->boot_id[1]) == 0 || (boot[0] | boot[1]) == 0;
    const int64_t second = 1000000;
    return unknown && base->shift_us + boot_us() + second >= (int64_t)tdi_bucket_stamp(file);
}

/* From the machine's boot time to the bucket's; after a reboot time goes on where it stopped. */
static int64_t find_shift(struct tdi_layout *file)
{
    struct tdi_clock_base base, next;
    tdi_proc_boot_id(next.boot_id);
    for (;;) {
        uint64_t current = tdi_config_read_base(file, &base);
        if (is_our_boot(file, &base, next.boot_id))
            return base.shift_us;
        next.shift_us = (int64_t)tdi_bucket_stamp(file) - boot_us();
        if (tdi_bucket_rebase(file, current, &next) == 0)
            return next.shift_us;
    }
}

/* Whether the configuration in the file is one this library would have written. */
static int check_file(const struct tdi_layout *file)
{
    struct tdi_config config;
    tdi_config_read(file, &config);
    if (tdi_bucket_stamp(file) >> STAMP_BITS != 0)
        return -EPROTO;
    if (config.spoilt ||
        tdi_config_check(config.capacity, config.refill, config.interval_us, config.flags) != 0)
        return -EPROTO;
    struct tdi_config again = config;
    tdi_config_prepare(&again);
    bool same = config.rate_whole == again.rate_whole && config.rate_fraction == again.rate_fraction &&
                config.extra == again.extra;
    return same && config.carry < config.interval_us ? 0 : -EPROTO;
}

static void after_fork_in_child(void)
{
    tdi_proc_forget_boottime_offset();
    tdi_clock_forget(); /* a thread of the parent's may have been in the middle of it */
}

/* Once per process; whoever loses the race goes on without waiting. */
static void watch_forks(void)
{
    static _Atomic(bool) watching;
    if (!atomic_exchange_explicit(&watching, true, memory_order_relaxed))
        pthread_atfork(NULL, NULL, after_fork_in_child);
}

static int attach(struct tdi_layout *file, const struct tdi_file_facts *facts, struct tundish **out)
{
    struct tundish *bucket;
    int error = tdi_proc_boottime_offset_known() ? tdi_handle_new(&bucket) : -ENOTSUP;
    if (error)
        return error;
    watch_forks();
    bucket->file = file;
    bucket->device = facts->device;
    bucket->inode = facts->inode;
    bucket->shift_us = find_shift(file);
    *out = bucket;
    return 0;
}

static int create(struct tundish **out, const char *name, const struct tundish_options *options)
{
    char path[PATH_MAX];
    struct tdi_layout *file;
    struct tdi_file_facts facts;
    struct making making = {.options = options};
    *out = NULL;
    int error = check_options(options);
    if (!error)
        error = tdi_name_resolve(name, TDI_NAME_MAKE, path, sizeof path);
    if (!error)
        error = tdi_store_make(path, options->mode, fill, &making, &file, &facts);
    if (error)
        return error;
    error = attach(file, &facts, out);
    if (error) { /* out of memory: the bucket is there and fine, its maker leaves */
        tdi_instance_leave(file, &making.instance);
        tdi_store_unmap(file);
        return error;
    }
    take_place(*out, &making);
    return 0;
}

static int map_existing(struct tundish **out, const char *name)
{
    char path[PATH_MAX];
    struct tdi_layout *file;
    struct tdi_file_facts facts;
    enum tdi_store_fault fault;
    *out = NULL;
    int error = tdi_name_resolve(name, TDI_NAME_CHECK, path, sizeof path);
    if (!error)
        error = tdi_store_map(path, &file, &facts, &fault);
    if (error)
        return error;
    error = check_file(file);
    if (!error)
        error = attach(file, &facts, out);
    if (error)
        tdi_store_unmap(file);
    return error;
}

static int open_existing(struct tundish **out, const char *name)
{
    int error = map_existing(out, name);
    if (!error)
        tdi_handle_enter(*out);
    return error;
}

/* None of these is a cancellation point, though the system calls in them are. */

int tundish_create(struct tundish **out, const char *name, const struct tundish_options *options)
{
    int state = tdi_cancel_disable();
    int error = create(out, name, options);
    tdi_cancel_restore(state);
    return error;
}

int tundish_open(struct tundish **out, const char *name)
{
    int state = tdi_cancel_disable();
    int error = open_existing(out, name);
    tdi_cancel_restore(state);
    return error;
}

int tdi_observe_open(struct tundish **out, const char *name)
{
    int state = tdi_cancel_disable();
    int error = map_existing(out, name);
    tdi_cancel_restore(state);
    return error;
}

int tundish_open_or_create(struct tundish **out, const char *name, const struct tundish_options *options)
{
    int state = tdi_cancel_disable();
    int error;
    do { /* again if it was made or removed between the two */
        error = open_existing(out, name);
        if (error == -ENOENT)
            error = create(out, name, options);
    } while (error == -EEXIST);
    tdi_cancel_restore(state);
    return error;
}

int tundish_create_private(struct tundish **out, const struct tundish_options *options)
{
    static const struct tdi_file_facts nameless;
    struct making making = {.options = options};
    void *map;
    *out = NULL;
    int error = check_options(options);
    if (!error)
        error = tdi_file_map_nameless(sizeof(struct tdi_layout), TDI_FILE_WITH_CHILDREN, &map);
    if (error)
        return error;
    tdi_store_init(map);
    fill(map, &making);
    error = attach(map, &nameless, out);
    if (error)
        tdi_store_unmap(map);
    else
        take_place(*out, &making);
    return error;
}

void tundish_close(struct tundish *bucket)
{
    if (!bucket)
        return;
    int (*unregister)(struct tundish *) = atomic_load_explicit(&bucket->unregister, memory_order_relaxed);
    if (unregister && unregister(bucket) == -EINPROGRESS)
        return; /* from one of its callbacks: closed when that is over */
    tdi_handle_leave(bucket);
    tdi_store_unmap(bucket->file);
    tdi_handle_free(bucket);
}

int tundish_unlink(const char *name)
{
    char path[PATH_MAX];
    enum tdi_store_fault fault;
    int state = tdi_cancel_disable();
    int error = tdi_name_resolve(name, TDI_NAME_CHECK, path, sizeof path);
    if (!error)
        error = tdi_store_recognise(path, &fault);
    if (!error)
        error = tdi_file_unlink(path);
    tdi_cancel_restore(state);
    return error;
}

int tundish_configure(struct tundish *bucket, const struct tundish_options *options)
{
    struct tundish_options checked;
    if (!options || options->size != sizeof *options)
        return -EINVAL;
    checked = *options;
    checked.initial = TUNDISH_INITIAL_FULL;
    checked.mode = 0;
    int error = check_options(&checked);
    if (error)
        return error;
    struct tdi_config want = config_of(&checked);
    tdi_handle_enter(bucket);
    struct tdi_queue_ring ring = {0, false};
    struct tdi_change change;
    do
        tdi_bucket_begin_change(bucket->file, tdi_handle_now_us(bucket), &want, &change);
    while (tdi_bucket_end_change(bucket->file, tdi_handle_now_us(bucket), &change) != 0);
    tdi_queue_ring_all(bucket->file, &ring);
    tdi_repair_wake(bucket, &ring);
    return 0;
}
