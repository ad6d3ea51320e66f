/* SPDX-License-Identifier: MIT */
/* What a `struct tundish` is inside: two private pages beside the mapped file. */
#ifndef TUNDISH_LIB_HANDLE_H
#define TUNDISH_LIB_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <tundish/tundish.h>

#include "core/handshake.h"
#include "core/instance.h"
#include "plat/clock.h"
#include "shm/layout.h"

/* Tokens that one thread took in advance, see lib/lease.h; and what else is one thread's. */
struct tdi_handle_thread {
    TDI_ON_ITS_OWN_LINE _Atomic(uint32_t) id; /* 0 nobody */
    _Atomic(uint32_t) pushing;                /* it is in the middle of recording, see core/ring */
    _Atomic(uint32_t) skipped;                /* operations since one was recorded */
    _Atomic(uint64_t) leased;                 /* tokens; less than 0 for a moment: none */
    _Atomic(uint32_t) closed;                 /* they are being taken back: hands off */
    tdi_handshake_inside inside;              /* in an operation with them */
    uint64_t operations;                      /* the sidecar's: their number when it last looked ... */
    uint64_t spent;                           /* ... and when it last looked at the lease, */
    uint64_t idle_since_us;                   /* whose number has been that since then */
};

/*
 * This process's place in the file. On memory that a fork wipes: a child finds number 0 at its next call and
 * takes one of its own, whatever kind of fork it was.
 */
struct tdi_handle_here {
    _Atomic(uint32_t) number;                     /* 0: just forked */
    _Atomic(uint32_t) listed;                     /* `instance` is ours to clear, `self` is written */
    _Atomic(uint64_t) direct_key;                 /* the key under DIRECT, else 0 */
    _Atomic(uint64_t) leasing_key;                /* the key under LEASED, else 0 */
    _Atomic(uint64_t) key;                        /* 0: there is no account yet; see lib/post.h */
    _Atomic(struct tdi_layout_account *) account; /* in the file, or `own` where there is no place for it; */
    _Atomic(struct tdi_layout_account *) rest;    /* and then in this one of the file too, if not NULL */
    _Atomic(uint32_t) lease_tokens;               /* what a thread may take in advance; 0: strategy DIRECT */
    struct tdi_instance instance;
    struct tdi_identity self;
    struct tdi_handle_thread thread[TDI_LAYOUT_STRIPES]; /* by stripe; the last is nobody's */
    struct tdi_layout_account own;
    struct tdi_layout_stripe
        early; /* what was counted before it was known where: by other threads, or a handler */
};

struct tundish {
    struct tdi_layout *file;
    struct tdi_handle_here *here;
    int64_t shift_us; /* bucket time = boot time + this */
    uint64_t device;  /* identity of the file; 0 and 0 for a private bucket */
    uint64_t inode;
    uint64_t post;                               /* where threads note their stripe, see lib/post.h */
    int (*_Atomic unregister)(struct tundish *); /* from the sidecar, if it is registered there */
};

/* A handle without a bucket yet: 0 or -ENOMEM; and back. */
int tdi_handle_new(struct tundish **out);
void tdi_handle_free(struct tundish *bucket);

/* Notes an entry as this process's. */
void tdi_handle_list(struct tundish *bucket, const struct tdi_instance *instance,
                     const struct tdi_identity *self);

/* Entries whose processes may live. */
uint32_t tdi_handle_count_live(const struct tdi_layout *file);

/*
 * Before a call that makes a process which has, or will open, this bucket: keeps the bucket from being swept
 * until the child has listed itself, should this process end first. Any thread, signal-safe; also in a child
 * that lives in its parent's memory.
 */
void tdi_handle_forking(struct tundish *bucket);

/* Whether somebody may be using the file who is not listed yet. Asked after the living were counted. */
bool tdi_handle_forked_lately(const struct tdi_layout *file);

/* Processes that may live and have the bucket open, without the calling one. */
uint32_t tdi_handle_count_others(const struct tundish *bucket);

/* Clears this process's entry: the handle is about to be closed. */
void tdi_handle_leave(struct tundish *bucket);

/* Slow part of tdi_handle_enter. */
void tdi_handle_enter_now(struct tundish *bucket);

/* Makes sure that this process, which may be a forked child, has its place. Every operation begins here. */
static inline void tdi_handle_enter(struct tundish *bucket)
{
    if (tdi_unlikely(atomic_load_explicit(&bucket->here->number, memory_order_relaxed) == 0))
        tdi_handle_enter_now(bucket);
}

/* The calling process, as the file's table has it. */
void tdi_handle_identify(const struct tundish *bucket, struct tdi_identity *out);

/* From the machine's boot time to a bucket's. */
static inline uint64_t tdi_handle_shift(int64_t shift_us, uint64_t ns)
{
    int64_t us = (int64_t)(ns / TDI_NS_PER_US) + shift_us;
    return us > 0 ? (uint64_t)us : 0;
}

static inline uint64_t tdi_handle_us(const struct tundish *bucket, uint64_t ns)
{
    return tdi_handle_shift(bucket->shift_us, ns);
}

/* Bucket time now. */
static inline uint64_t tdi_handle_now_us(const struct tundish *bucket)
{
    return tdi_handle_us(bucket, tdi_clock_now_ns());
}

/* The first nanosecond of a bucket time; saturates. */
static inline uint64_t tdi_handle_ns(const struct tundish *bucket, uint64_t us)
{
    const uint64_t never_us = UINT64_C(1) << 53; /* shift has 52 bits: the sum stays in range */
    if (us >= never_us)
        return UINT64_MAX;
    int64_t boot_us = (int64_t)us - bucket->shift_us;
    return boot_us > 0 ? (uint64_t)boot_us * TDI_NS_PER_US : 0;
}

#endif
