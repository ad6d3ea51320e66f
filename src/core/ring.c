/* SPDX-License-Identifier: MIT */
/*
 * `pushed` is written by the writer only, `taken` by the drainer only; both go on for ever, and their
 * difference, clamped, is what is in the ring. A killed writer leaves a record that was not published, which
 * the next one overwrites. A killed drainer leaves records that the next one reads again.
 */
#include "core/ring.h"

/* Writes one record, if there is room. By the one writer. */
static bool write_record(struct tdi_layout_account *account, struct tdi_layout_rings *rings, uint32_t stripe,
                         const struct tdi_observation *observation)
{
    struct tdi_layout_stripe *own = &account->stripe[stripe];
    uint64_t pushed = atomic_load_explicit(&own->pushed, memory_order_relaxed);
    /* Pairs with the release in drain_stripe: the record there was read before its place is given away. */
    /* Acquire pairs with the release below, of a drainer that took over: what it saw pushed we see too. */
    uint64_t taken = atomic_load_explicit(&account->taken[stripe], memory_order_acquire);
    if (pushed - taken >= TDI_LAYOUT_OBSERVATIONS)
        return false;
    struct tdi_layout_observation *record = &rings->ring[stripe][pushed % TDI_LAYOUT_OBSERVATIONS];
    atomic_store_explicit(&record->at_us, observation->at_us, memory_order_relaxed);
    atomic_store_explicit(&record->wait_ns, observation->wait_ns, memory_order_relaxed);
    atomic_store_explicit(&record->tokens, observation->tokens, memory_order_relaxed);
    atomic_store_explicit(&record->thread, observation->thread, memory_order_relaxed);
    atomic_store_explicit(&record->what, (uint32_t)observation->kind << 16 | observation->error,
                          memory_order_relaxed);
    atomic_store_explicit(&record->process, observation->process, memory_order_relaxed);
    /* Pairs with the acquire in drain_stripe: the record is seen with its number. */
    atomic_store_explicit(&own->pushed, pushed + 1, memory_order_release);
    return true;
}

void tdi_ring_push(struct tdi_layout *file, uint32_t place, uint32_t stripe, _Atomic(uint32_t) *busy,
                   const struct tdi_observation *observation)
{
    struct tdi_layout_account *account = &file->account[place];
    bool written = false;
    if (stripe == TDI_STATS_SHARED)
        busy = &account->watch.writer;
    /* Of the last stripe's threads one writes at a time: acquire and release hand its words on. For the others
       it keeps out the signal handlers of the same thread, who need no order. */
    if (stripe == TDI_STATS_SHARED ? atomic_exchange_explicit(busy, 1, memory_order_acquire) == 0
                                   : atomic_load_explicit(busy, memory_order_relaxed) == 0) {
        atomic_store_explicit(busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        written = write_record(account, &file->rings[place], stripe, observation);
        atomic_store_explicit(busy, 0, memory_order_release);
    }
    if (written)
        return;
    if (stripe == TDI_STATS_SHARED)
        tdi_stats_sum_shared(&account->stripe[stripe], TDI_SUM_DROPPED, 1);
    else
        tdi_stats_sum(&account->stripe[stripe], TDI_SUM_DROPPED, 1);
}

uint64_t tdi_ring_drainer(const struct tdi_layout_account *account, uint64_t *seen_us)
{
    *seen_us = atomic_load_explicit(&account->watch.seen_us, memory_order_relaxed);
    /* Pairs with the release in tdi_ring_claim and tdi_ring_leave. */
    return atomic_load_explicit(&account->watch.drainer, memory_order_acquire);
}

bool tdi_ring_claim(struct tdi_layout_account *account, uint64_t former, uint64_t drainer, uint64_t now_us)
{
    /* Before the claim: nobody is to find an old time with the new name. Where the claim fails it makes
       the other one look livelier than it is, for a moment. */
    atomic_store_explicit(&account->watch.seen_us, now_us, memory_order_relaxed);
    /* Pairs with the acquire in tdi_ring_drainer. */
    return atomic_compare_exchange_strong_explicit(&account->watch.drainer, &former, drainer,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

static void read_record(const struct tdi_layout_observation *record, struct tdi_observation *out)
{
    uint32_t what = atomic_load_explicit(&record->what, memory_order_relaxed);
    *out = (struct tdi_observation){
        .at_us = atomic_load_explicit(&record->at_us, memory_order_relaxed),
        .wait_ns = atomic_load_explicit(&record->wait_ns, memory_order_relaxed),
        .tokens = atomic_load_explicit(&record->tokens, memory_order_relaxed),
        .thread = atomic_load_explicit(&record->thread, memory_order_relaxed),
        .process = atomic_load_explicit(&record->process, memory_order_relaxed),
        .kind = (uint16_t)((what >> 16) % TDI_KINDS),
        .error = (uint16_t)what,
    };
}

/* Records read from one ring; nothing if somebody else took them meanwhile. */
static size_t drain_stripe(struct tdi_layout_account *account, const struct tdi_layout_rings *rings,
                           uint32_t stripe, struct tdi_observation *out, size_t most)
{
    /* Acquire pairs with the release below, of a drainer that took over: what it saw pushed we see too. */
    uint64_t taken = atomic_load_explicit(&account->taken[stripe], memory_order_acquire);
    /* Pairs with the release in write_record. */
    uint64_t pushed = atomic_load_explicit(&account->stripe[stripe].pushed, memory_order_acquire);
    uint64_t count = pushed - taken;
    if (count > TDI_LAYOUT_OBSERVATIONS) { /* scribbled on: begin anew, unless another drainer took over */
        atomic_compare_exchange_strong_explicit(&account->taken[stripe], &taken, pushed, memory_order_relaxed,
                                                memory_order_relaxed);
        return 0;
    }
    count = count < most ? count : most;
    for (uint64_t i = 0; i < count; i++)
        read_record(&rings->ring[stripe][(taken + i) % TDI_LAYOUT_OBSERVATIONS], &out[i]);
    /* Pairs with the acquire in write_record. A swap: a drainer that was taken for dead reads nothing. */
    if (!atomic_compare_exchange_strong_explicit(&account->taken[stripe], &taken, taken + count,
                                                 memory_order_release, memory_order_relaxed))
        return 0;
    return (size_t)count;
}

size_t tdi_ring_drain(struct tdi_layout *file, uint32_t place, uint64_t drainer, uint64_t now_us,
                      struct tdi_observation *out, size_t most)
{
    struct tdi_layout_account *account = &file->account[place];
    size_t count = 0;
    if (atomic_load_explicit(&account->watch.drainer, memory_order_relaxed) != drainer)
        return 0;
    atomic_store_explicit(&account->watch.seen_us, now_us, memory_order_relaxed);
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++)
        count += drain_stripe(account, &file->rings[place], stripe, &out[count], most - count);
    return count;
}

void tdi_ring_arm(struct tdi_layout_account *account, uint32_t every)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        atomic_store_explicit(&account->stripe[i].every, every, memory_order_relaxed);
}

bool tdi_ring_is_armed(const struct tdi_layout_account *account, uint32_t every)
{
    bool all = true;
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        all &= tdi_ring_every(&account->stripe[i]) == every;
    return all;
}

void tdi_ring_leave(struct tdi_layout_account *account, uint64_t drainer)
{
    if (atomic_load_explicit(&account->watch.drainer, memory_order_relaxed) != drainer)
        return;
    tdi_ring_arm(account, 0);
    atomic_compare_exchange_strong_explicit(&account->watch.drainer, &drainer, 0, memory_order_release,
                                            memory_order_relaxed);
}

void tdi_ring_begin(struct tdi_layout_account *account, uint64_t now_us)
{
    uint64_t seen_us;
    bool drained = tdi_ring_drainer(account, &seen_us) != 0;
    if (!drained || (seen_us < now_us && now_us - seen_us > TDI_RING_SILENT_US))
        tdi_ring_arm(account, 0);
    atomic_store_explicit(&account->watch.writer, 0, memory_order_relaxed);
}
