/* SPDX-License-Identifier: MIT */
/* The layout in numbers, so that a file of another layout is told by its fingerprint. */
#include "shm/layout.h"

#include <stddef.h>

#define SIZE(type)                                                                                           \
    {                                                                                                        \
#type " size", sizeof(struct type)                                                                   \
    }
#define AT(type, member)                                                                                     \
    {                                                                                                        \
#type "." #member, offsetof(struct type, member)                                                     \
    }

const struct tdi_layout_fact tdi_layout_facts[] = {
    {"version", TDI_LAYOUT_VERSION},
    {"records", TDI_LAYOUT_RECORDS},
    {"slots", TDI_LAYOUT_SLOTS},
    {"instances", TDI_LAYOUT_INSTANCES},
    {"record fields", TDI_FIELD_COUNT},
    SIZE(tdi_layout),
    AT(tdi_layout, identity),
    AT(tdi_layout, head),
    AT(tdi_layout, word),
    AT(tdi_layout, record),
    AT(tdi_layout, line),
    AT(tdi_layout, instances),
    AT(tdi_layout, instance),
    SIZE(tdi_layout_identity),
    AT(tdi_layout_identity, magic),
    AT(tdi_layout_identity, fingerprint),
    AT(tdi_layout_identity, version),
    AT(tdi_layout_identity, size),
    AT(tdi_layout_identity, forked_us),
    SIZE(tdi_layout_head),
    AT(tdi_layout_head, hint_us),
    AT(tdi_layout_head, current),
    AT(tdi_layout_head, next),
    SIZE(tdi_layout_record),
    SIZE(tdi_layout_line),
    AT(tdi_layout_line, ticket),
    AT(tdi_layout_line, door),
    AT(tdi_layout_line, id),
    AT(tdi_layout_line, request),
    AT(tdi_layout_line, bell),
    AT(tdi_layout_line, arrived_us),
    AT(tdi_layout_line, vouched_us),
    SIZE(tdi_layout_instances),
    AT(tdi_layout_instances, next_owner),
    AT(tdi_layout_instances, unlisted),
    SIZE(tdi_layout_instance),
    AT(tdi_layout_instance, owner),
    AT(tdi_layout_instance, identified),
    AT(tdi_layout_instance, start_time),
    AT(tdi_layout_instance, pid_namespace),
    AT(tdi_layout_instance, program),
    {NULL, 0},
};

_Static_assert(sizeof(struct tdi_layout_record) == 2 * TDI_LINE_SIZE, "a record is two lines");
_Static_assert(sizeof(struct tdi_layout_instance) == TDI_LINE_SIZE, "an instance is one line");
_Static_assert(offsetof(struct tdi_layout, word) % TDI_LINE_SIZE == 0, "the word is alone on its line");
_Static_assert(offsetof(struct tdi_layout, record) - offsetof(struct tdi_layout, word) >= TDI_LINE_SIZE,
               "the word is alone on its line");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "atomics between processes must be lock-free");

uint64_t tdi_layout_fingerprint(void)
{
    /* FNV-1a over the numbers; the names may change. */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const struct tdi_layout_fact *fact = tdi_layout_facts; fact->name; fact++) {
        for (int byte = 0; byte < 8; byte++) {
            hash ^= fact->number >> (8 * byte) & 0xff;
            hash *= UINT64_C(0x100000001b3);
        }
    }
    return hash;
}
