/* SPDX-License-Identifier: MIT */
/*
 * One compare-and-swap publishes tokens and time together, so there is nothing to repair after a crash.
 *
 * The word holds the low 32 bits of its time; the hint beside it widens them. At every instant
 * |stamp - hint| < 2^31 us: nobody moves the stamp further than 2^30 us past the hint, and who comes later
 * than that climbs first, a step being: settle the word at hint + 2^30, then move the hint there. A crash
 * between the two leaves the stamp one step ahead of the hint, well within bounds.
 *
 * The order of reading is: time (the caller), hint, word, hint again, configuration. A word that is still
 * there at the compare-and-swap was there all the while, so what was read with it belongs together; a refusal
 * has no compare-and-swap and looks at the word once more instead.
 */
#include "core/bucket.h"

#include <errno.h>
#include <stdbool.h>
#include <tundish/tundish.h>

#include "core/slots.h"
#include "core/usual.h"
#include "core/word.h"
#include "plat/crash.h"

/*
 * Whoever loses the word pauses for so long that the winner does some dozen operations with its line in hand:
 * two at once then cost a third of what they do when they fight for the line each time.
 */
#define PAUSES 48
#define PAUSES_MAX 192

void tdi_word_climb(struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_word seen = tdi_word_look(file);
    struct tdi_config config;
    for (; tdi_word_is_far(&seen, now_us); seen = tdi_word_look(file)) {
        uint64_t target_us = seen.hint_us + TDI_WORD_STEP_US;
        tdi_config_read(file, &config);
        uint64_t queued = seen.bits & TDI_WORD_QUEUED;
        uint64_t settled = tdi_word_pack(target_us, queued, tdi_word_refilled(&seen, &config, target_us));
        if (seen.last_us < target_us && !tdi_word_swap(file, &seen.bits, settled))
            continue;
        tdi_crash_here(TDI_CRASH_CLIMBED);
        /* Release pairs with the acquires in look: the settled word is seen before the new hint. */
        atomic_compare_exchange_strong_explicit(&file->head.hint_us, &seen.hint_us, target_us,
                                                memory_order_acq_rel, memory_order_relaxed);
    }
}

static void pause_after(int losses)
{
    int pauses = PAUSES * (losses + 1);
    for (int i = 0; i < pauses && i < PAUSES_MAX; i++)
        tdi_atom_pause();
}

/*
 * What those in line need before a newcomer, nothing where newcomers may pass. If nobody is in line after
 * all, Q is taken out of the word as seen: an idle bucket holds its capacity and no more, and the next swap
 * clears Q.
 */
static uint64_t reserved(const struct tdi_layout *file, const struct tdi_config *config, uint64_t now_us,
                         struct tdi_word *seen)
{
    struct tdi_queue_scan scan;
    tdi_slots_scan(file, 0, now_us, &scan);
    if (!scan.others)
        seen->bits &= ~TDI_WORD_QUEUED;
    return config->flags & TUNDISH_UNFAIR ? 0 : scan.ahead;
}

/*
 * Takes between `least` and `most` tokens; the word was lost so often if they are granted. The word is loaded
 * before the line is looked at, see queue.c.
 */
static int take(struct tdi_layout *file, uint64_t now_us, uint32_t least, uint32_t most, uint32_t *taken)
{
    struct tdi_config config;
    int losses = 0;
    for (int tries = 0; tries < TDI_BUCKET_TRIES; tries++) {
        struct tdi_word seen = tdi_word_look(file);
        tdi_config_read(file, &config);
        if (least > config.capacity)
            return -E2BIG;
        uint64_t found = seen.bits;
        uint64_t ahead = found & TDI_WORD_QUEUED ? reserved(file, &config, now_us, &seen) : 0;
        uint32_t tokens = tdi_word_refilled(&seen, &config, now_us);
        if (tokens < ahead + least) {
            if (tdi_word_load(file) == found)
                return -EAGAIN;
            continue;
        }
        if (tdi_word_is_far(&seen, now_us)) {
            tdi_word_climb(file, now_us);
            continue;
        }
        uint32_t spare = tokens - (uint32_t)ahead;
        uint32_t taking = spare < most ? spare : most;
        uint64_t at_us = tdi_word_later(seen.last_us, now_us);
        uint64_t left = tdi_word_pack(at_us, seen.bits & TDI_WORD_QUEUED, tokens - taking);
        if (tdi_word_swap(file, &found, left)) {
            *taken = taking;
            return losses;
        }
        pause_after(losses++);
    }
    return -EBUSY;
}

void tdi_bucket_init(struct tdi_layout *file, uint32_t tokens)
{
    atomic_init(&file->head.hint_us, 0);
    atomic_init(&file->word, tdi_word_pack(0, 0, tokens));
}

int tdi_bucket_try_after_loss(struct tdi_layout *file, uint64_t now_us, uint32_t n)
{
    uint32_t taken;
    pause_after(0);
    int error = take(file, now_us, n, n, &taken);
    return error < 0 ? error : error + 1;
}

int tdi_bucket_try(struct tdi_layout *file, uint64_t now_us, uint32_t n)
{
    uint32_t taken;
    int error = tdi_usual_take(file, now_us, n);
    if (tdi_likely(error <= 0 && error != -EBUSY))
        return error;
    return error == TDI_USUAL_LOST ? tdi_bucket_try_after_loss(file, now_us, n)
                                   : take(file, now_us, n, n, &taken);
}

/* Where tokens are plenty, and nobody waits for them. */
int tdi_bucket_lease(struct tdi_layout *file, uint64_t now_us, uint32_t n)
{
    struct tdi_usual seen;
    if (!tdi_usual_look(file, now_us, &seen) || n > tdi_lease_share(seen.capacity) ||
        seen.tokens < seen.capacity / 4 + n)
        return -EAGAIN;
    uint64_t left = tdi_word_pack(now_us, 0, seen.tokens - n);
    return tdi_word_swap(file, &seen.bits, left) ? 0 : -EAGAIN;
}

int tdi_bucket_try_some(struct tdi_layout *file, uint64_t now_us, uint32_t n, uint32_t *taken)
{
    int error = take(file, now_us, 1, n, taken);
    return error < 0 ? error : 0;
}

static uint32_t add_up_to(uint32_t limit, uint32_t tokens, uint32_t n)
{
    if (tokens >= limit)
        return tokens;
    return n < limit - tokens ? tokens + n : limit;
}

/* Where tokens come from that are added. */
enum origin {
    FROM_OUTSIDE,
    FROM_LEASE, /* they have been counted against the capacity all the while */
};

/* Counts what is due at now_us and adds n tokens; returns the time the word is settled at. */
static uint64_t settle(struct tdi_layout *file, uint64_t now_us, uint32_t n, enum origin origin,
                       struct tdi_config *config)
{
    for (int losses = 0;; losses++) {
        tdi_word_climb(file, now_us);
        struct tdi_word seen = tdi_word_look(file);
        tdi_config_read(file, config);
        if (tdi_word_is_far(&seen, now_us))
            continue;
        uint64_t at_us = tdi_word_later(seen.last_us, now_us);
        uint32_t limit = config->capacity - (origin == FROM_LEASE ? 0 : config->held_back);
        uint32_t tokens = add_up_to(limit, tdi_word_refilled(&seen, config, now_us), n);
        if (tdi_word_swap(file, &seen.bits, tdi_word_pack(at_us, seen.bits & TDI_WORD_QUEUED, tokens)))
            return at_us;
        pause_after(losses);
    }
}

void tdi_bucket_refund(struct tdi_layout *file, uint64_t now_us, uint32_t n)
{
    struct tdi_config config;
    if (n > 0)
        settle(file, now_us, n, FROM_OUTSIDE, &config);
}

void tdi_bucket_end_lease(struct tdi_layout *file, uint64_t now_us, uint32_t n)
{
    struct tdi_config config;
    if (n > 0)
        settle(file, now_us, n, FROM_LEASE, &config);
}

void tdi_bucket_count(struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_config config;
    settle(file, now_us, 0, FROM_OUTSIDE, &config);
}

void tdi_bucket_reset(struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_config config;
    settle(file, now_us, UINT32_MAX, FROM_OUTSIDE, &config);
}

static uint32_t available(const struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_config config;
    uint64_t ahead, found;
    uint32_t tokens;
    int tries = 0;
    do {
        struct tdi_word seen = tdi_word_look(file);
        tdi_config_read(file, &config);
        found = seen.bits;
        ahead = found & TDI_WORD_QUEUED ? reserved(file, &config, now_us, &seen) : 0;
        tokens = tdi_word_refilled(&seen, &config, now_us);
    } while (tdi_word_load(file) != found && ++tries < TDI_BUCKET_TRIES);
    uint64_t spare = tokens > ahead ? tokens - ahead : 0;
    return spare < config.capacity ? (uint32_t)spare : config.capacity;
}

uint32_t tdi_bucket_available(const struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_usual seen;
    return tdi_likely(tdi_usual_look(file, now_us, &seen)) ? seen.tokens : available(file, now_us);
}

uint64_t tdi_bucket_when(const struct tdi_layout *file, uint64_t now_us, uint32_t n)
{
    struct tdi_word seen = tdi_word_look(file);
    struct tdi_config config;
    tdi_config_read(file, &config);
    uint64_t ahead = seen.bits & TDI_WORD_QUEUED ? reserved(file, &config, now_us, &seen) : 0;
    uint64_t wanted = n + ahead;
    uint32_t tokens = tdi_word_refilled(&seen, &config, now_us);
    if (wanted <= tokens)
        return now_us;
    return tdi_rate_when(&config, tdi_word_later(seen.last_us, now_us), wanted - tokens);
}

uint64_t tdi_bucket_stamp(const struct tdi_layout *file)
{
    return tdi_word_look(file).last_us;
}

void tdi_bucket_begin_change(struct tdi_layout *file, uint64_t now_us, const struct tdi_config *want,
                             struct tdi_change *out)
{
    struct tdi_config current;
    out->at_us = settle(file, now_us, 0, FROM_OUTSIDE, &current);
    out->next = *want;
    out->next.current = current.current;
    bool same = tdi_rate_is_same(&current, want);
    out->next.since_us = same ? current.since_us : out->at_us;
    out->next.carry = same ? current.carry : tdi_rate_carry_over(&current, out->at_us, want);
    tdi_config_prepare(&out->next);
    tdi_config_read_base(file, &out->base);
}

int tdi_bucket_end_change(struct tdi_layout *file, uint64_t now_us, const struct tdi_change *change)
{
    /* What falls due between the two steps may be had at either rate, and at both where somebody acquires in
       between: so they must not be far apart. A stop within the publishing itself cannot be told. */
    if (now_us > change->at_us && now_us - change->at_us > TDI_RATE_CHANGE_US)
        return -EAGAIN;
    return tdi_config_publish(file, &change->next, &change->base);
}

int tdi_bucket_rebase(struct tdi_layout *file, uint64_t current, const struct tdi_clock_base *base)
{
    struct tdi_config config;
    tdi_config_read(file, &config);
    return config.current == current ? tdi_config_publish(file, &config, base) : -EAGAIN;
}
