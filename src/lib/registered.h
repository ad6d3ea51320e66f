/* SPDX-License-Identifier: MIT */
/*
 * A handle under the sidecar's care: its records are taken out, its counts looked at, its strategy decided on, and
 * its leases tended. By one thread at a time.
 */
#ifndef TUNDISH_LIB_REGISTERED_H
#define TUNDISH_LIB_REGISTERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "core/stats.h"
#include "lib/adapt.h"
#include "lib/observe.h"

struct tdi_registered {
    struct tundish *bucket; /* NULL: none, all is 0 */
    const struct tdi_drainer *drainer;
    struct tundish_sidecar_policy policy;
    struct tdi_adapt_mood mood;
    struct tdi_stats before; /* at the scan before */
    uint64_t before_ns;
    uint64_t repair_ns; /* when lessees are to be looked at again */
    uint64_t observed, scans, switches;
    uint32_t wanted; /* strategy */
    bool ours;       /* the instance's records are taken out here */
    bool closing;    /* a callback closed it: that is done when the scan is over */
    struct tundish_sidecar_stats stats;
};

/* Begins to look after a handle: 0, or -ENOSPC if there is no memory for the records that are wanted. */
int tdi_registered_begin(struct tdi_registered *handle, struct tundish *bucket,
                         const struct tundish_sidecar_policy *policy, const struct tdi_drainer *drainer);

/* What a scan found. */
struct tdi_registered_scan {
    size_t records;
    bool busy;
    bool leased; /* tokens are out on lease */
};

/* Does all of it once, callbacks included, and adds to *out. Without `may_switch` the strategy stays. */
void tdi_registered_scan(struct tdi_registered *handle, bool may_switch, struct tdi_registered_scan *out);

/* What is known now; the span is the last scan's. */
void tdi_registered_stats(const struct tdi_registered *handle, struct tundish_sidecar_stats *out);

/* Back to DIRECT; what a thread in the middle of an operation has is waited for until then. */
void tdi_registered_return_leases(struct tdi_registered *handle, uint64_t until_ns);

/* Returns the leases and hands over the last records. */
void tdi_registered_end(struct tdi_registered *handle);

#endif
