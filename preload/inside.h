/* SPDX-License-Identifier: MIT */
/*
 * Per-thread marks of the guest. Their storage is static (initial-exec), so touching them allocates nothing
 * and is safe in signal handlers and before any constructor.
 */
#ifndef TUNDISH_PRELOAD_INSIDE_H
#define TUNDISH_PRELOAD_INSIDE_H

#include <stdatomic.h>
#include <stdint.h>

struct tdi_inside {
    int house; /* > 0: our own housekeeping runs (dlsym, opening buckets); its calls are passed on as they are
                */
    int road;  /* > 0: a call of the program is on the road; a forked child must keep what that call holds */
    int visits;        /* > 0: the thread is visiting the objects of the process, see hook/find.c */
    uint32_t waits;    /* how often the program has waited for events */
    uint32_t refusals; /* how often it was told EAGAIN for one socket since it last did */
    uint32_t refused_at;
    uint64_t refused_key;
    uint32_t alone_at; /* `waits` when it last waited for a single connection, see ready/company.h */
};

extern _Thread_local struct tdi_inside tdi_inside;

/*
 * How often its ancestors forked until they came to this process: what a call held when a signal handler
 * forked within it is the parent's, and the child gives none of it back.
 */
extern _Atomic(uint32_t) tdi_forks;

/*
 * From here on a child that a signal handler forks keeps the buckets its parent had. That the mark stays
 * where a handler jumps out before anything is held does no harm: children then keep some memory that they
 * do not use.
 */
static inline void tdi_set_foot(void)
{
    tdi_inside.road++;
    atomic_signal_fence(memory_order_seq_cst); /* before any bucket is looked up */
}

static inline void tdi_step_off(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    tdi_inside.road--;
}

static inline uint32_t tdi_forks_now(void)
{
    return atomic_load_explicit(&tdi_forks, memory_order_relaxed);
}

#endif
