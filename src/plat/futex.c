/* SPDX-License-Identifier: MIT */
/*
 * Absolute waits on CLOCK_MONOTONIC, the only steady clock futexes know. It stands still during a suspend,
 * where CLOCK_BOOTTIME does not, so that a wait across one ends late by what was left of it; callers look
 * again at least every second.
 */
#include "plat/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "plat/clock.h"

struct timespec tdi_futex_until(uint64_t wake_ns)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    /* The other clock second: whoever is stopped in between wakes early and looks again, instead of late. */
    uint64_t now_ns = tdi_clock_now_ns();
    uint64_t left_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
    uint64_t ns = (uint64_t)at.tv_nsec + left_ns % TDI_NS_PER_S;
    at.tv_sec += (time_t)(left_ns / TDI_NS_PER_S + ns / TDI_NS_PER_S);
    at.tv_nsec = (long)(ns % TDI_NS_PER_S);
    return at;
}

int tdi_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, const struct timespec *until)
{
    int saved = errno;
    int result = 0;
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, until, NULL, FUTEX_BITSET_MATCH_ANY) != 0)
        result = errno == EAGAIN ? 0 : -errno;
    errno = saved;
    return result;
}

struct timespec tdi_futex_span(uint64_t wake_ns)
{
    uint64_t now_ns = tdi_clock_now_ns();
    uint64_t left_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
    return (struct timespec){(time_t)(left_ns / TDI_NS_PER_S), (long)(left_ns % TDI_NS_PER_S)};
}

int tdi_futex_sleep_with_mask(const struct timespec *span, const sigset_t *mask)
{
    int saved = errno;
    struct timespec left = *span; /* the kernel writes to it */
    const size_t kernels_mask_size = 8;
    int result = syscall(SYS_ppoll, NULL, 0, &left, mask, kernels_mask_size) < 0 ? -errno : 0;
    errno = saved;
    return result;
}

unsigned long tdi_futex_slack(void)
{
    int saved = errno;
    int slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    errno = saved;
    return slack_ns > 0 ? (unsigned long)slack_ns : 0;
}

void tdi_futex_set_slack(unsigned long slack_ns)
{
    int saved = errno;
    if (slack_ns > 0)
        prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0);
    errno = saved;
}

static void wake(_Atomic(uint32_t) *word, int most)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
    errno = saved;
}

void tdi_futex_wake_all(_Atomic(uint32_t) *word)
{
    wake(word, INT_MAX);
}

void tdi_futex_wake_one(_Atomic(uint32_t) *word)
{
    wake(word, 1);
}
