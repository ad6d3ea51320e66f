/* SPDX-License-Identifier: MIT */
/* Questions to the kernel, one function each; none of them is among the wrapped calls. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif

/* Not through libc's getsockopt: no other preloaded library's business. */
static bool ask(int fd, int level, int name, void *value, socklen_t len)
{
    int saved_errno = errno;
    bool answered = syscall(SYS_getsockopt, fd, level, name, value, &len) == 0;
    errno = saved_errno;
    return answered;
}

static short look(int fd)
{
    int saved_errno = errno;
    struct pollfd p = {.fd = fd, .events = 0};
    const struct timespec at_once = {0, 0};
    long n = syscall(SYS_ppoll, &p, 1, &at_once, NULL, 0);
    errno = saved_errno;
    return n == 1 ? p.revents : 0;
}

/* A mask is fetched before its operation is found to be none: EFAULT or EINVAL, and nothing is changed. */
static bool is_readable_word(const void *at)
{
    const int no_operation = ~0;
    return syscall(SYS_rt_sigprocmask, no_operation, at, NULL, sizeof(uint64_t)) == -1 && errno == EINVAL;
}

bool tdi_fd_readable(const void *at, size_t len)
{
    const uintptr_t page = 4096, word = sizeof(uint64_t);
    int saved_errno = errno;
    uintptr_t first = (uintptr_t)at, last = first + len - 1;
    bool readable = len > 0 && last >= first;
    for (uintptr_t where = first; readable && where <= last; where = (where / page + 1) * page)
        readable = is_readable_word((const void *)(where / word * word));
    errno = saved_errno;
    return readable;
}

bool tdi_fd_in_reach(int fd)
{
    int domain = -1;
    return ask(fd, SOL_SOCKET, SO_DOMAIN, &domain, sizeof domain) &&
           (domain == AF_INET || domain == AF_INET6);
}

int tdi_fd_type(int fd)
{
    int type = -1;
    return ask(fd, SOL_SOCKET, SO_TYPE, &type, sizeof type) ? type : -1;
}

bool tdi_fd_nonblocking(int fd)
{
    int saved_errno = errno;
    long flags = syscall(SYS_fcntl, fd, F_GETFL);
    errno = saved_errno;
    return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

uint64_t tdi_fd_send_timeout_ns(int fd)
{
    struct timeval t = {0, 0};
    if (!ask(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t))
        return 0;
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_usec * 1000;
}

uint64_t tdi_fd_cookie(int fd)
{
    uint64_t cookie = 0;
    return ask(fd, SOL_SOCKET, SO_COOKIE, &cookie, sizeof cookie) ? cookie : 0;
}

bool tdi_fd_broken(int fd)
{
    return (look(fd) & (POLLHUP | POLLNVAL)) != 0;
}

bool tdi_fd_connect_begun(int fd)
{
    unsigned char state = TCP_CLOSE; /* the first byte of struct tcp_info */
    if (ask(fd, IPPROTO_TCP, TCP_INFO, &state, sizeof state) && state != TCP_CLOSE)
        return true;
    return (look(fd) & POLLERR) != 0; /* POLLHUP alone: a fresh socket */
}
