/* SPDX-License-Identifier: MIT */
/*
 * What `tundish sidecar` does to buckets: it takes the records out of all instances, clears the entries of those
 * whose processes are gone, and takes over from a sidecar that is. A bucket stays mapped from look to look,
 * without an entry in its table.
 */
#ifndef TUNDISH_SIDECAR_DRAIN_H
#define TUNDISH_SIDECAR_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "lib/observe.h"

/* One record and whose it is. */
struct tdi_drain_record {
    const char *label;   /* the bucket, as people call it */
    const char *program; /* any bytes; empty if it is not known any more */
    double at_s;         /* since 1970 */
    struct tdi_observation observation;
};

struct tdi_drain_bucket;

/* `every` 0: nothing is recorded, the dead are cleared only, and what dead drainers left switched on is switched off. */
struct tdi_drain {
    uint32_t every;
    void (*record)(const struct tdi_drain_record *record, void *context);
    void *context;
    struct tdi_drainer drainer;
    struct tdi_drain_bucket **bucket;
    size_t count;
};

void tdi_drain_init(struct tdi_drain *drain);

/*
 * Which buckets there are: begin, see each by its name, end, which closes those that were not seen. A name that is
 * another file than before is another bucket. see returns 0 or a negative errno of tundish_open, and then there
 * is no such bucket.
 */
void tdi_drain_begin(struct tdi_drain *drain);
int tdi_drain_see(struct tdi_drain *drain, const char *name, const char *label);
void tdi_drain_end(struct tdi_drain *drain);

/* Takes out what there is, once around: how many records. */
size_t tdi_drain_scan(struct tdi_drain *drain);

/* Clears the entries of processes that are gone; after a scan, which has their last records. */
void tdi_drain_bury(struct tdi_drain *drain);

/* Takes the last records out, lets go of all instances and closes all buckets. */
void tdi_drain_free(struct tdi_drain *drain);

#endif
