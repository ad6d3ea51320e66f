/* SPDX-License-Identifier: MIT */
/*
 * Event loops of every style send at the rate: none stalls because it was told EAGAIN or a short count that
 * the kernel knows nothing of, and none spins.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "loops.h"

#define CHUNK 16384

static void ctl(int epfd, int op, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    EXPECT(epoll_ctl(epfd, op, fd, &event) == 0, "op %d, errno %d", op, errno);
}

static int epoll_with(int fd, uint32_t events)
{
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    EXPECT(epfd >= 0, "errno %d", errno);
    ctl(epfd, EPOLL_CTL_ADD, fd, events);
    return epfd;
}

static void await(int epfd)
{
    struct epoll_event event;
    int n = epoll_wait(epfd, &event, 1, 20000);
    EXPECT(n == 1, "%d: the loop has stalled", n);
}

/* One write for each event. */
static void write_once_for_each(int fd, size_t n, uint32_t events)
{
    int epfd = epoll_with(fd, events);
    while (n > 0) {
        await(epfd);
        n -= loops_write(fd, n);
    }
    close(epfd);
}

static void by_level_triggered_epoll(int fd, size_t n)
{
    write_once_for_each(fd, n, EPOLLOUT);
}

static void by_epoll_for_in_and_out(int fd, size_t n)
{
    write_once_for_each(fd, n, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

static void by_exclusive_epoll(int fd, size_t n)
{
    write_once_for_each(fd, n, EPOLLOUT | EPOLLEXCLUSIVE);
}

static void by_edges_until_eagain(int fd, size_t n)
{
    int epfd = epoll_with(fd, EPOLLOUT | EPOLLET);
    while (n > 0) {
        size_t done;
        await(epfd);
        do
            n -= done = loops_write(fd, n);
        while (n > 0 && done > 0);
    }
    close(epfd);
}

/* As tokio does: a short count says that the next write would be refused. */
static void by_edges_until_a_short_count(int fd, size_t n)
{
    int epfd = epoll_with(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    while (n > 0) {
        size_t asked, done;
        await(epfd);
        do {
            asked = n < CHUNK ? n : CHUNK;
            n -= done = loops_write(fd, asked);
        } while (n > 0 && done == asked);
    }
    close(epfd);
}

/* As nginx does: written first, added once when that is refused. */
static void when_added_on_refusal(int fd, size_t n)
{
    int epfd = epoll_create1(0);
    bool added = false;
    while (n > 0) {
        size_t done = loops_write(fd, n);
        n -= done;
        if (done > 0)
            continue;
        if (!added)
            ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET);
        added = true;
        await(epfd);
    }
    close(epfd);
}

/* As libevent does: interest only while there is something to be written. */
static void when_added_and_deleted(int fd, size_t n)
{
    int epfd = epoll_create1(0);
    while (n > 0) {
        size_t done = loops_write(fd, n);
        n -= done;
        if (done > 0)
            continue;
        ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT);
        await(epfd);
        ctl(epfd, EPOLL_CTL_DEL, fd, 0);
    }
    close(epfd);
}

static void when_modified_after_each_refusal(int fd, size_t n)
{
    int epfd = epoll_with(fd, EPOLLOUT | EPOLLET);
    while (n > 0) {
        size_t done;
        await(epfd);
        n -= done = loops_write(fd, n);
        ctl(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT | EPOLLET);
    }
    close(epfd);
}

static void by_one_shots(int fd, size_t n)
{
    int epfd = epoll_with(fd, EPOLLOUT | EPOLLONESHOT);
    while (n > 0) {
        await(epfd);
        n -= loops_write(fd, n);
        ctl(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT | EPOLLONESHOT);
    }
    close(epfd);
}

static void by_nested_epolls(int fd, size_t n)
{
    int inner = epoll_with(fd, EPOLLOUT), outer = epoll_with(inner, EPOLLIN);
    while (n > 0) {
        struct epoll_event event;
        await(outer);
        if (epoll_wait(inner, &event, 1, 0) == 1)
            n -= loops_write(fd, n);
    }
    close(outer);
    close(inner);
}

static void by_poll_of_an_epoll(int fd, size_t n)
{
    int epfd = epoll_with(fd, EPOLLOUT);
    while (n > 0) {
        struct epoll_event event;
        struct pollfd p = {.fd = epfd, .events = POLLIN};
        EXPECT(poll(&p, 1, 20000) == 1 && p.revents == POLLIN, "the loop has stalled");
        if (epoll_wait(epfd, &event, 1, 0) == 1)
            n -= loops_write(fd, n);
    }
    close(epfd);
}

/* A loop that has something else to do every millisecond. */
static void with_short_timeouts(int fd, size_t n)
{
    int epfd = epoll_with(fd, EPOLLOUT);
    for (int idle = 0; n > 0; idle++) {
        struct epoll_event event;
        EXPECT(idle < 10000, "the loop has stalled");
        if (epoll_wait(epfd, &event, 1, 1) == 1)
            n -= loops_write(fd, n);
    }
    close(epfd);
}

static void under_another_number(int fd, size_t n)
{
    int other = dup(fd);
    int epfd = epoll_with(other, EPOLLOUT | EPOLLET);
    for (bool is_odd = false; n > 0; is_odd = !is_odd) {
        size_t done;
        await(epfd);
        while (n > 0 && (done = loops_write(is_odd ? other : fd, n)) > 0)
            n -= done;
    }
    close(epfd);
    close(other);
}

static void in_two_epolls(int fd, size_t n)
{
    int level = epoll_with(fd, EPOLLOUT), edge = epoll_with(fd, EPOLLOUT | EPOLLET);
    for (bool is_odd = false; n > 0; is_odd = !is_odd) {
        size_t done;
        await(is_odd ? level : edge);
        while (n > 0 && (done = loops_write(fd, n)) > 0)
            n -= done;
    }
    close(level);
    close(edge);
}

static void by_poll(int fd, size_t n)
{
    while (n > 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
        EXPECT(poll(&p, 1, 20000) == 1 && p.revents == POLLOUT, "the loop has stalled");
        EXPECT(p.events == (POLLIN | POLLOUT), "the question was changed");
        n -= loops_write(fd, n);
    }
}

static void by_ppoll(int fd, size_t n)
{
    const struct timespec timeout = {20, 5};
    struct timespec given = timeout;
    while (n > 0) {
        struct pollfd p[2] = {{.fd = -1}, {.fd = fd, .events = POLLOUT}};
        EXPECT(ppoll(p, 2, &given, NULL) == 1 && p[1].revents == POLLOUT, "the loop has stalled");
        EXPECT(given.tv_sec == 20 && given.tv_nsec == 5, "the timeout was changed");
        n -= loops_write(fd, n);
    }
}

static void by_select(int fd, size_t n)
{
    while (n > 0) {
        fd_set in, out;
        struct timeval timeout = {20, 0};
        FD_ZERO(&in);
        FD_ZERO(&out);
        FD_SET(fd, &in);
        FD_SET(fd, &out);
        EXPECT(select(fd + 1, &in, &out, NULL, &timeout) == 1, "the loop has stalled");
        EXPECT(FD_ISSET(fd, &out) && !FD_ISSET(fd, &in), "another one");
        EXPECT(timeout.tv_sec < 20, "the timeout was not changed");
        n -= loops_write(fd, n);
    }
}

/* With sets that are larger than FD_SETSIZE. */
static void by_pselect_of_large_sets(int fd, size_t n)
{
    const int high = 3000;
    const struct timespec timeout = {20, 0};
    fd_set *out = calloc(4, sizeof *out);
    int number = dup2(fd, high);
    EXPECT(number == high || errno == EBADF, "errno %d", errno);
    if (number < 0)
        guest_skip("not so many descriptors");
    while (n > 0) {
        unsigned long *words = (unsigned long *)(void *)out;
        const size_t bits = 8 * sizeof *words;
        words[(size_t)high / bits] |= 1ul << (size_t)high % bits;
        EXPECT(pselect(high + 1, NULL, out, NULL, &timeout, NULL) == 1, "the loop has stalled");
        EXPECT((words[(size_t)high / bits] >> (size_t)high % bits & 1) != 0, "another one");
        n -= loops_write(high, n);
    }
    close(high);
    free(out);
}

#define LOOP(name)                                                                                           \
    static void the_rate_is_kept_##name(void)                                                                \
    {                                                                                                        \
        loops_expect_rate(name);                                                                             \
    }

LOOP(by_level_triggered_epoll)
LOOP(by_epoll_for_in_and_out)
LOOP(by_exclusive_epoll)
LOOP(by_edges_until_eagain)
LOOP(by_edges_until_a_short_count)
LOOP(when_added_on_refusal)
LOOP(when_added_and_deleted)
LOOP(when_modified_after_each_refusal)
LOOP(by_one_shots)
LOOP(by_nested_epolls)
LOOP(by_poll_of_an_epoll)
LOOP(with_short_timeouts)
LOOP(under_another_number)
LOOP(in_two_epolls)
LOOP(by_poll)
LOOP(by_ppoll)
LOOP(by_select)
LOOP(by_pselect_of_large_sets)

/* Whatever the loop does while it may not write, it sleeps. */
static void expect_idle(void (*loop)(int fd, size_t n))
{
    uint64_t used_us = 1, took_us = 0;
    for (int try = 0; try < LOOPS_TRIES && used_us * 20 >= took_us; try++) {
        int fd = loops_upload();
        uint64_t cpu_us = loops_cpu_us(), start_us = loops_now_us();
        loop(fd, 400000);
        used_us = loops_cpu_us() - cpu_us;
        took_us = loops_now_us() - start_us;
        close(fd);
    }
    EXPECT(used_us * 20 < took_us, "%d us of %d", (int)used_us, (int)took_us);
    EXPECT(loops_threads() == 1, "%d threads", loops_threads());
}

static void loops_sleep_and_single_threaded_ones_stay_so(void)
{
    expect_idle(by_level_triggered_epoll);
    expect_idle(by_edges_until_a_short_count);
    expect_idle(when_modified_after_each_refusal);
    expect_idle(by_one_shots);
    expect_idle(when_added_and_deleted);
    expect_idle(by_poll);
    expect_idle(by_select);
}

#define LOOP_CASE(name) GUEST_CASE(the_rate_is_kept_##name, LOOPS_RATE)

static const struct guest_case cases[] = {
    LOOP_CASE(by_level_triggered_epoll),
    LOOP_CASE(by_epoll_for_in_and_out),
    LOOP_CASE(by_exclusive_epoll),
    LOOP_CASE(by_edges_until_eagain),
    LOOP_CASE(by_edges_until_a_short_count),
    LOOP_CASE(when_added_on_refusal),
    LOOP_CASE(when_added_and_deleted),
    LOOP_CASE(when_modified_after_each_refusal),
    LOOP_CASE(by_one_shots),
    LOOP_CASE(by_nested_epolls),
    LOOP_CASE(by_poll_of_an_epoll),
    LOOP_CASE(with_short_timeouts),
    LOOP_CASE(under_another_number),
    LOOP_CASE(in_two_epolls),
    LOOP_CASE(by_poll),
    LOOP_CASE(by_ppoll),
    LOOP_CASE(by_select),
    LOOP_CASE(by_pselect_of_large_sets),
    GUEST_CASE(loops_sleep_and_single_threaded_ones_stay_so, "TUNDISH_RATE=400kB/s", "TUNDISH_BURST=20kB"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
