/* SPDX-License-Identifier: MIT */
/*
 * tundish_try_acquire as it would be if nothing were observed and there were one strategy: no counts, no
 * records, no probes, no leases. A library of its own, called as the real one is; with a copy of the rooms
 * inside that nobody else sees. Also what the bench needs of the rooms where there is no public function.
 */
#include <errno.h>

#include "core/bucket.h"
#include "core/usual.h"
#include "lib/handle.h"
#include "observe.h"
#include "plat/proc.h"

TDI_APART static int try_again(struct tundish *bucket, uint32_t n, int error)
{
    while (error == TDI_USUAL_LOST || error == -EBUSY) {
        if (error == TDI_USUAL_LOST) {
            error = tdi_bucket_try_after_loss(bucket->file, tdi_handle_now_us(bucket), n);
        } else {
            tdi_proc_yield();
            error = tdi_bucket_try(bucket->file, tdi_handle_now_us(bucket), n);
        }
        if (error > 0)
            return 0;
    }
    return error;
}

/* On a line of its own, as the loader may or may not put the real one. */
__attribute__((aligned(TDI_LINE_SIZE))) int bare_acquire(struct tundish *bucket, uint32_t n)
{
    if (tdi_unlikely(n == 0))
        return 0;
    /* A forked child has to be told apart, observed or not. Here it is no more than a mistake of the bench. */
    if (tdi_unlikely(atomic_load_explicit(&bucket->here->number, memory_order_relaxed) == 0))
        return -ESTALE;
    uint64_t now_ns;
    int error = -EBUSY;
    if (tdi_likely(tdi_clock_try_now(&now_ns)))
        error = tdi_usual_take(bucket->file, tdi_handle_us(bucket, now_ns), n);
    if (tdi_likely(error == 0))
        return 0;
    return tdi_likely(error == -EAGAIN) ? error : try_again(bucket, n, error);
}

int bare_attend(struct tdi_drainer *drainer, struct tundish *bucket, uint32_t every)
{
    tdi_drainer_init(drainer);
    return tdi_drainer_attend(drainer, bucket, bucket->here->instance.index, every);
}

size_t bare_drain(const struct tdi_drainer *drainer, struct tundish *bucket)
{
    struct tdi_observation records[TDI_LAYOUT_OBSERVATIONS];
    return tdi_drainer_drain(drainer, bucket, bucket->here->instance.index, records, TDI_LAYOUT_OBSERVATIONS);
}

void bare_leave(const struct tdi_drainer *drainer, struct tundish *bucket)
{
    tdi_drainer_leave(drainer, bucket, bucket->here->instance.index);
}
