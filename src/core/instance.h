/* SPDX-License-Identifier: MIT */
/*
 * The table of handles in the mapped file: who uses this bucket. Entries of killed processes stay until
 * somebody who can ask the kernel clears them.
 */
#ifndef TUNDISH_CORE_INSTANCE_H
#define TUNDISH_CORE_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "plat/proc.h"
#include "shm/layout.h"

/* An entry's place and its owner word; owner 0: none. */
struct tdi_instance {
    uint32_t index;
    uint64_t owner;
};

/* A number no handle of this file had before; not 0. */
uint32_t tdi_instance_number(struct tdi_layout *file);

/* Enters a handle under its number: 0, or -ENOSPC if no entry is free. */
int tdi_instance_enter(struct tdi_layout *file, const struct tdi_identity *who, uint32_t number,
                       struct tdi_instance *out);

/* Clears an entry, whoever made it, unless it is somebody else's by now. */
void tdi_instance_leave(struct tdi_layout *file, const struct tdi_instance *instance);

/* Reads entry `index`: false if it is free or just changing. */
bool tdi_instance_get(const struct tdi_layout *file, uint32_t index, struct tdi_instance *out,
                      struct tdi_identity *who);

/* Who has the entry, or had it last if it is free: false if nobody had, or it is just changing. */
bool tdi_instance_get_last(const struct tdi_layout *file, uint32_t index, struct tdi_identity *who);

/* Entries taken; those of killed processes count until somebody clears them. */
uint32_t tdi_instance_count(const struct tdi_layout *file);

/* Whether the place's account, or rings, have memory: TDI_MEMORY_. Nothing of them is touched before. */
bool tdi_instance_has(const struct tdi_layout *file, uint32_t index, uint64_t memory);
void tdi_instance_note_memory(struct tdi_layout *file, uint32_t index, uint64_t memory);

/* The same of `rest`. */
bool tdi_instance_has_rest(const struct tdi_layout *file);
void tdi_instance_note_rest(struct tdi_layout *file);

/*
 * A process that has the file open is about to make another, which is not listed before it has run a little;
 * its parent may be gone by then. For TDI_INSTANCE_FORK_US it is to be reckoned with. A time that lies further
 * ahead than that was left by an earlier boot or is a lie, and counts for nothing.
 */
#define TDI_INSTANCE_FORK_US UINT64_C(5000000)
void tdi_instance_note_fork(struct tdi_layout *file, uint64_t now_us);
bool tdi_instance_forked_lately(const struct tdi_layout *file, uint64_t now_us);

/* Counts a handle that found no entry. */
void tdi_instance_count_unlisted(struct tdi_layout *file);
uint32_t tdi_instance_unlisted(const struct tdi_layout *file);

#endif
