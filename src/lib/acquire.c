/* SPDX-License-Identifier: MIT */
/*
 * Taking tokens: now, or by standing in line. What comes of it is counted once, when it is known, and under the
 * name of the function that the caller used.
 */
#include "lib/acquire.h"

#include <errno.h>

#include "core/bucket.h"
#include "core/usual.h"
#include "lib/lease.h"
#include "lib/line.h"
#include "lib/post.h"
#include "lib/repair.h"
#include "plat/probe.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline int try_once(struct tundish *bucket, uint32_t n)
{
    return tdi_bucket_try(bucket->file, tdi_handle_now_us(bucket), n);
}

static inline bool is_settled(const struct tundish *bucket, int error)
{
    return error == 0 || (error == -EAGAIN && !tdi_queue_may_be_waiting(bucket->file));
}

static void count_retries(struct tundish *bucket, uint64_t retries)
{
    struct tdi_post post = tdi_post_here(bucket);
    tdi_post_sum(&post, TDI_SUM_RETRIES, retries);
}

/*
 * The rare cases. The contended finish too: each loss means that somebody else was served. Who is refused
 * because of those in line makes sure that they live.
 */
static int settle(struct tundish *bucket, uint32_t n, int error)
{
    uint64_t retries = 0;
    while (error == -EBUSY || (error == -EAGAIN && tdi_repair_line(bucket))) {
        if (error == -EBUSY) {
            retries += TDI_BUCKET_TRIES;
            tdi_proc_yield();
        }
        error = try_once(bucket, n);
    }
    retries += error > 0 ? (uint64_t)error : 0;
    if (retries > 0)
        count_retries(bucket, retries);
    return error > 0 ? 0 : error;
}

int tdi_acquire_draw(struct tundish *bucket, uint32_t n)
{
    int error = try_once(bucket, n);
    return tdi_likely(is_settled(bucket, error)) ? error : settle(bucket, n, error);
}

void tdi_acquire_count(struct tundish *bucket, enum tdi_layout_kind kind, uint32_t n, int error,
                       uint64_t began_ns)
{
    tdi_post_count(bucket, kind, n, error, began_ns);
    if (error == 0)
        tdi_probe_grant(bucket, n, kind);
    else
        tdi_probe_refusal(bucket, n, kind);
}

/*
 * The usual acquire in one piece, without a call: 0 and -EAGAIN are final; TDI_USUAL_LOST, and -EBUSY for
 * everything unusual, are try_otherwise's.
 */
TDI_INLINE int try_directly(struct tundish *bucket, uint32_t n)
{
    uint64_t now_ns;
    if (tdi_unlikely(!tdi_clock_try_now(&now_ns)))
        return -EBUSY;
    return tdi_usual_take(bucket->file, tdi_handle_us(bucket, now_ns), n);
}

/* Counts a grant that is no other's, in a few instructions too. */
TDI_INLINE int count_grant(struct tundish *bucket, struct tdi_layout_stripe *stripe, uint32_t n,
                           enum tdi_layout_kind kind)
{
    tdi_stats_grant(stripe, kind, n);
    tdi_probe_grant(bucket, n, kind);
    return tdi_likely(tdi_ring_every(stripe) == 0) ? 0 : tdi_post_record(bucket, kind, n, 0);
}

/* What is neither usual nor spent from a lease. Counts grants only. */
TDI_APART static int try_otherwise(struct tundish *bucket, uint32_t n, int error, enum tdi_layout_kind kind)
{
    tdi_handle_enter(bucket);
    if (tdi_lease_is_on(bucket))
        return tdi_lease_try(bucket, n, kind);
    error = error == TDI_USUAL_LOST ? tdi_bucket_try_after_loss(bucket->file, tdi_handle_now_us(bucket), n)
                                    : try_once(bucket, n);
    if (!is_settled(bucket, error))
        error = settle(bucket, n, error);
    if (error == 0)
        tdi_acquire_count(bucket, kind, n, 0, 0);
    return error;
}

int tdi_acquire_try(struct tundish *bucket, uint32_t n, enum tdi_layout_kind kind)
{
    struct tdi_post_note note = tdi_post_noted(bucket);
    if (tdi_unlikely(n == 0))
        return 0;
    int error = tdi_post_is_direct(bucket->here, &note)   ? try_directly(bucket, n)
                : tdi_lease_spend(bucket->here, &note, n) ? 0
                                                          : -EBUSY;
    if (tdi_likely(error == 0))
        return count_grant(bucket, note.stripe, n, kind);
    return error == -EAGAIN ? error : try_otherwise(bucket, n, error, kind);
}

TDI_APART static int try_and_count(struct tundish *bucket, uint32_t n, int error)
{
    error = try_otherwise(bucket, n, error, TDI_KIND_TRY);
    if (error != 0)
        tdi_acquire_count(bucket, TDI_KIND_TRY, n, error, 0);
    return error;
}

/* Not where the usual case is: it would cost that its registers. */
static __attribute__((noinline)) int try_leased(struct tundish *bucket, uint32_t n,
                                                struct tdi_layout_stripe *stripe,
                                                struct tdi_handle_thread *thread, uint64_t key)
{
    const struct tdi_post_note note = {.stripe = stripe, .thread = thread, .key = key};
    if (tdi_likely(tdi_lease_spend(bucket->here, &note, n)))
        return count_grant(bucket, note.stripe, n, TDI_KIND_TRY);
    return try_and_count(bucket, n, -EBUSY);
}

/* The usual case of an instance whose operations are recorded. Nor is this. */
static __attribute__((noinline)) int try_recorded(struct tundish *bucket, uint32_t n,
                                                  struct tdi_layout_stripe *stripe,
                                                  struct tdi_handle_thread *thread)
{
    uint64_t now_ns, now_us = 0;
    int error = -EBUSY;
    if (tdi_likely(tdi_clock_try_now(&now_ns))) {
        now_us = tdi_handle_us(bucket, now_ns);
        error = tdi_usual_take(bucket->file, now_us, n);
    }
    if (tdi_unlikely(error != 0 && error != -EAGAIN))
        return try_and_count(bucket, n, error);
    if (error == 0) {
        tdi_stats_grant(stripe, TDI_KIND_TRY, n);
        tdi_probe_grant(bucket, n, TDI_KIND_TRY);
    } else {
        tdi_stats_count(stripe, TDI_KIND_TRY, TDI_COUNT_REFUSED);
        tdi_probe_refusal(bucket, n, TDI_KIND_TRY);
    }
    if (tdi_post_is_due(stripe, thread))
        tdi_post_record_own(bucket, stripe, TDI_KIND_TRY, n, error, now_us);
    return error;
}

/*
 * Whether somebody records is asked first: a load behind the swap would wait for it, which can be measured. Who
 * begins or ends to record meanwhile misses one operation, or gets one more.
 */
int tundish_try_acquire(struct tundish *bucket, uint32_t n)
{
    struct tdi_post_note note = tdi_post_noted(bucket);
    if (tdi_unlikely(n == 0))
        return 0;
    if (tdi_unlikely(!tdi_post_is_direct(bucket->here, &note)))
        return try_leased(bucket, n, note.stripe, note.thread, note.key);
    if (tdi_unlikely(tdi_ring_every(note.stripe) != 0))
        return try_recorded(bucket, n, note.stripe, note.thread);
    int error = try_directly(bucket, n);
    if (tdi_likely(error == 0)) {
        tdi_stats_grant(note.stripe, TDI_KIND_TRY, n);
        tdi_probe_grant(bucket, n, TDI_KIND_TRY);
        return 0;
    }
    if (tdi_unlikely(error != -EAGAIN))
        return try_and_count(bucket, n, error);
    tdi_stats_count(note.stripe, TDI_KIND_TRY, TDI_COUNT_REFUSED);
    tdi_probe_refusal(bucket, n, TDI_KIND_TRY);
    return error;
}

void tdi_acquire_return(struct tundish *bucket, uint32_t n)
{
    uint64_t now_us = tdi_handle_now_us(bucket);
    struct tdi_queue_ring ring = {0, false};
    tdi_bucket_refund(bucket->file, now_us, n);
    /* There are more tokens now: whoever is first in line may be served earlier than it thought. */
    tdi_queue_ring_front(bucket->file, now_us, &ring);
    tdi_repair_wake(bucket, &ring);
}

void tundish_release(struct tundish *bucket, uint32_t n)
{
    struct tdi_post post = tdi_post_here(bucket);
    tdi_post_sum(&post, TDI_SUM_RELEASED, n);
    tdi_acquire_return(bucket, n);
}

int tundish_acquire_until(struct tundish *bucket, uint32_t n, uint64_t deadline_ns)
{
    struct tdi_line line;
    int error = tdi_acquire_try(bucket, n, TDI_KIND_ACQUIRE);
    if (error == 0)
        return 0;
    tdi_line_begin(&line, bucket, n, false, TDI_KIND_ACQUIRE);
    do
        error = tdi_line_wait(&line, deadline_ns);
    while (error == -EINTR);
    tdi_line_count(&line, error);
    return error;
}

int tundish_acquire(struct tundish *bucket, uint32_t n)
{
    return tundish_acquire_until(bucket, n, TUNDISH_NO_DEADLINE);
}

int tundish_acquire_for(struct tundish *bucket, uint32_t n, uint64_t timeout_ns)
{
    if (tdi_acquire_try(bucket, n, TDI_KIND_ACQUIRE) == 0)
        return 0;
    return tundish_acquire_until(bucket, n, add_saturating(tdi_clock_now_ns(), timeout_ns));
}
