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
    {"stripes", TDI_LAYOUT_STRIPES},
    {"waits", TDI_LAYOUT_WAITS},
    {"observations", TDI_LAYOUT_OBSERVATIONS},
    {"kinds", TDI_KINDS},
    {"counts", TDI_COUNTS},
    {"sums", TDI_SUMS},
    SIZE(tdi_layout),
    AT(tdi_layout, identity),
    AT(tdi_layout, head),
    AT(tdi_layout, word),
    AT(tdi_layout, record),
    AT(tdi_layout, line),
    AT(tdi_layout, instances),
    AT(tdi_layout, instance),
    AT(tdi_layout, account),
    AT(tdi_layout, rest),
    AT(tdi_layout, rings),
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
    AT(tdi_layout_head, lessees),
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
    AT(tdi_layout_instances, memory),
    SIZE(tdi_layout_instance),
    AT(tdi_layout_instance, owner),
    AT(tdi_layout_instance, identified),
    AT(tdi_layout_instance, start_time),
    AT(tdi_layout_instance, pid_namespace),
    AT(tdi_layout_instance, program),
    AT(tdi_layout_instance, memory),
    AT(tdi_layout_instance, image),
    SIZE(tdi_layout_tally),
    AT(tdi_layout_tally, count),
    AT(tdi_layout_tally, sum),
    SIZE(tdi_layout_stripe),
    AT(tdi_layout_stripe, tally),
    AT(tdi_layout_stripe, pushed),
    AT(tdi_layout_stripe, every),
    SIZE(tdi_layout_handshake),
    AT(tdi_layout_handshake, generation),
    AT(tdi_layout_handshake, strategy),
    AT(tdi_layout_handshake, in_flight),
    SIZE(tdi_layout_watch),
    AT(tdi_layout_watch, writer),
    AT(tdi_layout_watch, drainer),
    AT(tdi_layout_watch, seen_us),
    SIZE(tdi_layout_account),
    AT(tdi_layout_account, handshake),
    AT(tdi_layout_account, watch),
    AT(tdi_layout_account, taken),
    AT(tdi_layout_account, base_owner),
    AT(tdi_layout_account, base),
    AT(tdi_layout_account, base_waits),
    AT(tdi_layout_account, waits),
    AT(tdi_layout_account, stripe),
    SIZE(tdi_layout_observation),
    AT(tdi_layout_observation, at_us),
    AT(tdi_layout_observation, wait_ns),
    AT(tdi_layout_observation, tokens),
    AT(tdi_layout_observation, thread),
    AT(tdi_layout_observation, what),
    AT(tdi_layout_observation, process),
    SIZE(tdi_layout_rings),
    {NULL, 0},
};

_Static_assert(sizeof(struct tdi_layout_record) == 2 * TDI_LINE_SIZE, "a record is two lines");
_Static_assert(sizeof(struct tdi_layout_instance) == TDI_LINE_SIZE, "an instance is one line");
_Static_assert(sizeof(struct tdi_layout_account) == TDI_LAYOUT_PAGE, "an instance's books are one page");
_Static_assert(sizeof(struct tdi_layout_rings) % TDI_LAYOUT_PAGE == 0, "rings are whole pages");
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
