/* SPDX-License-Identifier: MIT */
/*
 * The numbers of one epoll are a ring: each names the next. One that was closed behind our back (a raw
 * system call) is still in it; so before a number is taken for another's equal the kernel is asked, which
 * only a filter of system calls or an old kernel does not answer. Numbers that were duplicated behind our
 * back are in no ring, and neither are those too high.
 */
#include "ready/twins.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "known.h"

#define EPOLLS 65536

static uint8_t
    epolls[EPOLLS / 8];        /* numbers that were epolls when they were made, or when something was added */
static uint32_t nexts[EPOLLS]; /* 0: in no ring; else the next number, plus 1 */

void tdi_twins_mark(int epfd)
{
    tdi_known_mark_watched(epfd);
    if (epfd < EPOLLS)
        epolls[epfd / 8] |= (uint8_t)(1u << epfd % 8);
}

static bool is_marked(int fd)
{
    return (epolls[fd / 8] >> fd % 8 & 1) != 0;
}

int tdi_twins_next(int epfd)
{
    return epfd < 0 || epfd >= EPOLLS || nexts[epfd] == 0 ? epfd : (int)nexts[epfd] - 1;
}

static void unlink_from_ring(int fd)
{
    int before = fd, after = tdi_twins_next(fd);
    while (tdi_twins_next(before) != fd)
        before = tdi_twins_next(before);
    nexts[before] = before == after ? 0 : (uint32_t)after + 1;
    nexts[fd] = 0;
}

void tdi_twins_made(int epfd)
{
    if (epfd < EPOLLS)
        unlink_from_ring(epfd);
    tdi_twins_mark(epfd);
}

void tdi_twins_add(int from, int to)
{
    if (from < 0 || from >= EPOLLS || to < 0 || to >= EPOLLS || from == to || !is_marked(from))
        return;
    unlink_from_ring(to);
    nexts[to] = (uint32_t)tdi_twins_next(from) + 1;
    nexts[from] = (uint32_t)to + 1;
    tdi_twins_mark(to);
}

static bool are_linked(int one, int other)
{
    for (int next = tdi_twins_next(one); next != one; next = tdi_twins_next(next))
        if (next == other)
            return true;
    return false;
}

bool tdi_twins_same(int one, int other)
{
    int saved_errno = errno;
    pid_t pid = getpid();
    long order = one == other ? 0 : syscall(SYS_kcmp, pid, pid, KCMP_FILE, one, other);
    bool same = order == 0 || (order < 0 && errno != EBADF && are_linked(one, other));
    errno = saved_errno;
    return same;
}

bool tdi_twins_leave(int fd, int *heir)
{
    *heir = -1;
    if (fd >= EPOLLS)
        return true;
    if (!is_marked(fd))
        return false;
    for (int next = tdi_twins_next(fd); next != fd && *heir < 0; next = tdi_twins_next(next))
        if (tdi_twins_same(fd, next))
            *heir = next;
    unlink_from_ring(fd);
    epolls[fd / 8] &= (uint8_t) ~(1u << fd % 8);
    return true;
}
