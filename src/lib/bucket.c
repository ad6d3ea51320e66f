/* SPDX-License-Identifier: MIT */
/* The functions that look at a bucket or change it without waiting. */
#include <errno.h>
#include <string.h>

#include "core/bucket.h"
#include "lib/cancel.h"
#include "lib/handle.h"
#include "lib/repair.h"
#include "plat/file.h"

uint32_t tundish_available(const struct tundish *bucket)
{
    return tdi_bucket_available(bucket->file, tdi_handle_now_us(bucket));
}

uint64_t tundish_wait_time_ns(const struct tundish *bucket, uint32_t n)
{
    uint64_t now_ns = tdi_clock_now_ns();
    uint64_t now_us = tdi_handle_us(bucket, now_ns);
    uint64_t due_us = tdi_bucket_when(bucket->file, now_us, n);
    if (due_us <= now_us)
        return 0;
    uint64_t due_ns = tdi_handle_ns(bucket, due_us);
    if (due_ns == UINT64_MAX)
        return UINT64_MAX;
    return due_ns > now_ns ? due_ns - now_ns : 0;
}

int tundish_reset(struct tundish *bucket)
{
    tdi_handle_enter(bucket);
    uint64_t now_us = tdi_handle_now_us(bucket);
    struct tdi_queue_ring ring = {0, false};
    tdi_bucket_reset(bucket->file, now_us);
    tdi_queue_ring_front(bucket->file, now_us, &ring);
    tdi_repair_wake(bucket, &ring);
    return 0;
}

int tundish_flush(struct tundish *bucket)
{
    int state = tdi_cancel_disable();
    int error = tdi_file_sync(bucket->file, sizeof *bucket->file);
    tdi_cancel_restore(state);
    return error;
}

int tundish_info(const struct tundish *bucket, struct tundish_info *info)
{
    if (!info || info->size != sizeof *info)
        return -EINVAL;
    struct tdi_config config;
    struct tdi_queue_census line;
    tdi_config_read(bucket->file, &config);
    uint32_t available = tundish_available(bucket);
    tdi_queue_count(bucket->file, tdi_handle_now_us(bucket), &line);
    *info = (struct tundish_info){
        .size = sizeof *info,
        .capacity = config.capacity,
        .refill = config.refill,
        .interval_us = config.interval_us,
        .flags = config.flags,
        .available = available < config.capacity ? available : config.capacity, /* it may have been changed */
        .full_in_ns = tundish_wait_time_ns(bucket, config.capacity),
        .age_ns = tdi_handle_now_us(bucket) * TDI_NS_PER_US,
        .instances = tdi_instance_count(bucket->file),
        .unlisted = tdi_instance_unlisted(bucket->file),
        .waiting = line.waiting,
        .oldest_wait_ns = line.oldest_wait_us * TDI_NS_PER_US,
    };
    return 0;
}

uint64_t tundish_now_ns(void)
{
    return tdi_clock_now_ns();
}
