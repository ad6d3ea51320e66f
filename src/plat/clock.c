/* SPDX-License-Identifier: MIT */
/*
 * The counter's rate is measured between two readings of both clocks at least a millisecond apart; until the
 * second one exists the kernel's clock is read. One thread at a time updates, decided by making the sequence
 * odd; whoever comes meanwhile uses the kernel's clock for that one reading. So nobody waits, a signal
 * handler that interrupts an update works, and a wrong anchor lives a millisecond at most.
 */
#include "plat/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "plat/proc.h"

#define HORIZON_NS UINT64_C(1000000) /* an anchor's life; a slew of 500 ppm is 0.5 us by then */
#define WINDOW_MIN_NS                                                                                        \
    UINT64_C(                                                                                                \
        1000000) /* two readings of 0.1 us precision give 100 ppm: 0.1 us a horizon                     \
                       */
#define WINDOW_GOOD_NS UINT64_C(100000000)
#define WINDOW_MAX_NS UINT64_C(2000000000) /* longer may hold a suspend: start over */
#define READING_TRIES 4

struct reading {
    uint64_t ticks;
    uint64_t ns;
    uint64_t gap_ticks; /* between the counter before and after */
};

struct tdi_clock tdi_clock;

static _Atomic(int) source_decided;
/* Written only by the holder of the odd sequence. */
static struct reading window_start;
static uint64_t smallest_gap_ticks;

static uint64_t kernel_ns(bool by_syscall)
{
    struct timespec now;
    int saved = errno;
    if (by_syscall)
        syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    else
        clock_gettime(CLOCK_BOOTTIME, &now);
    errno = saved;
    uint64_t ns = (uint64_t)now.tv_sec * TDI_NS_PER_S + (uint64_t)now.tv_nsec;
    return ns - (uint64_t)tdi_proc_boottime_offset_ns();
}

#if defined(__x86_64__)
static uint64_t cost_ticks(bool by_syscall)
{
    uint64_t least = UINT64_MAX;
    struct timespec now;
    for (int i = 0; i < 8; i++) {
        uint64_t start = tdi_clock_ticks();
        if (by_syscall)
            syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
        else
            clock_gettime(CLOCK_BOOTTIME, &now);
        uint64_t cost = tdi_clock_ticks() - start;
        least = cost < least ? cost : least;
    }
    return least;
}

/*
 * The kernel's own clock reads the TSC in user space exactly if it found the TSCs of all processors to agree
 * (clocksource tsc, or a hypervisor's clock that vouches for it), and makes a real system call otherwise
 * (also under valgrind). That is visible in its cost and needs no file, which a sandbox may lack.
 */
static enum tdi_clock_source decide(void)
{
    int mode = PR_TSC_ENABLE;
    if (prctl(PR_GET_TSC, &mode) == 0 && mode != PR_TSC_ENABLE)
        return TDI_CLOCK_SYSCALL;
    unsigned a = 0, b = 0, c = 0, d = 0;
    const unsigned invariant_tsc = 1u << 8;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & invariant_tsc))
        return TDI_CLOCK_VDSO;
    return 2 * cost_ticks(false) < cost_ticks(true) ? TDI_CLOCK_COUNTER : TDI_CLOCK_VDSO;
}
#elif defined(__aarch64__)
static enum tdi_clock_source decide(void)
{
    return TDI_CLOCK_COUNTER;
}
#else
static enum tdi_clock_source decide(void)
{
    return TDI_CLOCK_VDSO;
}
#endif

static enum tdi_clock_source source(void)
{
    int decided = atomic_load_explicit(&source_decided, memory_order_relaxed);
    if (tdi_unlikely(decided == TDI_CLOCK_UNDECIDED)) {
        int saved = errno;
        decided = (int)decide();
        errno = saved;
        atomic_store_explicit(&source_decided, decided, memory_order_relaxed);
    }
    return (enum tdi_clock_source)decided;
}

static struct reading read_both(void)
{
    struct reading best = {0, 0, UINT64_MAX};
    for (int i = 0; i < READING_TRIES; i++) {
        uint64_t before = tdi_clock_ticks();
        uint64_t ns = kernel_ns(false);
        uint64_t gap = tdi_clock_ticks() - before;
        if (gap < best.gap_ticks || i == 0)
            best = (struct reading){before + gap / 2, ns, gap};
        if (best.gap_ticks <= 2 * smallest_gap_ticks)
            break;
    }
    return best;
}

/* Measures the rate again where the window allows; says whether there is a rate to use. */
static bool measure_rate(const struct reading *now)
{
    uint64_t old = atomic_load_explicit(&tdi_clock.ns_per_tick, memory_order_relaxed);
    uint64_t window_ns = now->ns - window_start.ns;
    uint64_t window_ticks = now->ticks - window_start.ticks;
    bool calibrated = atomic_load_explicit(&tdi_clock.horizon_ticks, memory_order_relaxed) != 0;

    if (window_start.ns == 0 || window_ns > WINDOW_MAX_NS || window_ticks == 0) {
        window_start = *now;
        return calibrated;
    }
    if (window_ns < (calibrated ? WINDOW_GOOD_NS : WINDOW_MIN_NS))
        return calibrated;
    uint64_t rate = (uint64_t)(((tdi_wide)window_ns << 32) / window_ticks);
    uint64_t off = rate > old ? rate - old : old - rate;
    window_start = *now;
    if (rate == 0 || (calibrated && off > old / 100)) { /* the counter stood still or jumped: learn anew */
        atomic_store_explicit(&tdi_clock.horizon_ticks, 0, memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&tdi_clock.ns_per_tick, rate, memory_order_relaxed);
    return true;
}

static void anchor(const struct reading *now)
{
    bool usable = smallest_gap_ticks == 0 || now->gap_ticks <= 8 * smallest_gap_ticks;
    if (smallest_gap_ticks == 0 || now->gap_ticks < smallest_gap_ticks)
        smallest_gap_ticks = now->gap_ticks ? now->gap_ticks : 1;
    if (!usable || !measure_rate(now))
        return; /* preempted between the two clocks, or no rate yet: the old anchor lives until it expires */
    uint64_t rate = atomic_load_explicit(&tdi_clock.ns_per_tick, memory_order_relaxed);
    uint64_t horizon = (uint64_t)(((tdi_wide)HORIZON_NS << 32) / rate);
    atomic_store_explicit(&tdi_clock.anchor_ticks, now->ticks, memory_order_relaxed);
    atomic_store_explicit(&tdi_clock.anchor_ns, now->ns, memory_order_relaxed);
    atomic_store_explicit(&tdi_clock.horizon_ticks, horizon ? horizon : 1, memory_order_relaxed);
}

uint64_t tdi_clock_read_and_anchor(void)
{
    enum tdi_clock_source from = source();
    if (from != TDI_CLOCK_COUNTER)
        return kernel_ns(from == TDI_CLOCK_SYSCALL);

    uint32_t sequence = atomic_load_explicit(&tdi_clock.sequence, memory_order_relaxed);
    /* Acquire pairs with the release below: the previous holder's plain fields are ours now. */
    if ((sequence & 1) ||
        !atomic_compare_exchange_strong_explicit(&tdi_clock.sequence, &sequence, sequence + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return kernel_ns(false);
    /* Keeps the stores of the new anchor behind the odd sequence, for tdi_clock_now_ns's second look. */
    atomic_thread_fence(memory_order_release);
    struct reading now = read_both();
    anchor(&now);
    /* Pairs with the acquire in tdi_clock_now_ns: who sees this even sequence sees the whole anchor. */
    atomic_store_explicit(&tdi_clock.sequence, sequence + 2, memory_order_release);
    return now.ns;
}

enum tdi_clock_source tdi_clock_source(void)
{
    return source();
}

void tdi_clock_forget(void)
{
    atomic_store_explicit(&tdi_clock.horizon_ticks, 0, memory_order_relaxed);
    window_start = (struct reading){0, 0, 0};
    /* Even again whatever it was; a plain restart, since the child has one thread. */
    uint32_t sequence = atomic_load_explicit(&tdi_clock.sequence, memory_order_relaxed);
    atomic_store_explicit(&tdi_clock.sequence, (sequence + 2) & ~1u, memory_order_release);
}

void tdi_clock_force(enum tdi_clock_source source)
{
    atomic_store_explicit(&source_decided, (int)source, memory_order_relaxed);
    tdi_clock_forget();
}
