/* SPDX-License-Identifier: MIT */
/*
 * epoll. A registration of a socket in debt does not fire by itself; so whoever waits for it sleeps no longer
 * than until some debt is due, looks after all debts, and goes on waiting. Without debts the calls pass.
 */
#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>

#include "calls/gone.h"
#include "fd.h"
#include "gate.h"
#include "lib/cancel.h"
#include "ready/ready.h"
#include "ready/round.h"
#include "ready/watch.h"
#include "real.h"

struct epoll_call {
    int epfd;
    struct epoll_event *events;
    int max;
    const sigset_t *mask;
};

static atomic_bool
    no_nanoseconds; /* epoll_pwait2 is missing (Linux < 5.11), or forbidden by a filter that is older */

static int milliseconds(const struct timespec *timeout)
{
    if (timeout == NULL)
        return -1;
    if (timeout->tv_sec >= INT_MAX / 1000)
        return INT_MAX;
    return (int)timeout->tv_sec * 1000 + (int)((timeout->tv_nsec + 999999) / 1000000);
}

static int wait_once(const struct epoll_call *call, const struct timespec *timeout)
{
    const struct tdi_real *real = tdi_real();
    int saved_errno = errno;
    if (!atomic_load_explicit(&no_nanoseconds, memory_order_relaxed)) {
        int n = real->epoll_pwait2(call->epfd, call->events, call->max, timeout, call->mask);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;
        atomic_store_explicit(&no_nanoseconds, true, memory_order_relaxed);
        errno = saved_errno;
    }
    return real->epoll_pwait(call->epfd, call->events, call->max, milliseconds(timeout), call->mask);
}

static int wait_in_rounds(struct epoll_call *call, uint64_t timeout_ns)
{
    struct tdi_round round;
    int n;
    tdi_round_begin(&round, timeout_ns);
    if (call->mask == NULL)
        call->mask = &round.mask;
    tdi_cleanup_push(tdi_round_end, &round);
    do {
        struct timespec timeout;
        n = wait_once(call, tdi_round_timeout(&round, tdi_ready_serve(), &timeout));
    } while (n == 0 && tdi_round_left_ns(&round) > 0);
    tdi_cleanup_pop();
    tdi_round_end(&round);
    return n;
}

static int made(int epfd)
{
    (void)tdi_born(epfd);
    tdi_watch_made(epfd);
    return epfd;
}

static int fired(int epfd, const struct epoll_event *events, int n)
{
    tdi_watch_fired(epfd, events, n);
    return n;
}

/* Who makes one is going to wait for events, and can be owed one from now on. */
TDI_WRAPPER int epoll_create(int size)
{
    tdi_ready_note_use();
    return made(tdi_real()->epoll_create(size));
}

TDI_WRAPPER int epoll_create1(int flags)
{
    tdi_ready_note_use();
    return made(tdi_real()->epoll_create1(flags));
}

TDI_WRAPPER int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    tdi_ready_note_use();
    return tdi_watch_ctl(epfd, op, fd, event);
}

TDI_WRAPPER int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms)
{
    tdi_ready_note_wait();
    if (!tdi_ready_any())
        return fired(epfd, events, tdi_real()->epoll_wait(epfd, events, max, timeout_ms));
    struct epoll_call call = {epfd, events, max, NULL};
    return fired(epfd, events, wait_in_rounds(&call, tdi_round_ms(timeout_ms)));
}

TDI_WRAPPER int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout_ms,
                            const sigset_t *mask)
{
    tdi_ready_note_wait();
    if (!tdi_ready_any())
        return fired(epfd, events, tdi_real()->epoll_pwait(epfd, events, max, timeout_ms, mask));
    struct epoll_call call = {epfd, events, max, mask};
    return fired(epfd, events, wait_in_rounds(&call, tdi_round_ms(timeout_ms)));
}

TDI_WRAPPER int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
                             const sigset_t *mask)
{
    tdi_ready_note_wait();
    if (!tdi_ready_any() || (timeout != NULL && !tdi_fd_readable(timeout, sizeof *timeout)) ||
        !tdi_round_is_sound(timeout))
        return fired(epfd, events, tdi_real()->epoll_pwait2(epfd, events, max, timeout, mask));
    struct epoll_call call = {epfd, events, max, mask};
    return fired(epfd, events, wait_in_rounds(&call, tdi_round_timespec(timeout)));
}
