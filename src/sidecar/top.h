/* SPDX-License-Identifier: MIT */
/*
 * What `tundish top` knows: buckets looked at again and again, and what happened in each between two looks. A
 * bucket stays mapped from look to look, without an entry in its table.
 */
#ifndef TUNDISH_SIDECAR_TOP_H
#define TUNDISH_SIDECAR_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "lib/observe.h"

#define TDI_TOP_HISTORY 60 /* intervals a bucket's history goes back */

#define TDI_TOP_NS_PER_S UINT64_C(1000000000)

/* What was counted until now; only grows, unless somebody scribbles in the file. */
struct tdi_top_counts {
    uint64_t tokens;
    uint64_t released;
    uint64_t operations; /* of all outcomes */
    uint64_t refused;
    uint64_t waited_ns;
};

/* What happened between two looks, per second but for the waits. */
struct tdi_top_rates {
    bool measured; /* false: there was one look only, and the others are 0 */
    double tokens; /* granted and not given back */
    double operations;
    double refused;
    uint64_t waited_ns; /* in waits that ended meanwhile */
};

struct tdi_top_instance {
    uint64_t owner;                    /* another one is another handle */
    char program[TDI_PROGRAM_LEN + 1]; /* any bytes */
    uint32_t pid;
    uint32_t strategy;
    bool counts; /* false: it has no account, so there will be no rates */
    struct tdi_top_counts counted;
    struct tdi_top_rates rates;
};

struct tdi_top_bucket {
    char *name;  /* to open it */
    char *label; /* what people call it: any bytes but 0 */
    char *path;
    struct tundish *bucket;
    uint64_t size; /* of the file: one that was cut short is not touched any more */
    bool seen;     /* since tdi_top_begin */
    uint64_t at_ns;
    struct tundish_info info;
    struct tdi_top_counts counted;
    uint64_t waits[TDI_LAYOUT_WAITS];
    struct tdi_top_rates rates;
    double used;     /* what was had of the rate that is asked: 1 is all of it */
    uint64_t p50_ns; /* of the waits that ended meanwhile, 0 if there were none */
    uint64_t p99_ns;
    double history[TDI_TOP_HISTORY]; /* `used` of interval i at i % TDI_TOP_HISTORY */
    uint32_t intervals;              /* ever */
    struct tdi_top_instance *instance;
    uint32_t instances; /* that may live */
};

/* All 0 at first. */
struct tdi_top {
    struct tdi_top_bucket **bucket;
    size_t count;
    size_t closed; /* names seen in the last look that are there and cannot be opened */
};

/*
 * A look: begin, see each bucket by its name, end, which drops those that were not seen. A name that is
 * another file than before is another bucket. see returns 0 or a negative errno of tundish_open, and then
 * there is no such bucket.
 */
void tdi_top_begin(struct tdi_top *top);
int tdi_top_see(struct tdi_top *top, const char *name, const char *label);
void tdi_top_end(struct tdi_top *top);

enum tdi_top_key {
    TDI_TOP_BY_NAME,
    TDI_TOP_BY_RATE,
    TDI_TOP_BY_WAITING,
    TDI_TOP_BY_P99,
    TDI_TOP_BY_USED,
};

/* The largest first, names from A on; those that nobody has open last. */
void tdi_top_sort(struct tdi_top *top, enum tdi_top_key key);

/* Closes all. */
void tdi_top_free(struct tdi_top *top);

/* Tokens gained per second. */
double tdi_top_asked(const struct tundish_info *info);

#endif
