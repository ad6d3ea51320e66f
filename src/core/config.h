/* SPDX-License-Identifier: MIT */
/*
 * The live configuration: records in the mapped file, one of them current. Reading costs a few loads and
 * never waits; changing is one claim, some stores and one compare-and-swap, and may be killed or stopped
 * anywhere.
 */
#ifndef TUNDISH_CORE_CONFIG_H
#define TUNDISH_CORE_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "core/lease.h"
#include "core/rate.h"
#include "shm/layout.h"

/* What belongs to the machine's clock rather than to the bucket; read once per handle. */
struct tdi_clock_base {
    int64_t shift_us; /* bucket time = boot time + shift */
    uint64_t boot_id[2];
};

/* Slow part of tdi_config_read: looks for the current record again, and again. */
void tdi_config_read_again(const struct tdi_layout *file, struct tdi_config *out);

static inline uint64_t tdi_config_field(const struct tdi_layout_record *record, enum tdi_layout_field field)
{
    return atomic_load_explicit(&record->field[field], memory_order_relaxed) >> TDI_FIELD_TAG_BITS;
}

/* The record that a word of the head says is in force. */
static inline const struct tdi_layout_record *tdi_config_record(const struct tdi_layout *file,
                                                                uint64_t current)
{
    return &file->record[current % TDI_LAYOUT_RECORDS];
}

/* Where 0 makes no sense: whoever asks for as much as there may be is to get somewhere. */
static inline void tdi_config_clamp(struct tdi_config *out)
{
    out->spoilt = out->interval_us == 0 || out->refill == 0 || out->capacity == 0;
    if (tdi_likely(!out->spoilt))
        return;
    out->interval_us += out->interval_us == 0;
    out->refill += out->refill == 0;
    out->capacity += out->capacity == 0;
}

/*
 * One attempt at a consistent copy; false if it was changing. In a spoilt file the numbers may be any but 0.
 * A record is not written while it is current, and no word of the head comes twice.
 */
static inline bool tdi_config_try_read(const struct tdi_layout *file, struct tdi_config *out)
{
    /* Pairs with the release in tdi_config_publish: the record's fields are seen with its number. */
    uint64_t current = atomic_load_explicit(&file->head.current, memory_order_acquire);
    const struct tdi_layout_record *record = tdi_config_record(file, current);
    uint64_t refill = tdi_config_field(record, TDI_FIELD_REFILL);
    out->interval_us = tdi_config_field(record, TDI_FIELD_INTERVAL_US);
    out->refill = (uint32_t)refill;
    out->flags = (uint32_t)(refill >> 32);
    out->capacity = (uint32_t)tdi_config_field(record, TDI_FIELD_CAPACITY) & TDI_WORD_TOKENS;
    tdi_config_clamp(out);
    bool stepped = out->flags & TUNDISH_STEPPED;
    out->units_per_interval = stepped ? 1 : out->refill;
    out->tokens_per_unit = stepped ? out->refill : 1;
    out->since_us = tdi_config_field(record, TDI_FIELD_SINCE_US);
    out->carry = tdi_config_field(record, TDI_FIELD_CARRY);
    out->rate_fraction = tdi_config_field(record, TDI_FIELD_RATE_FRACTION) << TDI_FIELD_TAG_BITS;
    out->rate_whole = tdi_config_field(record, TDI_FIELD_RATE_WHOLE);
    out->extra = (uint32_t)tdi_config_field(record, TDI_FIELD_EXTRA) & TDI_WORD_TOKENS;
    out->held_back = tdi_unlikely(tdi_lease_any(file)) ? tdi_lease_held_back(out->capacity) : 0;
    out->current = current;
    /* Keeps the loads above before the second look. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&file->head.current, memory_order_relaxed) == current;
}

/* A consistent copy. */
static inline void tdi_config_read(const struct tdi_layout *file, struct tdi_config *out)
{
    if (tdi_unlikely(!tdi_config_try_read(file, out)))
        tdi_config_read_again(file, out);
}

/* The head's word that it was read under. */
uint64_t tdi_config_read_base(const struct tdi_layout *file, struct tdi_clock_base *out);

/* Fills in what follows from the rest: the rate, and the extra for late waiters. */
void tdi_config_prepare(struct tdi_config *config);

/* 0, or -EINVAL if a capacity, refill, interval or flag is out of range; for options and for files alike. */
int tdi_config_check(uint64_t capacity, uint64_t refill, uint64_t interval_us, uint64_t flags);

/* Writes record 0 and the head of a file that nobody else sees yet. */
void tdi_config_init(struct tdi_layout *file, const struct tdi_config *config,
                     const struct tdi_clock_base *base);

/* Puts a new record in force if config->current still is what the head says: 0, or -EAGAIN. */
int tdi_config_publish(struct tdi_layout *file, const struct tdi_config *config,
                       const struct tdi_clock_base *base);

#endif
