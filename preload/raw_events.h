/* SPDX-License-Identifier: MIT */
/* The part of raw.c that is about waiting for events, and about descriptors as such. */
#ifndef TUNDISH_PRELOAD_RAW_EVENTS_H
#define TUNDISH_PRELOAD_RAW_EVENTS_H

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>

#include "raw_macros.h"

#define KERNEL_MASK ((size_t)8) /* bytes of a set of signals */

#ifdef SYS_epoll_pwait2
#define NR_EPOLL_PWAIT2 SYS_epoll_pwait2
#else
#define NR_EPOLL_PWAIT2 441
#endif

RAW4(int, epoll_ctl, int, int, int, struct epoll_event *)
RAW3(int, close_range, unsigned, unsigned, int)
RAW3(int, dup3, int, int, int)
RAW4(int, accept4, int, struct sockaddr *, socklen_t *, int)
RAW3(int, socket, int, int, int)
RAW4(int, socketpair, int, int, int, int *)

static int raw_epoll_create1(int flags)
{
    return (int)syscall(SYS_epoll_create1, flags);
}

static int raw_epoll_create(int size)
{
    (void)size;
    return raw_epoll_create1(0);
}

static int raw_epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout_ms,
                           const sigset_t *mask)
{
    return (int)syscall(SYS_epoll_pwait, epfd, events, max, timeout_ms, mask, KERNEL_MASK);
}

static int raw_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms)
{
    return raw_epoll_pwait(epfd, events, max, timeout_ms, NULL);
}

static int raw_epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
                            const sigset_t *mask)
{
    return (int)syscall(NR_EPOLL_PWAIT2, epfd, events, max, timeout, mask, KERNEL_MASK);
}

/* The kernel writes what is left into the timeout. */
static int raw_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec left = {0, 0};
    if (timeout != NULL)
        left = *timeout;
    return (int)syscall(SYS_ppoll, fds, n, timeout == NULL ? NULL : &left, mask, KERNEL_MASK);
}

static int raw_ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
                         size_t room)
{
    (void)room;
    return raw_ppoll(fds, n, timeout, mask);
}

static int raw_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    return raw_ppoll(fds, n, timeout_ms < 0 ? NULL : &timeout, NULL);
}

static int raw_poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room)
{
    (void)room;
    return raw_poll(fds, n, timeout_ms);
}

static int raw_pselect(int n, fd_set *in, fd_set *out, fd_set *other, const struct timespec *timeout,
                       const sigset_t *mask)
{
    struct timespec left = {0, 0};
    const struct {
        const sigset_t *mask;
        size_t len;
    } signals = {mask, KERNEL_MASK};
    if (timeout != NULL)
        left = *timeout;
    return (int)syscall(SYS_pselect6, n, in, out, other, timeout == NULL ? NULL : &left, &signals);
}

static int raw_select(int n, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout)
{
    struct timespec t = {0, 0};
    if (timeout != NULL)
        t = (struct timespec){timeout->tv_sec, timeout->tv_usec * 1000L};
    return raw_pselect(n, in, out, other, timeout == NULL ? NULL : &t, NULL);
}

static int raw_close(int fd)
{
    return (int)syscall(SYS_close, fd);
}

static void raw_closefrom(int first)
{
    (void)raw_close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0);
}

static int raw_dup(int fd)
{
    return (int)syscall(SYS_dup, fd);
}

static int raw_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

static int raw_dup2(int from, int to)
{
    if (from == to)
        return raw_fcntl(from, F_GETFD, NULL) < 0 ? -1 : to;
    return raw_dup3(from, to, 0);
}

static int raw_accept(int fd, struct sockaddr *address, socklen_t *len)
{
    return raw_accept4(fd, address, len, 0);
}

/* No system calls: libc's own, looked up without anything being allocated. */
static int raw_fclose(FILE *stream)
{
    int (*libcs)(FILE *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "fclose");
    memcpy(&libcs, &symbol, sizeof symbol);
    return libcs(stream);
}

static FILE *raw_freopen(const char *path, const char *mode, FILE *stream)
{
    FILE *(*libcs)(const char *, const char *, FILE *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "freopen");
    memcpy(&libcs, &symbol, sizeof symbol);
    return libcs(path, mode, stream);
}

#endif
