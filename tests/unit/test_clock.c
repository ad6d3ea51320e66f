/* SPDX-License-Identifier: MIT */
/*
 * The clock against the kernel's. Each reading is judged by the two of the kernel's that it lies between and
 * by nothing else, so that a loaded machine passes too.
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "plat/clock.h"
#include "plat/proc.h"
#include "unit.h"

#define SLACK_NS UINT64_C(1000)

static const enum tdi_clock_source sources[] = {TDI_CLOCK_COUNTER, TDI_CLOCK_VDSO, TDI_CLOCK_SYSCALL};

static uint64_t kernel_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)((int64_t)now.tv_sec * 1000000000 + now.tv_nsec - tdi_proc_boottime_offset_ns());
}

/* Reads as fast as possible for so long. */
static void compare_for(uint64_t span_ns)
{
    uint64_t end_ns = kernel_ns() + span_ns, before, after;
    do {
        before = kernel_ns();
        uint64_t now = tdi_clock_now_ns();
        after = kernel_ns();
        kit_expect(now >= before - SLACK_NS && now <= after + SLACK_NS,
                   "%" PRIu64 " ns is not within %" PRIu64 " .. %" PRIu64 " (before by %" PRId64
                   ", after by %" PRId64 ")",
                   now, before, after, (int64_t)(before - now), (int64_t)(now - after));
    } while (after < end_ns);
}

START_TEST(the_clock_shows_boot_time_within_a_microsecond)
{
    compare_for(800 * KIT_MILLISECOND);
    tdi_clock_forget();
    compare_for(100 * KIT_MILLISECOND);
}
END_TEST

START_TEST(every_source_shows_the_same_time)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
#if defined(__x86_64__)
        /* The counter may be unfit here; then it is never decided for, and what it shows is nobody's. */
        tdi_clock_force(TDI_CLOCK_UNDECIDED);
        if (sources[i] == TDI_CLOCK_COUNTER && tdi_clock_source() != TDI_CLOCK_COUNTER)
            continue;
#endif
        tdi_clock_force(sources[i]);
        ck_assert_int_eq(tdi_clock_source(), sources[i]);
        compare_for(100 * KIT_MILLISECOND);
    }
}
END_TEST

START_TEST(a_forgotten_clock_reads_the_kernels_and_learns_anew)
{
    compare_for(10 * KIT_MILLISECOND);
    for (int i = 0; i < 20; i++) {
        tdi_clock_forget();
        ck_assert_uint_eq(atomic_load(&tdi_clock.horizon_ticks), 0);
        ck_assert_uint_eq(atomic_load(&tdi_clock.sequence) % 2, 0);
        compare_for(3 * KIT_MILLISECOND);
    }
}
END_TEST

START_TEST(a_clock_caught_in_an_update_still_shows_the_time)
{
    compare_for(10 * KIT_MILLISECOND);
    /* As a signal handler or another thread finds it. */
    uint32_t sequence = atomic_load(&tdi_clock.sequence);
    atomic_store(&tdi_clock.sequence, sequence | 1);
    compare_for(10 * KIT_MILLISECOND);
    ck_assert_uint_eq(atomic_load(&tdi_clock.sequence), sequence | 1);
    /* As the child of a fork in the middle of it does. */
    tdi_clock_forget();
    ck_assert_uint_eq(atomic_load(&tdi_clock.sequence) % 2, 0);
    compare_for(10 * KIT_MILLISECOND);
}
END_TEST

START_TEST(reading_the_clock_keeps_errno)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        tdi_clock_force(TDI_CLOCK_UNDECIDED);
        errno = EXDEV;
        tdi_clock_source();
        ck_assert_int_eq(errno, EXDEV);
        tdi_clock_force(sources[i]);
        tdi_clock_now_ns();
        ck_assert_int_eq(errno, EXDEV);
    }
}
END_TEST

#if defined(__x86_64__)
/* In a process where reading the counter is a segmentation fault, and so is the kernel's clock in user space.
 */
static int read_without_counter(unsigned index, void *shared)
{
    (void)index, (void)shared;
    tdi_clock_force(TDI_CLOCK_UNDECIDED);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0)
        return 0;
    uint64_t last = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t now = tdi_clock_now_ns();
        if (now < last)
            return 1;
        last = now;
    }
    tdi_clock_forget();
    if (tdi_clock_now_ns() < last)
        return 2;
    return tdi_clock_source() == TDI_CLOCK_SYSCALL ? 0 : 3;
}

START_TEST(a_process_that_may_not_read_the_counter_never_does)
{
    kit_collect(kit_spawn(1, read_without_counter, NULL), 30 * KIT_SECOND);
}
END_TEST
#endif

static Suite *the_clock(void)
{
    Suite *suite = suite_create("clock");
    TCase *reading = unit_case(suite, "reading");
    tcase_add_test(reading, the_clock_shows_boot_time_within_a_microsecond);
    tcase_add_test(reading, every_source_shows_the_same_time);
    tcase_add_test(reading, a_forgotten_clock_reads_the_kernels_and_learns_anew);
    tcase_add_test(reading, a_clock_caught_in_an_update_still_shows_the_time);
    tcase_add_test(reading, reading_the_clock_keeps_errno);
#if defined(__x86_64__)
    tcase_add_test(reading, a_process_that_may_not_read_the_counter_never_does);
#endif
    return suite;
}

KIT_MAIN(the_clock)
