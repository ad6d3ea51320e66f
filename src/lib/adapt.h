/* SPDX-License-Identifier: MIT */
/*
 * Which strategy suits an instance, by the default policy: leases where others win the word in more than one of
 * TDI_ADAPT_CONTENDED operations at a high rate and few are refused; back when the rate is low, few threads are
 * at it, or many are refused. Each has to be so in several scans in a row; and since those are short while there
 * are leases, so that a thread that does not get a processor may do nothing in some of them, the way back takes
 * TDI_ADAPT_CALM_NS too.
 */
#ifndef TUNDISH_LIB_ADAPT_H
#define TUNDISH_LIB_ADAPT_H

#include <stdint.h>
#include <tundish/tundish.h>

#define TDI_ADAPT_CONTENDED 200
#define TDI_ADAPT_BUSY_PER_S 1000000 /* below so many operations a second contention costs nobody much */
#define TDI_ADAPT_IN_A_ROW 3
#define TDI_ADAPT_CALM_NS UINT64_C(500000000)

/* What is remembered of an instance. */
struct tdi_adapt_mood {
    uint32_t crowded; /* scans in a row that spoke for leases */
    uint32_t calm;    /* and against them ... */
    uint64_t calm_ns; /* ... for so long */
};

/* The strategy, or -1 to leave it. */
int tdi_adapt_decide(const struct tundish_sidecar_stats *stats, struct tdi_adapt_mood *mood);

#endif
