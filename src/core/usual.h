/* SPDX-License-Identifier: MIT */
/*
 * Most acquires, in a few dozen instructions to be put where they are needed: nobody is in line, the
 * configuration is steady and the last acquire was not long ago. Everything else is core/bucket's, in the same
 * steps.
 */
#ifndef TUNDISH_CORE_USUAL_H
#define TUNDISH_CORE_USUAL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/word.h"

#define TDI_USUAL_LOST 1 /* somebody else was quicker */

/* The usual case: nobody waits, nothing is changing, the refill is steady and the last one not long ago. */
struct tdi_usual {
    uint64_t bits;
    uint32_t tokens;
    uint32_t capacity;
};

/*
 * Sees the usual case, in registers; false for everything else, which goes the long way by the same steps in
 * the same order: hint, word, hint again, configuration.
 */
TDI_INLINE bool tdi_usual_look(const struct tdi_layout *file, uint64_t now_us, struct tdi_usual *out)
{
    struct tdi_config config;
    uint64_t hint_us = atomic_load_explicit(&file->head.hint_us, memory_order_acquire);
    uint64_t bits = tdi_word_load(file);
    if (tdi_unlikely(atomic_load_explicit(&file->head.hint_us, memory_order_relaxed) != hint_us))
        return false;
    if (tdi_unlikely(!tdi_config_try_read(file, &config)))
        return false;
    uint64_t last_us = hint_us + (uint64_t)(int64_t)(int32_t)((uint32_t)(bits >> 32) - (uint32_t)hint_us);
    uint32_t tokens = (uint32_t)bits; /* with Q it is more than any capacity */
    if (tdi_unlikely(now_us - last_us > TDI_WORD_STEP_US || now_us - hint_us > TDI_WORD_STEP_US ||
                     tokens > config.capacity || config.tokens_per_unit != 1))
        return false;
    if (now_us != last_us) { /* within a microsecond nothing falls due */
        uint64_t due = tdi_rate_units_in(&config, last_us, now_us - last_us);
        uint32_t limit = config.capacity - config.held_back;
        uint32_t room = tokens < limit ? limit - tokens : 0;
        tokens += due < room ? (uint32_t)due : room;
    }
    *out = (struct tdi_usual){bits, tokens, config.capacity};
    return true;
}

/* 0 or -EAGAIN, TDI_USUAL_LOST, or -EBUSY for everything unusual; nobody waited if it is one of the first two. */
TDI_INLINE int tdi_usual_take(struct tdi_layout *file, uint64_t now_us, uint32_t n)
{
    struct tdi_usual seen;
    if (tdi_unlikely(!tdi_usual_look(file, now_us, &seen) || n > seen.capacity))
        return -EBUSY;
    if (seen.tokens < n)
        return tdi_likely(tdi_word_load(file) == seen.bits) ? -EAGAIN : TDI_USUAL_LOST;
    uint64_t left = tdi_word_pack(now_us, 0, seen.tokens - n);
    /* A copy: with its address taken `seen` would lie in memory, and the swap waits for stores. */
    uint64_t expected = seen.bits;
    return tdi_likely(tdi_word_swap(file, &expected, left)) ? 0 : TDI_USUAL_LOST;
}

#endif
