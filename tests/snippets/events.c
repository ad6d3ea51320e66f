/* SPDX-License-Identifier: MIT */
/* Waiting for events: a connected socket is writable, nothing is there to be read, and nothing is charged. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "snippets.h"

/* Whether the socket is found writable, and only that: 0, or the line. */
typedef int look_fn(int fd);

static int by_poll(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
    CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLOUT);
    p.events = POLLIN;
    CHECK(poll(&p, 1, 1) == 0 && p.revents == 0);
    return 0;
}

static int by_ppoll(int fd)
{
    const struct timespec timeout = {0, 1000000};
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
    CHECK(ppoll(&p, 1, NULL, NULL) == 1 && p.revents == POLLOUT);
    p.events = POLLIN;
    CHECK(ppoll(&p, 1, &timeout, NULL) == 0 && p.revents == 0);
    return 0;
}

static int by_select(int fd)
{
    struct timeval timeout = {0, 1000};
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(fd, &in);
    FD_SET(fd, &out);
    CHECK(select(fd + 1, &in, &out, NULL, NULL) == 1 && FD_ISSET(fd, &out) && !FD_ISSET(fd, &in));
    FD_SET(fd, &in);
    CHECK(select(fd + 1, &in, NULL, NULL, &timeout) == 0 && !FD_ISSET(fd, &in));
    CHECK(timeout.tv_sec == 0 && timeout.tv_usec == 0);
    return 0;
}

static int by_pselect(int fd)
{
    const struct timespec timeout = {0, 1000000};
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(fd, &in);
    FD_SET(fd, &out);
    CHECK(pselect(fd + 1, &in, &out, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &out) && !FD_ISSET(fd, &in));
    FD_SET(fd, &in);
    CHECK(pselect(fd + 1, &in, NULL, NULL, &timeout, NULL) == 0 && !FD_ISSET(fd, &in));
    return 0;
}

typedef int epoll_fn(int epfd, struct epoll_event *event, int timeout_ms);

static int call_epoll_wait(int epfd, struct epoll_event *event, int timeout_ms)
{
    return epoll_wait(epfd, event, 1, timeout_ms);
}

static int call_epoll_pwait(int epfd, struct epoll_event *event, int timeout_ms)
{
    return epoll_pwait(epfd, event, 1, timeout_ms, NULL);
}

static int call_epoll_pwait2(int epfd, struct epoll_event *event, int timeout_ms)
{
    const struct timespec timeout = {0, timeout_ms * 1000000L};
    return epoll_pwait2(epfd, event, 1, timeout_ms < 0 ? NULL : &timeout, NULL);
}

static int with(epoll_fn *wait, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u64 = 7};
    int epfd = epoll_create1(0);
    CHECK(epfd >= 0 && epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(wait(epfd, &event, -1) == 1 && event.events == EPOLLOUT && event.data.u64 == 7);
    event.events = EPOLLIN;
    CHECK(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event) == 0 && wait(epfd, &event, 1) == 0);
    CHECK(epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL) == 0);
    close(epfd);
    return 0;
}

static int by_epoll_wait(int fd)
{
    return with(call_epoll_wait, fd);
}

static int by_epoll_pwait(int fd)
{
    return with(call_epoll_pwait, fd);
}

static int by_epoll_pwait2(int fd)
{
    return with(call_epoll_pwait2, fd);
}

static int look(look_fn *by)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    errno = EDOM;
    int line = by(ends[0]);
    CHECK(line != 0 || errno == EDOM);
    close(ends[1]);
    close(ends[0]);
    return line;
}

#define SNIPPET(name)                                                                                        \
    static int run_##name(void)                                                                              \
    {                                                                                                        \
        return look(by_##name);                                                                              \
    }                                                                                                        \
    const struct snippet snippet_##name = {#name, SNIPPET_FREE, run_##name};

SNIPPET(epoll_wait)
SNIPPET(epoll_pwait)
SNIPPET(epoll_pwait2)
SNIPPET(poll)
SNIPPET(ppoll)
SNIPPET(select)
SNIPPET(pselect)
