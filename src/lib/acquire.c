/* SPDX-License-Identifier: MIT */
/* Taking tokens: now, or by standing in line. */
#include <errno.h>

#include "core/bucket.h"
#include "lib/handle.h"
#include "lib/line.h"
#include "lib/repair.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/*
 * The rare cases. The contended finish too: each loss means that somebody else was served. Who is refused
 * because of those in line makes sure that they live.
 */
static int try_again(struct tundish *bucket, uint32_t n, int error)
{
    while (error == -EBUSY || (error == -EAGAIN && tdi_repair_line(bucket))) {
        if (error == -EBUSY)
            tdi_proc_yield();
        error = tdi_bucket_try(bucket->file, tdi_handle_now_us(bucket), n);
    }
    return error;
}

int tundish_try_acquire(struct tundish *bucket, uint32_t n)
{
    if (tdi_unlikely(n == 0))
        return 0;
    tdi_handle_enter(bucket);
    int error = tdi_bucket_try(bucket->file, tdi_handle_now_us(bucket), n);
    if (tdi_unlikely(error == -EBUSY || (error == -EAGAIN && tdi_queue_may_be_waiting(bucket->file))))
        return try_again(bucket, n, error);
    return error;
}

int tundish_acquire_until(struct tundish *bucket, uint32_t n, uint64_t deadline_ns)
{
    struct tdi_line line;
    int error = tundish_try_acquire(bucket, n);
    if (error == 0)
        return 0;
    tdi_line_begin(&line, bucket, n, false);
    do
        error = tdi_line_wait(&line, deadline_ns);
    while (error == -EINTR);
    return error;
}

int tundish_acquire(struct tundish *bucket, uint32_t n)
{
    return tundish_acquire_until(bucket, n, TUNDISH_NO_DEADLINE);
}

int tundish_acquire_for(struct tundish *bucket, uint32_t n, uint64_t timeout_ns)
{
    if (tundish_try_acquire(bucket, n) == 0)
        return 0;
    return tundish_acquire_until(bucket, n, add_saturating(tdi_clock_now_ns(), timeout_ns));
}
