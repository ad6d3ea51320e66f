/* SPDX-License-Identifier: MIT */
/*
 * Records are numbered, and the head's word names the one in force together with the number that was next
 * when this word was written: its era. A change takes the next number, writes its fields into the slot of
 * that number, and at last swaps the head's word of the era it began in for its own; all others of that era
 * fail from then on.
 *
 * Within an era only as many numbers are used as there are slots, so no two changes share one, and the slot
 * of the record in force is left out. Where killed changers have used up an era, the next one begins a new
 * era with the same record. A changer that was stopped in the middle may wake up in a later era: it looks at
 * the head before each field, and a field that others wrote meanwhile has another tag, so that its
 * compare-and-swap fails.
 */
#include "core/config.h"

#include <errno.h>
#include <tundish/tundish.h>

#define LATE_WAKING_US 10000 /* how late a waiter may wake without loss */
#define READ_TRIES 1000
#define VALUE_MASK ((UINT64_C(1) << TDI_FIELD_VALUE_BITS) - 1)
#define TAG_MASK ((UINT64_C(1) << TDI_FIELD_TAG_BITS) - 1)
#define KNOWN_FLAGS (TUNDISH_UNFAIR | TUNDISH_STEPPED | TUNDISH_STRICT | TUNDISH_BYTES)

void tdi_config_read_again(const struct tdi_layout *file, struct tdi_config *out)
{
    /* Only a spoilt file keeps changing, and then any copy will do. */
    for (int tries = 0; tries < READ_TRIES && !tdi_config_try_read(file, out); tries++)
        tdi_atom_pause();
}

uint64_t tdi_config_read_base(const struct tdi_layout *file, struct tdi_clock_base *out)
{
    uint64_t shift, a, b, c, current, again;
    int tries = 0;
    do {
        /* As in tdi_config_try_read. */
        current = atomic_load_explicit(&file->head.current, memory_order_acquire);
        const struct tdi_layout_record *record = tdi_config_record(file, current);
        shift = tdi_config_field(record, TDI_FIELD_SHIFT_US);
        a = tdi_config_field(record, TDI_FIELD_BOOT_A);
        b = tdi_config_field(record, TDI_FIELD_BOOT_B);
        c = tdi_config_field(record, TDI_FIELD_BOOT_C);
        atomic_thread_fence(memory_order_acquire);
        again = atomic_load_explicit(&file->head.current, memory_order_relaxed);
    } while (again != current && ++tries < READ_TRIES);
    const uint64_t sign = UINT64_C(1) << (TDI_FIELD_VALUE_BITS - 1);
    out->shift_us = (int64_t)((shift ^ sign) - sign);
    out->boot_id[0] = a << 12 | b >> 40;
    out->boot_id[1] = b << 24 | (c & 0xffffff);
    return current;
}

void tdi_config_prepare(struct tdi_config *config)
{
    tdi_rate_prepare(config);
    uint64_t late = tdi_rate_tokens_in(config, LATE_WAKING_US);
    if (config->flags & TUNDISH_STRICT)
        late = 0;
    config->extra = late > TUNDISH_CAPACITY_MAX ? TUNDISH_CAPACITY_MAX : (uint32_t)late;
}

int tdi_config_check(uint64_t capacity, uint64_t refill, uint64_t interval_us, uint64_t flags)
{
    if (capacity == 0 || capacity > TUNDISH_CAPACITY_MAX || refill == 0 || refill > UINT32_MAX)
        return -EINVAL;
    if (interval_us == 0 || interval_us > TUNDISH_INTERVAL_US_MAX || (flags & ~(uint64_t)KNOWN_FLAGS))
        return -EINVAL;
    struct tdi_config config = {.capacity = (uint32_t)capacity,
                                .refill = (uint32_t)refill,
                                .interval_us = interval_us,
                                .flags = (uint32_t)flags};
    tdi_config_prepare(&config);
    return (uint64_t)config.capacity + config.extra > TUNDISH_CAPACITY_MAX ? -EINVAL : 0;
}

static void encode(const struct tdi_config *config, const struct tdi_clock_base *base,
                   uint64_t value[TDI_FIELD_COUNT])
{
    for (int i = 0; i < TDI_FIELD_COUNT; i++)
        value[i] = 0;
    value[TDI_FIELD_INTERVAL_US] = config->interval_us;
    value[TDI_FIELD_REFILL] = (uint64_t)config->flags << 32 | config->refill;
    value[TDI_FIELD_CAPACITY] = config->capacity;
    value[TDI_FIELD_SINCE_US] = config->since_us;
    value[TDI_FIELD_CARRY] = config->carry;
    value[TDI_FIELD_RATE_FRACTION] = config->rate_fraction >> TDI_FIELD_TAG_BITS;
    value[TDI_FIELD_RATE_WHOLE] = config->rate_whole;
    value[TDI_FIELD_EXTRA] = config->extra;
    value[TDI_FIELD_SHIFT_US] = (uint64_t)base->shift_us & VALUE_MASK;
    value[TDI_FIELD_BOOT_A] = base->boot_id[0] >> 12;
    value[TDI_FIELD_BOOT_B] = (base->boot_id[0] & 0xfff) << 40 | base->boot_id[1] >> 24;
    value[TDI_FIELD_BOOT_C] = base->boot_id[1] & 0xffffff;
}

static uint64_t head_word(uint32_t number, uint32_t next)
{
    return (uint64_t)next << 32 | number;
}

void tdi_config_init(struct tdi_layout *file, const struct tdi_config *config,
                     const struct tdi_clock_base *base)
{
    uint64_t value[TDI_FIELD_COUNT];
    encode(config, base, value);
    for (int i = 0; i < TDI_FIELD_COUNT; i++)
        atomic_init(&file->record[0].field[i], value[i] << TDI_FIELD_TAG_BITS);
    atomic_init(&file->head.current, head_word(0, 1));
    atomic_init(&file->head.next, 1);
}

/* Takes a number whose slot nobody else of this era uses; false if the era is over or used up. */
static bool claim(struct tdi_layout *file, uint64_t current, uint32_t *number)
{
    uint32_t first = (uint32_t)(current >> 32);
    do {
        *number = atomic_fetch_add_explicit(&file->head.next, 1, memory_order_relaxed);
        if (*number - first >= TDI_LAYOUT_RECORDS)
            return false;
    } while (*number % TDI_LAYOUT_RECORDS == current % TDI_LAYOUT_RECORDS);
    return true;
}

/* Begins a new era with the same record, for whoever comes after changers that were killed. */
static void begin_era(struct tdi_layout *file, uint64_t current)
{
    uint32_t next = atomic_load_explicit(&file->head.next, memory_order_relaxed);
    /* Release keeps what was published published. */
    atomic_compare_exchange_strong_explicit(&file->head.current, &current, head_word((uint32_t)current, next),
                                            memory_order_release, memory_order_relaxed);
}

/* Writes one field unless the era is over. */
static bool write_field(struct tdi_layout *file, uint64_t current, _Atomic(uint64_t) *field, uint64_t bits)
{
    uint64_t found = atomic_load_explicit(field, memory_order_acquire);
    do {
        /* After the load of what is replaced: whoever ended the era wrote the field later, or not at all. */
        if (atomic_load_explicit(&file->head.current, memory_order_relaxed) != current)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(field, &found, bits, memory_order_acq_rel,
                                                    memory_order_acquire));
    return true;
}

int tdi_config_publish(struct tdi_layout *file, const struct tdi_config *config,
                       const struct tdi_clock_base *base)
{
    uint64_t value[TDI_FIELD_COUNT];
    uint64_t current = config->current;
    uint32_t number;
    if (!claim(file, current, &number)) {
        begin_era(file, current);
        return -EAGAIN;
    }
    struct tdi_layout_record *record = &file->record[number % TDI_LAYOUT_RECORDS];
    encode(config, base, value);
    for (int i = 0; i < TDI_FIELD_COUNT; i++)
        if (!write_field(file, current, &record->field[i],
                         value[i] << TDI_FIELD_TAG_BITS | (number & TAG_MASK)))
            return -EAGAIN;
    uint32_t next = atomic_load_explicit(&file->head.next, memory_order_relaxed);
    /* Release pairs with the acquire in tdi_config_try_read: whoever sees the number sees the fields. */
    return atomic_compare_exchange_strong_explicit(&file->head.current, &current, head_word(number, next),
                                                   memory_order_release, memory_order_relaxed)
               ? 0
               : -EAGAIN;
}
