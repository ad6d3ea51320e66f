/* SPDX-License-Identifier: MIT */
/* A timerfd on CLOCK_BOOTTIME, in this process's time namespace. */
#include "plat/timer.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "plat/clock.h"
#include "plat/proc.h"

int tdi_timer_open(void)
{
    int saved = errno;
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    int result = fd >= 0 ? fd : -errno;
    errno = saved;
    return result;
}

int tdi_timer_set(int fd, uint64_t wake_ns)
{
    int saved = errno;
    int64_t offset_ns = tdi_proc_boottime_offset_ns();
    wake_ns = wake_ns > INT64_MAX / 2 ? INT64_MAX / 2 : wake_ns;
    int64_t sum_ns = (int64_t)wake_ns + offset_ns;
    uint64_t here_ns = sum_ns > 0 ? (uint64_t)sum_ns : 1; /* 0 would disarm */
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(here_ns / TDI_NS_PER_S), .tv_nsec = (long)(here_ns % TDI_NS_PER_S)}};
    int result = timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0 ? 0 : -errno;
    errno = saved;
    return result;
}

void tdi_timer_close(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
}
