/* SPDX-License-Identifier: MIT */
/* Descriptors that come and go. What their numbers meant before is not what they mean now; all is free. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "snippets.h"

/* Whether the peer sees the end: the last descriptor of the other one is closed. */
static int is_end(int peer)
{
    struct pollfd p = {.fd = peer, .events = POLLRDHUP};
    return poll(&p, 1, 10000) == 1 && (p.revents & POLLRDHUP) != 0;
}

static int run_close(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    errno = EDOM;
    CHECK(close(ends[0]) == 0 && errno == EDOM && is_end(ends[1]));
    CHECK(close(-1) == -1 && errno == EBADF);
    CHECK(close(ends[1]) == 0);
    return 0;
}

static int run_close_range(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    unsigned fd = (unsigned)ends[0];
    CHECK(fcntl(ends[0], F_SETFD, 0) == 0);
    CHECK(close_range(fd, fd, CLOSE_RANGE_CLOEXEC) == 0 && fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
    CHECK(close_range(fd, fd - 1, 0) == -1 && errno == EINVAL);
    CHECK(close_range(fd, fd, 0) == 0 && is_end(ends[1]));
    close(ends[1]);
    return 0;
}

static int run_dup(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    errno = EDOM;
    int other = dup(ends[0]);
    CHECK(other >= 0 && other != ends[0] && errno == EDOM);
    CHECK(dup(-1) == -1 && errno == EBADF);
    close(other);
    close(ends[0]);
    CHECK(is_end(ends[1]));
    close(ends[1]);
    return 0;
}

/* The one that is replaced is closed. */
static int run_dup2(void)
{
    int ends[2], others[2];
    CHECK(peer_pair(ends) == 0 && peer_pair(others) == 0);
    CHECK(dup2(-1, others[0]) == -1 && errno == EBADF);
    CHECK(dup2(others[0], others[0]) == others[0]);
    CHECK(dup2(ends[0], others[0]) == others[0] && is_end(others[1]));
    close(others[0]);
    close(others[1]);
    close(ends[0]);
    CHECK(is_end(ends[1]));
    close(ends[1]);
    return 0;
}

static int run_dup3(void)
{
    int ends[2], others[2];
    CHECK(peer_pair(ends) == 0 && peer_pair(others) == 0);
    CHECK(dup3(ends[0], ends[0], 0) == -1 && errno == EINVAL);
    CHECK(dup3(ends[0], others[0], O_CLOEXEC) == others[0] && is_end(others[1]));
    CHECK(fcntl(others[0], F_GETFD) == FD_CLOEXEC);
    close(others[0]);
    close(others[1]);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static int run_fcntl(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    int other = fcntl(ends[0], F_DUPFD, 50), third = fcntl(ends[0], F_DUPFD_CLOEXEC, 50);
    CHECK(other >= 50 && third >= 50 && fcntl(third, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && (fcntl(other, F_GETFL) & O_NONBLOCK) != 0);
    CHECK(fcntl(-1, F_GETFD) == -1 && errno == EBADF);
    close(third);
    close(other);
    close(ends[0]);
    CHECK(is_end(ends[1]));
    close(ends[1]);
    return 0;
}

static int run_accept(void)
{
    int listener = peer_listen(SOCK_STREAM);
    CHECK(listener >= 0 && fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    CHECK(accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
    close(listener);
    int ends[2];
    CHECK(peer_pair(ends) == 0); /* accepts one */
    close(ends[1]);
    close(ends[0]);
    return 0;
}

static int run_accept4(void)
{
    int listener = peer_listen(SOCK_STREAM);
    CHECK(listener >= 0 && fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    CHECK(accept4(listener, NULL, NULL, SOCK_CLOEXEC) == -1 && errno == EAGAIN);
    CHECK(accept4(-1, NULL, NULL, 0) == -1 && errno == EBADF);
    close(listener);
    return 0;
}

static int run_socketpair(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(socketpair(AF_INET, SOCK_STREAM, 0, ends) == -1 && errno == EOPNOTSUPP);
    CHECK(socket(-1, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

#define SNIPPET(name) const struct snippet snippet_##name = {#name, SNIPPET_FREE, run_##name};

SNIPPET(close)
SNIPPET(close_range)
SNIPPET(dup)
SNIPPET(dup2)
SNIPPET(dup3)
SNIPPET(fcntl)
SNIPPET(accept)
SNIPPET(accept4)
SNIPPET(socketpair)
