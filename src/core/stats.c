/* SPDX-License-Identifier: MIT */
/* See stats.h. Reading is adding up: words that move meanwhile are counted now or the next time. */
#include "core/stats.h"

#include <string.h>

#define CLASSES_PER_OCTAVE 4
#define NS_PER_US UINT64_C(1000)

/*
 * With t in us, class 0 is below 1, and for t >= 1 the octave is t's highest bit and the quarter the two bits
 * after it. Octaves below 4 us have no such bits: their quarters are of fractions of a microsecond.
 */
uint32_t tdi_stats_wait_class(uint64_t waited_ns)
{
    if (waited_ns < NS_PER_US)
        return 0;
    uint64_t quarters = waited_ns / (NS_PER_US / CLASSES_PER_OCTAVE); /* of a microsecond, >= 4 */
    uint32_t octave = (uint32_t)(63 - __builtin_clzll(quarters)) - 2;
    uint32_t class = 1 + octave * CLASSES_PER_OCTAVE + (uint32_t)(quarters >> octave & 3);
    return class < TDI_LAYOUT_WAITS ? class : TDI_LAYOUT_WAITS - 1;
}

uint64_t tdi_stats_wait_from_ns(uint32_t class)
{
    if (class == 0)
        return 0;
    if (class >= TDI_LAYOUT_WAITS)
        return UINT64_MAX;
    uint32_t octave = (class - 1) / CLASSES_PER_OCTAVE;
    uint64_t quarter = CLASSES_PER_OCTAVE + (class - 1) % CLASSES_PER_OCTAVE;
    return (quarter << octave) * (NS_PER_US / CLASSES_PER_OCTAVE);
}

uint64_t tdi_stats_wait_quantile_ns(const uint64_t waits[TDI_LAYOUT_WAITS], double share)
{
    uint64_t all = 0, seen = 0;
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
        all += waits[i];
    if (all == 0)
        return 0;
    double exact = share * (double)all;
    uint64_t rank = exact < (double)all ? (uint64_t)exact : all;
    rank -= rank > 0 && (double)rank >= exact; /* so many waits, the first of which is number 0 */
    rank = rank < all ? rank : all - 1;
    uint32_t class = 0;
    while (class < TDI_LAYOUT_WAITS - 1 && (seen += waits[class]) <= rank)
        class ++;
    return tdi_stats_wait_from_ns(class + 1);
}

static void add_shared(_Atomic(uint64_t) *word, uint64_t n)
{
    atomic_fetch_add_explicit(word, n, memory_order_relaxed);
}

void tdi_stats_grant_shared(struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind, uint32_t n)
{
    add_shared(&stripe->tally.count[kind][TDI_COUNT_GRANTED], 1);
    add_shared(&stripe->tally.count[kind][TDI_COUNT_TOKENS], n);
}

void tdi_stats_count_shared(struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind,
                            enum tdi_layout_count what)
{
    add_shared(&stripe->tally.count[kind][what], 1);
}

void tdi_stats_sum_shared(struct tdi_layout_stripe *stripe, enum tdi_layout_sum sum, uint64_t n)
{
    add_shared(&stripe->tally.sum[sum], n);
}

void tdi_stats_note_wait(struct tdi_layout_account *account, uint64_t waited_ns)
{
    add_shared(&account->waits[tdi_stats_wait_class(waited_ns)], 1);
}

static uint64_t load(const _Atomic(uint64_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void add_tally(const struct tdi_layout_tally *tally, struct tdi_stats *out)
{
    for (uint32_t kind = 0; kind < TDI_KINDS; kind++)
        for (uint32_t i = 0; i < TDI_COUNTS; i++)
            out->count[kind][i] += load(&tally->count[kind][i]);
    for (uint32_t i = 0; i < TDI_SUMS; i++)
        out->sum[i] += load(&tally->sum[i]);
}

void tdi_stats_add_place(const struct tdi_layout_account *account, struct tdi_stats *out)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++) {
        add_tally(&account->stripe[i].tally, out);
        out->taken += load(&account->taken[i]); /* before what was put in: never more */
        out->pushed += load(&account->stripe[i].pushed);
    }
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
        out->waits[i] += load(&account->waits[i]);
}

void tdi_stats_begin(struct tdi_layout_account *account, uint64_t owner)
{
    struct tdi_stats stats;
    memset(&stats, 0, sizeof stats);
    /* Nobody's until it is written. The fence pairs with the one in tdi_stats_read_owner. */
    atomic_store_explicit(&account->base_owner, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    tdi_stats_add_place(account, &stats);
    for (uint32_t kind = 0; kind < TDI_KINDS; kind++)
        for (uint32_t i = 0; i < TDI_COUNTS; i++)
            atomic_store_explicit(&account->base.count[kind][i], stats.count[kind][i], memory_order_relaxed);
    for (uint32_t i = 0; i < TDI_SUMS; i++)
        atomic_store_explicit(&account->base.sum[i], stats.sum[i], memory_order_relaxed);
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
        atomic_store_explicit(&account->base_waits[i], stats.waits[i], memory_order_relaxed);
    /* Pairs with the acquire in tdi_stats_read_owner: the signature comes after what it signs. */
    atomic_store_explicit(&account->base_owner, owner, memory_order_release);
}

void tdi_stats_subtract(struct tdi_stats *from, const struct tdi_stats *earlier)
{
    for (uint32_t kind = 0; kind < TDI_KINDS; kind++)
        for (uint32_t i = 0; i < TDI_COUNTS; i++)
            from->count[kind][i] -= earlier->count[kind][i];
    for (uint32_t i = 0; i < TDI_SUMS; i++)
        from->sum[i] -= earlier->sum[i];
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
        from->waits[i] -= earlier->waits[i];
}

bool tdi_stats_read_owner(const struct tdi_layout_account *account, uint64_t owner, struct tdi_stats *out)
{
    struct tdi_stats base;
    memset(&base, 0, sizeof base);
    memset(out, 0, sizeof *out);
    /* Pairs with the release in tdi_stats_begin. */
    if (owner == 0 || atomic_load_explicit(&account->base_owner, memory_order_acquire) != owner)
        return false;
    add_tally(&account->base, &base);
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
        base.waits[i] = load(&account->base_waits[i]);
    tdi_stats_add_place(account, out);
    /* Keeps the loads above before the second look: a later owner's base is not taken for this one's. */
    atomic_thread_fence(memory_order_acquire);
    if (load(&account->base_owner) != owner) {
        memset(out, 0, sizeof *out);
        return false;
    }
    tdi_stats_subtract(out, &base);
    return true;
}

uint64_t tdi_stats_stripe_operations(const struct tdi_layout_stripe *stripe)
{
    uint64_t all = 0;
    for (uint32_t kind = 0; kind < TDI_KINDS; kind++)
        for (uint32_t i = 0; i < TDI_COUNTS; i++)
            all += i == TDI_COUNT_TOKENS ? 0 : load(&stripe->tally.count[kind][i]);
    return all;
}

uint64_t tdi_stats_all(const struct tdi_stats *stats, enum tdi_layout_count what)
{
    uint64_t all = 0;
    for (uint32_t kind = 0; kind < TDI_KINDS; kind++)
        all += stats->count[kind][what];
    return all;
}
