/* SPDX-License-Identifier: MIT */
/*
 * The steady clock: nanoseconds of CLOCK_BOOTTIME as the initial time namespace counts them.
 *
 * Where the processor's counter is usable it is read instead of the kernel's clock and converted with a rate
 * that is measured and re-anchored at least every millisecond of use. So the error against CLOCK_BOOTTIME
 * stays below a microsecond, and a suspend, a migration or a slewing clock is noticed within a millisecond.
 */
#ifndef TUNDISH_PLAT_CLOCK_H
#define TUNDISH_PLAT_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plat/atom.h"

#define TDI_NS_PER_US UINT64_C(1000)
#define TDI_NS_PER_S UINT64_C(1000000000)

enum tdi_clock_source {
    TDI_CLOCK_UNDECIDED,
    TDI_CLOCK_COUNTER, /* TSC or cntvct */
    TDI_CLOCK_VDSO,    /* clock_gettime */
    TDI_CLOCK_SYSCALL, /* the same by a real system call: the vdso would fault (PR_TSC_SIGSEGV) */
};

/* One per process. A reader that sees `sequence` odd or changed takes the slow path. */
struct tdi_clock {
    _Atomic(uint32_t) sequence;
    _Atomic(uint64_t) anchor_ticks;
    _Atomic(uint64_t) anchor_ns;
    _Atomic(uint64_t) horizon_ticks; /* the anchor is good for so long; 0: do not use it */
    _Atomic(uint64_t) ns_per_tick;   /* 32.32 fixed point */
};

extern struct tdi_clock tdi_clock;

/* Reads the kernel's clock, and re-anchors on the way. Any thread, signal-safe, never blocks. */
uint64_t tdi_clock_read_and_anchor(void);

/* Where the time comes from in this process, once decided. */
enum tdi_clock_source tdi_clock_source(void);

/* Forgets everything: for a forked child, whose parent may have been killed by the fork in the middle. */
void tdi_clock_forget(void);

/* For tests: use this source from now on. */
void tdi_clock_force(enum tdi_clock_source source);

static inline uint64_t tdi_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

/* The time if it can be had without the kernel. */
static inline bool tdi_clock_try_now(uint64_t *now_ns)
{
    /* Pairs with the releases in anchor(): an even, unchanged sequence means the fields belong together. */
    uint32_t sequence = atomic_load_explicit(&tdi_clock.sequence, memory_order_acquire);
    uint64_t horizon = atomic_load_explicit(&tdi_clock.horizon_ticks, memory_order_relaxed);
    if (tdi_unlikely(horizon == 0))
        return false; /* before the counter is touched: reading it may be forbidden */
    uint64_t anchor_ticks = atomic_load_explicit(&tdi_clock.anchor_ticks, memory_order_relaxed);
    uint64_t anchor_ns = atomic_load_explicit(&tdi_clock.anchor_ns, memory_order_relaxed);
    uint64_t ns_per_tick = atomic_load_explicit(&tdi_clock.ns_per_tick, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    uint32_t again = atomic_load_explicit(&tdi_clock.sequence, memory_order_relaxed);
    uint64_t elapsed = tdi_clock_ticks() - anchor_ticks;
    *now_ns = anchor_ns + (elapsed * ns_per_tick >> 32);
    return tdi_likely(elapsed < horizon && sequence == again && !(sequence & 1));
}

static inline uint64_t tdi_clock_now_ns(void)
{
    uint64_t now_ns;
    return tdi_likely(tdi_clock_try_now(&now_ns)) ? now_ns : tdi_clock_read_and_anchor();
}

#endif
