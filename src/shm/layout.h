/* SPDX-License-Identifier: MIT */
/*
 * The mapped file. Fixed width, no pointers, native byte order. Everything but the identity may be seen half
 * written by a process that was just killed and may have been scribbled on by a hostile one: readers clamp.
 *
 * Changing anything here changes the fingerprint, and with it tests/contract/layout.txt: files of another
 * fingerprint are refused.
 */
#ifndef TUNDISH_SHM_LAYOUT_H
#define TUNDISH_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "plat/atom.h"

#define TDI_LAYOUT_MAGIC UINT64_C(0x0a687369646e7574) /* "tundish\n" on a little-endian machine */
#define TDI_LAYOUT_VERSION 1
#define TDI_LAYOUT_RECORDS 8
#define TDI_LAYOUT_SLOTS 64
#define TDI_LAYOUT_INSTANCES 64
#define TDI_LAYOUT_STRIPES 8        /* of an instance's counters; the last is shared */
#define TDI_LAYOUT_WAITS 128        /* classes of waiting times */
#define TDI_LAYOUT_OBSERVATIONS 128 /* in the ring of a stripe */
#define TDI_LAYOUT_PAGE 4096        /* what is given memory only when it is used comes in these */

#define TDI_ON_ITS_OWN_LINE _Alignas(TDI_LINE_SIZE)
#define TDI_ON_ITS_OWN_PAGE _Alignas(TDI_LAYOUT_PAGE)

/* Written before the file has a name, and but for the last never after. */
struct tdi_layout_identity {
    uint64_t magic;
    uint64_t fingerprint;
    uint32_t version;
    uint32_t size;
    _Atomic(uint64_t) forked_us; /* when somebody last forked, bucket time; 0 never: see core/instance */
};

/*
 * The word: the whole state of the bucket, changed by compare-and-swap only.
 *   bits    meaning                                             set by
 *   63..32  low half of the time the tokens were counted at, us  every acquire
 *   31      Q: somebody may be waiting in the line               the line; a stale 1 costs a look at the line
 *   30..0   tokens                                               every acquire; clamped to the capacity
 */
#define TDI_WORD_QUEUED (UINT64_C(1) << 31)
#define TDI_WORD_TOKENS (TDI_WORD_QUEUED - 1)

/*
 * One state of the configuration. Each field has its value in the high 52 bits and the low 12 bits of the
 * record's number below, so that a writer that was stopped half way can never overwrite what others wrote
 * since.
 */
enum tdi_layout_field {
    TDI_FIELD_INTERVAL_US,
    TDI_FIELD_REFILL,   /* low 32 bits; flags above */
    TDI_FIELD_CAPACITY, /* 31 bits */
    TDI_FIELD_SINCE_US, /* counting starts here ... */
    TDI_FIELD_CARRY,    /* ... with this numerator of a fraction of a token (or of a step) over interval */
    TDI_FIELD_RATE_FRACTION, /* units per us, 52 fractional bits */
    TDI_FIELD_RATE_WHOLE,
    TDI_FIELD_EXTRA,    /* tokens above the capacity that waiters late in waking may still find */
    TDI_FIELD_SHIFT_US, /* bucket time is the machine's boot time plus this, modulo 2^52 */
    TDI_FIELD_BOOT_A,   /* the boot of the machine that shift belongs to: 52, 52 and 24 bits */
    TDI_FIELD_BOOT_B,
    TDI_FIELD_BOOT_C,
    TDI_FIELD_COUNT = 16
};
#define TDI_FIELD_TAG_BITS 12
#define TDI_FIELD_VALUE_BITS 52

struct tdi_layout_record {
    _Atomic(uint64_t) field[TDI_FIELD_COUNT];
};

/*
 * Read by every acquire, written once in a while. `current` has the number of the record in force in its low
 * half, which lies at number % TDI_LAYOUT_RECORDS, and in its high half the value of `next` when that was
 * last changed: see core/config.
 */
struct tdi_layout_head {
    _Atomic(uint64_t) hint_us; /* full time near the word's stamp: |stamp - hint| < 2^31, see core/bucket */
    _Atomic(uint64_t) current;
    _Atomic(uint32_t) next;    /* number the next change will take */
    _Atomic(uint64_t) lessees; /* instances that hold leases, index + 1 in each byte but the highest, which
                                  every change counts up: see core/lease */
};

/*
 * One handle of one process. `owner` says whose it is, 0 nobody's: claimed by compare-and-swap before
 * anything else is written and cleared last. A killed process leaves it set; who meets it asks the kernel.
 */
struct tdi_layout_instance {
    _Atomic(uint64_t) owner;
    _Atomic(uint64_t) identified;    /* the owner whose identity the next four are, and `image` */
    _Atomic(uint64_t) start_time;    /* 0 unknown */
    _Atomic(uint64_t) pid_namespace; /* 0 unknown */
    _Atomic(uint64_t) program[2];
    _Atomic(uint64_t) memory; /* which parts behind the table have memory, for ever: TDI_MEMORY_ */
    _Atomic(uint64_t) image;  /* of the identity too */
};
#define TDI_MEMORY_ACCOUNT UINT64_C(1)
#define TDI_MEMORY_RINGS UINT64_C(2)

struct tdi_layout_instances {
    _Atomic(uint32_t) next_owner;
    _Atomic(uint32_t) unlisted; /* handles that found no free slot, ever */
    _Atomic(uint32_t) memory;   /* TDI_MEMORY_REST if `rest` has memory, for ever */
};
#define TDI_MEMORY_REST UINT32_C(1)

/* How tokens were asked for. */
enum tdi_layout_kind {
    TDI_KIND_TRY,     /* tundish_try_acquire */
    TDI_KIND_ACQUIRE, /* tundish_acquire and its kin */
    TDI_KIND_ALL,     /* several buckets at once; the preloaded library's waits, also for one */
    TDI_KIND_WAITER,  /* tundish_waiter_start */
    TDI_KINDS
};

enum tdi_layout_count {
    TDI_COUNT_GRANTED,
    TDI_COUNT_TOKENS, /* of those */
    TDI_COUNT_REFUSED,
    TDI_COUNT_ENDED, /* waits that timed out or were given up */
    TDI_COUNTS
};

enum tdi_layout_sum {
    TDI_SUM_WAITED_NS, /* of waits that were granted */
    TDI_SUM_ENDED_NS,  /* of the others that are over */
    TDI_SUM_RETRIES,   /* compare-and-swaps that others won */
    TDI_SUM_RELEASED,  /* tokens given back by tundish_release */
    TDI_SUM_DROPPED,   /* observations for which the ring had no room */
    TDI_SUMS
};

/* Counts go on for ever, whoever has the place: nothing is set back to 0, so nothing is lost in a crash. */
struct tdi_layout_tally {
    _Atomic(uint64_t) count[TDI_KINDS][TDI_COUNTS];
    _Atomic(uint64_t) sum[TDI_SUMS];
};

/*
 * What one thread writes: plain stores, since it is the only one. The last stripe is for all the threads that
 * found none, who add atomically. See core/stats.
 */
struct tdi_layout_stripe {
    TDI_ON_ITS_OWN_LINE struct tdi_layout_tally tally;
    _Atomic(uint64_t) pushed; /* observations put into the ring */
    _Atomic(uint32_t) every;  /* one of so many operations is to be recorded, 0 none: by the drainer */
};

/* Strategy and generation change together, see core/handshake. */
struct tdi_layout_handshake {
    _Atomic(uint32_t) generation;
    _Atomic(uint32_t) strategy;
    _Atomic(uint32_t) in_flight; /* threads that a change waits for */
};

/*
 * Who looks at an instance.
 *   writer   a thread without a stripe of its own is writing into the last ring; the others' are dropped
 *   drainer  pid << 32 | number of who takes observations out, 0 nobody
 *   seen_us  when it last did, bucket time
 */
struct tdi_layout_watch {
    _Atomic(uint32_t) writer;
    _Atomic(uint64_t) drainer;
    _Atomic(uint64_t) seen_us;
};

/* An instance's books, in a page that has memory once an instance was there. */
struct tdi_layout_account {
    TDI_ON_ITS_OWN_PAGE struct tdi_layout_handshake handshake;
    TDI_ON_ITS_OWN_LINE struct tdi_layout_watch watch;
    TDI_ON_ITS_OWN_LINE _Atomic(uint64_t) taken[TDI_LAYOUT_STRIPES]; /* observations out of each ring */
    /* What the counts were when the present owner came, signed by it like its identity. */
    TDI_ON_ITS_OWN_LINE _Atomic(uint64_t) base_owner;
    struct tdi_layout_tally base;
    TDI_ON_ITS_OWN_LINE _Atomic(uint64_t) base_waits[TDI_LAYOUT_WAITS];
    TDI_ON_ITS_OWN_LINE _Atomic(uint64_t) waits[TDI_LAYOUT_WAITS]; /* waits granted, by how long they took */
    TDI_ON_ITS_OWN_LINE struct tdi_layout_stripe stripe[TDI_LAYOUT_STRIPES];
};

/* One operation. Written by its thread, read by the drainer only once `pushed` says so. */
struct tdi_layout_observation {
    _Atomic(uint64_t) at_us; /* when it was over, bucket time */
    _Atomic(uint64_t) wait_ns;
    _Atomic(uint32_t) tokens;
    _Atomic(uint32_t) thread;
    _Atomic(uint32_t) what; /* kind << 16 | 0 or the positive errno */
    _Atomic(uint32_t) process;
};

/* The rings of an instance, in pages that have memory once somebody wanted to see them. */
struct tdi_layout_rings {
    TDI_ON_ITS_OWN_PAGE struct tdi_layout_observation ring[TDI_LAYOUT_STRIPES][TDI_LAYOUT_OBSERVATIONS];
};

/*
 * The line of waiters, see core/queue. One slot is one acquire that waits:
 *   id       0 free, owner << 32 claimed, owner << 32 | ticket waiting; each change one compare-and-swap
 *   request  need << 33 | deaf << 32 | wake_us << 1 | awake; written by the owner, from its own last value
 *   bell     futex; anyone increments it to make the owner look again
 * Tickets are compared by signed difference; 0 is none.
 */
struct tdi_layout_line {
    _Atomic(uint32_t) ticket; /* the next */
    _Atomic(uint32_t) door;   /* futex: 1 if somebody waits for a free slot */
    TDI_ON_ITS_OWN_LINE _Atomic(uint64_t) id[TDI_LAYOUT_SLOTS];
    _Atomic(uint64_t) request[TDI_LAYOUT_SLOTS];
    _Atomic(uint32_t) bell[TDI_LAYOUT_SLOTS];
    _Atomic(uint32_t) arrived_us[TDI_LAYOUT_SLOTS]; /* for whoever looks at the line; low 32 bits */
    _Atomic(uint32_t) vouched_us[TDI_LAYOUT_SLOTS]; /* somebody asked, and the owner lived; low 32 bits */
};

struct tdi_layout {
    struct tdi_layout_identity identity;
    TDI_ON_ITS_OWN_LINE struct tdi_layout_head head;
    TDI_ON_ITS_OWN_LINE _Atomic(uint64_t) word;
    TDI_ON_ITS_OWN_LINE struct tdi_layout_record record[TDI_LAYOUT_RECORDS];
    TDI_ON_ITS_OWN_LINE struct tdi_layout_line line;
    TDI_ON_ITS_OWN_LINE struct tdi_layout_instances instances;
    TDI_ON_ITS_OWN_LINE struct tdi_layout_instance instance[TDI_LAYOUT_INSTANCES];
    /* Up to here every file has memory; from here on only where a `memory` says so. */
    struct tdi_layout_account account[TDI_LAYOUT_INSTANCES];
    struct tdi_layout_account rest; /* the counts of all handles that have no place in the table */
    struct tdi_layout_rings rings[TDI_LAYOUT_INSTANCES];
};
#define TDI_LAYOUT_ALWAYS offsetof(struct tdi_layout, account)

/* A hash of all offsets and sizes. */
uint64_t tdi_layout_fingerprint(void);

/* Each offset and size as "name number", for the test that holds them against the contract; NULL at the end.
 */
struct tdi_layout_fact {
    const char *name;
    uint64_t number;
};
extern const struct tdi_layout_fact tdi_layout_facts[];

#endif
