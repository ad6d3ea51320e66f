/* SPDX-License-Identifier: MIT */
/* The packed word read and written, for those who take tokens: bucket and queue. */
#ifndef TUNDISH_CORE_WORD_H
#define TUNDISH_CORE_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/rate.h"
#include "shm/layout.h"

/* The longest step of the stamp: who finds the time further ahead of the hint climbs in steps of this. */
#define TDI_WORD_STEP_US (UINT64_C(1) << 30)

struct tdi_word {
    uint64_t bits;
    uint64_t hint_us;
    uint64_t last_us;
};

static inline uint64_t tdi_word_load(const struct tdi_layout *file)
{
    /* Pairs with the release in tdi_word_swap: the second look sees what the writer had seen of the hint. */
    return atomic_load_explicit(&file->word, memory_order_acquire);
}

static inline bool tdi_word_swap(struct tdi_layout *file, uint64_t *expected, uint64_t desired)
{
    /* Release pairs with the acquire in tdi_word_load; acquire orders the caller's work after its tokens.
       seq_cst since who gives tokens back then reads the requests, as who leaves does: see slots.h. */
    return atomic_compare_exchange_strong_explicit(&file->word, expected, desired, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

static inline struct tdi_word tdi_word_look(const struct tdi_layout *file)
{
    struct tdi_word seen;
    /* Pairs with the release in climb: who sees a hint sees the word that was settled before it. */
    uint64_t hint = atomic_load_explicit(&file->head.hint_us, memory_order_acquire);
    for (;;) {
        /* seq_cst: a waiter reads it after storing "awake", see slots.h; acquire would do for the hint. */
        seen.bits = atomic_load(&file->word);
        seen.hint_us = atomic_load_explicit(&file->head.hint_us, memory_order_acquire);
        if (tdi_likely(seen.hint_us == hint))
            break;
        hint = seen.hint_us;
    }
    int32_t ahead = (int32_t)((uint32_t)(seen.bits >> 32) - (uint32_t)hint);
    uint64_t behind = (uint64_t)(-(int64_t)ahead);
    seen.last_us = ahead >= 0 || hint >= behind ? hint + (uint64_t)(int64_t)ahead : 0;
    return seen;
}

static inline uint64_t tdi_word_pack(uint64_t at_us, uint64_t queued, uint32_t tokens)
{
    return at_us << 32 | queued | tokens;
}

static inline uint64_t tdi_word_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Tokens at the time now_us, or at the stamp if that is later. What is there stays; up to what is held back. */
static inline uint32_t tdi_word_refilled(const struct tdi_word *seen, const struct tdi_config *config,
                                         uint64_t now_us)
{
    uint32_t limit = config->capacity + (seen->bits & TDI_WORD_QUEUED ? config->extra : 0);
    uint32_t tokens = (uint32_t)(seen->bits & TDI_WORD_TOKENS);
    tokens = tokens < limit ? tokens : limit;
    limit -= config->held_back;
    if (tokens >= limit)
        return tokens;
    uint64_t due = tdi_rate_due(config, seen->last_us, now_us);
    return due < limit - tokens ? tokens + (uint32_t)due : limit;
}

static inline bool tdi_word_is_far(const struct tdi_word *seen, uint64_t now_us)
{
    return now_us > seen->hint_us && now_us - seen->hint_us > TDI_WORD_STEP_US;
}

/* Brings the hint near enough to now_us. */
void tdi_word_climb(struct tdi_layout *file, uint64_t now_us);

#endif
