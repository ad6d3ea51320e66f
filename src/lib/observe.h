/* SPDX-License-Identifier: MIT */
/*
 * A bucket seen from outside: by tools, and by sidecars of another process. Nothing here is listed in the file
 * or keeps a bucket from being swept.
 */
#ifndef TUNDISH_LIB_OBSERVE_H
#define TUNDISH_LIB_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "core/instance.h"
#include "core/ring.h"
#include "core/stats.h"

/*
 * Opens a bucket to look at it: errors of tundish_open. Of the public functions only those may be used that take
 * a `const struct tundish *`, and tundish_close.
 */
int tdi_observe_open(struct tundish **out, const char *name);

/* What one handle is and did. */
struct tdi_observe_instance {
    struct tdi_instance instance; /* place, and owner word: another one is another handle */
    struct tdi_identity who;
    bool may_live; /* false: its process is certainly gone */
    bool counts;   /* false: it has no account in the file, what follows is 0 */
    struct tdi_stats stats;
    uint32_t strategy; /* enum tundish_strategy, clamped */
    uint32_t generation;
    uint64_t in_flight;
    uint32_t every;       /* one of so many operations is recorded, 0 none */
    uint32_t drainer_pid; /* who takes the records out, 0 nobody */
    uint64_t drained_ns_ago;
};

/* The handle in place `index` (< TDI_LAYOUT_INSTANCES); false if there is none. */
bool tdi_observe_instance(const struct tundish *bucket, uint32_t index, struct tdi_observe_instance *out);

/* Whose place it is, or was last: records of who is gone by now may be there. False if that is not known. */
bool tdi_observe_owner(const struct tundish *bucket, uint32_t index, struct tdi_identity *out);

/* All that was ever counted in the file, by whomever. */
void tdi_observe_total(const struct tundish *bucket, struct tdi_stats *out);

/* Clears the entries of processes that are certainly gone; what they counted stays in the total. */
void tdi_observe_bury(struct tundish *bucket);

/* Processes that may live and have the bucket open. */
uint32_t tdi_observe_processes(const struct tundish *bucket);

/* Seconds of the bucket's time until now; records have theirs in it. */
double tdi_observe_age_s(const struct tundish *bucket);

/* The file, to tell whether a name still is the bucket that is open. */
bool tdi_observe_is_file(const struct tundish *bucket, uint64_t device, uint64_t inode);

/*
 * A drainer: whoever takes records out of instances. Made once per process that does.
 */
struct tdi_drainer {
    struct tdi_identity self;
    uint64_t word; /* in the file: pid << 32 | start time */
};
void tdi_drainer_init(struct tdi_drainer *drainer);

/*
 * Takes charge of an instance's records and has one of `every` operations recorded: 0 if it is, or already was,
 * this drainer's; -EBUSY if another one is at it that lives, or was there in the last TDI_DRAINER_SILENT_NS;
 * -ENOSPC if there is no memory for the records, -ENOENT if the instance has no account.
 */
#define TDI_DRAINER_SILENT_NS (UINT64_C(1000) * TDI_RING_SILENT_US)
int tdi_drainer_attend(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index,
                       uint32_t every);

/* Takes up to `most` records out of an instance it attends. */
size_t tdi_drainer_drain(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index,
                         struct tdi_observation *out, size_t most);

/* Nothing is recorded any more where a drainer that is certainly gone has left it on: nobody reads that. */
void tdi_drainer_relieve(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index);

/* Nothing is recorded any more. */
void tdi_drainer_leave(const struct tdi_drainer *drainer, struct tundish *bucket, uint32_t index);

#endif
