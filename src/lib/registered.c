/* SPDX-License-Identifier: MIT */
/* See registered.h. */
#include "lib/registered.h"

#include <errno.h>
#include <string.h>

#include "core/handshake.h"
#include "core/lease.h"
#include "lib/handle.h"
#include "lib/lease.h"
#include "lib/repair.h"
#include "plat/clock.h"
#include "plat/proc.h"

#define RECORDS_MAX 256              /* taken out at a time */
#define REPAIR_NS (TDI_NS_PER_S / 4) /* between looks at whether other lessees live: some system calls each */
#define PATIENCE_NS TDI_NS_PER_S     /* with a thread in the middle of an operation */

static struct tdi_layout_account *account_of(const struct tundish *bucket)
{
    return atomic_load_explicit(&bucket->here->account, memory_order_relaxed);
}

/* What was counted since the handle was opened; a handle without a place counts for itself from 0. */
static void read_counts(struct tundish *bucket, struct tdi_stats *out)
{
    struct tdi_layout_account *account = account_of(bucket);
    memset(out, 0, sizeof *out);
    if (account == &bucket->here->own)
        tdi_stats_add_place(account, out);
    else if (account)
        tdi_stats_read_owner(account, bucket->here->instance.owner, out);
}

/* Stripes on which something was granted or refused since the last time. */
static uint32_t count_threads(struct tundish *bucket)
{
    struct tdi_layout_account *account = account_of(bucket);
    uint32_t threads = 0;
    for (uint32_t i = 0; account && i < TDI_LAYOUT_STRIPES; i++) {
        uint64_t operations = tdi_stats_stripe_operations(&account->stripe[i]);
        threads += operations != bucket->here->thread[i].operations;
        bucket->here->thread[i].operations = operations;
    }
    return threads;
}

static void fill_totals(const struct tdi_registered *handle, const struct tdi_stats *now,
                        struct tundish_sidecar_stats *out)
{
    struct tdi_layout_account *account = account_of(handle->bucket);
    out->size = sizeof *out;
    out->granted = tdi_stats_all(now, TDI_COUNT_GRANTED);
    out->refused = tdi_stats_all(now, TDI_COUNT_REFUSED);
    out->ended = tdi_stats_all(now, TDI_COUNT_ENDED);
    out->tokens = tdi_stats_all(now, TDI_COUNT_TOKENS);
    out->released = now->sum[TDI_SUM_RELEASED];
    out->waited_ns = now->sum[TDI_SUM_WAITED_NS] + now->sum[TDI_SUM_ENDED_NS];
    out->wait_p50_ns = tdi_stats_wait_quantile_ns(now->waits, 0.5);
    out->wait_p99_ns = tdi_stats_wait_quantile_ns(now->waits, 0.99);
    out->retries = now->sum[TDI_SUM_RETRIES];
    out->dropped = now->sum[TDI_SUM_DROPPED];
    out->observed = handle->observed;
    out->scans = handle->scans;
    out->switches = handle->switches;
    out->strategy = account ? tdi_handshake_strategy(account) : TUNDISH_DIRECT;
    out->generation = account ? tdi_handshake_generation(account) : 0;
    out->leased_tokens = tdi_lease_tokens(handle->bucket);
}

/* Looks at the counts; whether anything was done since the last time. */
static bool look(struct tdi_registered *handle)
{
    struct tdi_stats now, span;
    uint64_t now_ns = tdi_clock_now_ns();
    read_counts(handle->bucket, &now);
    span = now;
    tdi_stats_subtract(&span, &handle->before);
    handle->scans++;
    struct tundish_sidecar_stats *stats = &handle->stats;
    fill_totals(handle, &now, stats);
    stats->threads = count_threads(handle->bucket);
    stats->span_ns = now_ns - handle->before_ns;
    stats->span_granted = tdi_stats_all(&span, TDI_COUNT_GRANTED);
    stats->span_refused = tdi_stats_all(&span, TDI_COUNT_REFUSED);
    stats->span_retries = span.sum[TDI_SUM_RETRIES];
    handle->before = now;
    handle->before_ns = now_ns;
    return stats->span_granted + stats->span_refused + tdi_stats_all(&span, TDI_COUNT_ENDED) > 0;
}

static void put_in_force(struct tdi_registered *handle)
{
    if (handle->wanted == handle->stats.strategy)
        return;
    int error = tdi_lease_switch(handle->bucket, handle->wanted);
    if (error == 0 || error == -EAGAIN) { /* in force; what could not be taken back yet is tended */
        handle->switches++;
        memset(&handle->mood, 0, sizeof handle->mood);
    }
}

static void decide(struct tdi_registered *handle)
{
    int wanted = handle->policy.decide
                     ? handle->policy.decide(handle->bucket, &handle->stats, handle->policy.context)
                     : tdi_adapt_decide(&handle->stats, &handle->mood);
    if (wanted >= 0)
        handle->wanted = (uint32_t)wanted;
}

static void hand_over(struct tdi_registered *handle, const struct tdi_observation *records, size_t count)
{
    struct tundish_observation out[RECORDS_MAX];
    for (size_t i = 0; i < count; i++)
        out[i] = (struct tundish_observation){
            .at_ns = tdi_handle_ns(handle->bucket, records[i].at_us),
            .wait_ns = records[i].wait_ns,
            .tokens = records[i].tokens,
            .thread = records[i].thread,
            .kind = records[i].kind,
            .error = records[i].error,
        };
    handle->policy.observe(handle->bucket, out, count, handle->policy.context);
}

/*
 * Takes charge of the records, if any are wanted. Each time: another drainer may have been at it, or have taken us,
 * who were stopped, for dead.
 */
static int attend(struct tdi_registered *handle)
{
    handle->ours = false;
    const struct tdi_layout_account *account = account_of(handle->bucket);
    if (handle->policy.every == 0 || !account || account == &handle->bucket->here->own)
        return 0;
    int error = tdi_drainer_attend(handle->drainer, handle->bucket, handle->bucket->here->instance.index,
                                   handle->policy.every);
    handle->ours = error == 0;
    return error == -ENOSPC ? error : 0;
}

/* Takes the records out: how many. */
static size_t drain(struct tdi_registered *handle)
{
    struct tdi_observation records[RECORDS_MAX];
    uint32_t index = handle->bucket->here->instance.index;
    size_t count, all = 0;
    if (attend(handle) != 0 || !handle->ours)
        return 0;
    do {
        count = tdi_drainer_drain(handle->drainer, handle->bucket, index, records, RECORDS_MAX);
        if (count > 0 && handle->policy.observe)
            hand_over(handle, records, count);
        all += count;
    } while (count == RECORDS_MAX && all < TDI_LAYOUT_STRIPES * TDI_LAYOUT_OBSERVATIONS);
    handle->observed += all;
    return all;
}

void tdi_registered_scan(struct tdi_registered *handle, bool may_switch, struct tdi_registered_scan *out)
{
    size_t records = drain(handle);
    bool done = look(handle);
    /* Doing nothing speaks for going back; and what is wanted may have been impossible the last time. */
    bool asks = done || (handle->stats.strategy != TUNDISH_DIRECT && !handle->policy.decide);
    if (asks)
        decide(handle);
    if (may_switch)
        put_in_force(handle);
    out->records += records;
    out->busy |= done || records > 0;
    out->leased |= tdi_lease_tend(handle->bucket);
    if (tdi_lease_any(handle->bucket->file) && handle->before_ns >= handle->repair_ns) {
        tdi_repair_lessees(handle->bucket, &handle->drainer->self);
        handle->repair_ns = handle->before_ns + REPAIR_NS;
    }
}

int tdi_registered_begin(struct tdi_registered *handle, struct tundish *bucket,
                         const struct tundish_sidecar_policy *policy, const struct tdi_drainer *drainer)
{
    tdi_handle_enter(bucket);
    *handle = (struct tdi_registered){.bucket = bucket, .drainer = drainer, .before_ns = tdi_clock_now_ns()};
    if (policy)
        handle->policy = *policy;
    read_counts(bucket, &handle->before);
    (void)count_threads(bucket);
    return attend(handle);
}

void tdi_registered_stats(const struct tdi_registered *handle, struct tundish_sidecar_stats *out)
{
    struct tdi_stats now;
    *out = handle->stats;
    read_counts(handle->bucket, &now);
    fill_totals(handle, &now, out);
}

/* Operations take nanoseconds; one that a signal handler jumped out of never ends, and its lease is lost. */
void tdi_registered_return_leases(struct tdi_registered *handle, uint64_t until_ns)
{
    while (tdi_lease_switch(handle->bucket, TUNDISH_DIRECT) == -EAGAIN && tdi_clock_now_ns() < until_ns)
        tdi_proc_yield();
}

void tdi_registered_end(struct tdi_registered *handle)
{
    tdi_registered_return_leases(handle, tdi_clock_now_ns() + PATIENCE_NS);
    if (handle->ours) {
        drain(handle);
        tdi_drainer_leave(handle->drainer, handle->bucket, handle->bucket->here->instance.index);
    }
}
