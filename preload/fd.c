/* SPDX-License-Identifier: MIT */
/* Questions to the kernel, one function each; none of them is among the wrapped calls. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

static enum tdi_kind kind_of_file(int fd, const struct stat *status)
{
    if (S_ISFIFO(status->st_mode))
        return TDI_KIND_PIPE;
    if (S_ISREG(status->st_mode) || S_ISBLK(status->st_mode))
        return TDI_KIND_FILE;
    return S_ISCHR(status->st_mode) && isatty(fd) ? TDI_KIND_TTY : TDI_KIND_OTHER;
}

bool tdi_fd_kind(int fd, bool files, enum tdi_kind *kind)
{
    int saved_errno = errno;
    int domain = -1;
    socklen_t len = sizeof domain;
    struct stat status;
    bool open = true;
    *kind = TDI_KIND_OTHER;
    if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0)
        *kind = domain == AF_INET    ? TDI_KIND_INET
                : domain == AF_INET6 ? TDI_KIND_INET6
                : domain == AF_UNIX  ? TDI_KIND_UNIX
                                     : TDI_KIND_OTHER;
    else if (errno == EBADF)
        open = false;
    else if (files && fstat(fd, &status) == 0)
        *kind = kind_of_file(fd, &status);
    errno = saved_errno;
    return open;
}

bool tdi_fd_place_of(const struct sockaddr *address, socklen_t len, struct tdi_place *out)
{
    *out = (struct tdi_place){.kind = TDI_KIND_OTHER};
    if (len < sizeof address->sa_family)
        return false;
    if (address->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        out->kind = TDI_KIND_INET;
        out->port = ntohs(in.sin_port);
        memcpy(out->address, &in.sin_addr, sizeof in.sin_addr);
    } else if (address->sa_family == AF_INET6 && len >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
        struct sockaddr_in6 in6 = {0};
        memcpy(&in6, address, len < sizeof in6 ? len : sizeof in6);
        out->kind = TDI_KIND_INET6;
        out->port = ntohs(in6.sin6_port);
        memcpy(out->address, &in6.sin6_addr, sizeof in6.sin6_addr);
    } else if (address->sa_family == AF_UNIX) {
        out->kind = TDI_KIND_UNIX;
    }
    return out->kind != TDI_KIND_OTHER;
}

bool tdi_fd_peer(int fd, struct tdi_place *out)
{
    int saved_errno = errno;
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    bool known = syscall(SYS_getpeername, fd, &address, &len) == 0 &&
                 tdi_fd_place_of((const struct sockaddr *)&address, len, out);
    errno = saved_errno;
    return known;
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

uint64_t tdi_fd_timeout_ns(int fd, int option)
{
    struct timeval t = {0, 0};
    if (!ask(fd, SOL_SOCKET, option, &t, sizeof t))
        return 0;
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_usec * 1000;
}

/* Cookies are counted from 1, so the top bit is free to tell the others from them. */
uint64_t tdi_fd_key(int fd)
{
    int saved_errno = errno;
    uint64_t key = 0;
    struct stat status;
    if (!ask(fd, SOL_SOCKET, SO_COOKIE, &key, sizeof key) && fstat(fd, &status) == 0)
        key = UINT64_C(1) << 63 | (uint64_t)status.st_dev << 40 | (uint64_t)status.st_ino;
    errno = saved_errno;
    return key;
}

bool tdi_fd_broken(int fd)
{
    return (look(fd) & (POLLHUP | POLLNVAL)) != 0;
}

bool tdi_fd_troubled(int fd)
{
    return (look(fd) & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

bool tdi_fd_connect_begun(int fd)
{
    unsigned char state = TCP_CLOSE; /* the first byte of struct tcp_info */
    if (ask(fd, IPPROTO_TCP, TCP_INFO, &state, sizeof state) && state != TCP_CLOSE)
        return true;
    return (look(fd) & POLLERR) != 0; /* POLLHUP alone: a fresh socket */
}
