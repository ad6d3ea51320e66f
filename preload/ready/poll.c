/* SPDX-License-Identifier: MIT */
/*
 * poll. What must not be shown of sockets in debt is not asked of the kernel, in a copy of the program's
 * question: other threads may be using the same one. Errors and hang-ups are always answered.
 */
#include <errno.h>
#include <poll.h>

#include "fd.h"
#include "gate.h"
#include "lib/cancel.h"
#include "ready/company.h"
#include "ready/ready.h"
#include "ready/round.h"
#include "real.h"

#define FEW 128                /* are copied to the stack: 1 kB */
#define MANY ((nfds_t)1 << 24) /* more than a process may have */

/* Copies the question without what is hidden, and returns when to ask again. */
static uint64_t hide(struct pollfd *handed, const struct pollfd *asked, nfds_t n)
{
    uint64_t due_ns = tdi_ready_serve();
    for (nfds_t i = 0; i < n; i++) {
        handed[i] = asked[i];
        if (asked[i].fd >= 0 && asked[i].events != 0)
            handed[i].events &= (short)~tdi_ready_hidden(asked[i].fd, asked[i].events, &due_ns);
    }
    return due_ns;
}

/* As the kernel does, the answers are written after a signal, too. */
static void answer(struct pollfd *asked, const struct pollfd *handed, nfds_t n, int result)
{
    if (result < 0 && errno != EINTR)
        return;
    for (nfds_t i = 0; i < n; i++)
        asked[i].revents = handed[i].revents;
}

static int wait_in_rounds(struct pollfd *asked, nfds_t n, uint64_t timeout_ns, const sigset_t *mask)
{
    struct pollfd few[FEW];
    struct tdi_round round;
    int result;
    tdi_round_begin(&round, timeout_ns);
    struct pollfd *handed = tdi_round_room(&round, few, sizeof few, n * sizeof *asked);
    if (mask == NULL)
        mask = &round.mask;
    tdi_cleanup_push(tdi_round_end, &round);
    do {
        struct timespec timeout;
        if (handed != NULL) {
            uint64_t due_ns = hide(handed, asked, n);
            result = tdi_real()->ppoll(handed, n, tdi_round_timeout(&round, due_ns, &timeout), mask);
            answer(asked, handed, n, result);
        } else {
            result = tdi_real()->ppoll(asked, n, tdi_round_timeout(&round, TDI_NEVER_NS, &timeout), mask);
        }
    } while (result == 0 && tdi_round_left_ns(&round) > 0);
    tdi_cleanup_pop();
    tdi_round_end(&round);
    return result;
}

/* Whether to wait in rounds: there are debts, and the kernel would get as far as reading the question. */
static bool is_ours(struct pollfd *fds, nfds_t n)
{
    return tdi_ready_any() && tdi_inside.house == 0 && n < MANY &&
           (n == 0 || tdi_fd_readable(fds, n * sizeof *fds));
}

static bool is_sound(const struct timespec *timeout)
{
    return timeout == NULL || (tdi_fd_readable(timeout, sizeof *timeout) && tdi_round_is_sound(timeout));
}

/* Our own library only looks, and so does a program that is not going to wait for what it is owed. */
static void note_use(int timeout_ms)
{
    if (timeout_ms != 0)
        tdi_ready_note_wait();
}

/* An answer says that the question could be read. */
static int seen(const struct pollfd *fds, nfds_t n, int result)
{
    if (result >= 0)
        tdi_company_polled(fds, n);
    return result;
}

TDI_WRAPPER int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    note_use(timeout_ms);
    if (!is_ours(fds, n))
        return seen(fds, n, tdi_real()->poll(fds, n, timeout_ms));
    return seen(fds, n, wait_in_rounds(fds, n, tdi_round_ms(timeout_ms), NULL));
}

TDI_WRAPPER int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    tdi_ready_note_wait();
    if (!is_ours(fds, n) || !is_sound(timeout))
        return seen(fds, n, tdi_real()->ppoll(fds, n, timeout, mask));
    return seen(fds, n, wait_in_rounds(fds, n, tdi_round_timespec(timeout), mask));
}

/* The checked variants that libc has: it ends a program that would overrun its array. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
                size_t room);

TDI_WRAPPER int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room)
{
    note_use(timeout_ms);
    if (n > room / sizeof *fds || !is_ours(fds, n))
        return seen(fds, n, tdi_real()->poll_chk(fds, n, timeout_ms, room));
    return seen(fds, n, wait_in_rounds(fds, n, tdi_round_ms(timeout_ms), NULL));
}

TDI_WRAPPER int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                            const sigset_t *mask, size_t room)
{
    if (n > room / sizeof *fds || !is_ours(fds, n) || !is_sound(timeout))
        return tdi_real()->ppoll_chk(fds, n, timeout, mask, room);
    return seen(fds, n, wait_in_rounds(fds, n, tdi_round_timespec(timeout), mask));
}
