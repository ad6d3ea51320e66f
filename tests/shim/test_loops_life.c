/* SPDX-License-Identifier: MIT */
/* Descriptors come and go while their sockets are in debt, and one loop has many of them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "loops.h"

static void ctl(int epfd, int op, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    EXPECT(epoll_ctl(epfd, op, fd, &event) == 0, "op %d, errno %d", op, errno);
}

static void await(int epfd, int fd)
{
    struct epoll_event event;
    int n = epoll_wait(epfd, &event, 1, 20000);
    EXPECT(n == 1 && event.data.fd == fd, "%d, errno %d: the loop has stalled", n, errno);
}

static void send_by(int epfd, int fd, size_t n)
{
    while (n > 0) {
        await(epfd, fd);
        n -= loops_write(fd, n);
    }
}

/* The ways in which a registration may end while its socket is in debt. */
static void add_delete_close_and_reuse_while_throttled(void)
{
    int epfd = epoll_create1(0), number = -1;
    for (int i = 0; i < 40; i++) {
        static const uint32_t modes[] = {0, EPOLLET, EPOLLONESHOT};
        uint32_t events = EPOLLOUT | modes[i % 3];
        int fd = loops_upload();
        EXPECT(number < 0 || fd == number, "%d is not reused", number);
        number = fd;
        if (i % 2 == 0)
            ctl(epfd, EPOLL_CTL_ADD, fd, events);
        loops_fill(fd);
        if (i % 2 == 1)
            ctl(epfd, EPOLL_CTL_ADD, fd, events);
        if (i % 4 >= 2) {
            ctl(epfd, EPOLL_CTL_DEL, fd, 0);
            ctl(epfd, EPOLL_CTL_ADD, fd, events);
        }
        if (i % 5 != 0)
            await(epfd, fd);
        if (i % 7 == 0)
            syscall(SYS_close, fd); /* as libuv does */
        else
            close(fd);
    }
    int fd = loops_upload();
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT);
    send_by(epfd, fd, 100000);
}

/* Twenty sockets in debt are closed; what they had reserved is not lost to the next one. */
static void what_was_reserved_is_given_back_on_close(void)
{
    uint64_t best_us = UINT64_MAX;
    for (int try = 0; try < LOOPS_TRIES && best_us > 400000; try++) {
        int fds[20], last = loops_upload(), epfd = epoll_create1(0);
        for (int i = 0; i < 20; i++) {
            fds[i] = loops_upload();
            ctl(epfd, EPOLL_CTL_ADD, fds[i], EPOLLOUT);
            loops_fill(fds[i]);
        }
        for (int i = 0; i < 20; i++)
            close(fds[i]);
        uint64_t start_us = loops_now_us();
        loops_fill(last);
        ctl(epfd, EPOLL_CTL_ADD, last, EPOLLOUT);
        await(epfd, last);
        EXPECT(loops_write(last, 100) > 0, "nothing");
        uint64_t took_us = loops_now_us() - start_us;
        best_us = took_us < best_us ? took_us : best_us;
        close(last);
        close(epfd);
    }
    EXPECT(best_us <= 400000, "%d us for a piece", (int)best_us);
}

/* An epoll that is closed takes its registrations along, and its number may be another one's at once. */
static void an_epoll_may_be_closed_while_throttled(void)
{
    int fd = loops_upload(), number = -1;
    for (int i = 0; i < 20; i++) {
        int epfd = epoll_create1(0);
        EXPECT(number < 0 || number == epfd, "%d is not reused", number);
        number = epfd;
        loops_fill(fd);
        ctl(epfd, EPOLL_CTL_ADD, fd, i % 2 == 0 ? EPOLLOUT : EPOLLOUT | EPOLLET);
        if (i % 3 != 0)
            await(epfd, fd);
        if (i % 5 == 0)
            syscall(SYS_close, epfd);
        else
            close(epfd);
    }
    int epfd = epoll_create1(0);
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT);
    send_by(epfd, fd, 100000);
}

static void by_epoll(int fd, size_t n)
{
    int epfd = epoll_create1(0);
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT);
    send_by(epfd, fd, n);
    close(epfd);
}

static void close_range_first_thing_harms_nothing(void)
{
    EXPECT(syscall(SYS_close_range, 3, 3, 0) == 0 || errno != ENOSYS, "errno %d", errno);
    (void)close_range(3, ~0u, 0);
    loops_expect_rate(by_epoll);
    closefrom(3);
    int fd = loops_upload();
    EXPECT(fd <= 5, "%d: something is open", fd);
    EXPECT(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC, "errno %d",
           errno);
    by_epoll(fd, 100000);
}

/* Written alternately under all of them; all are one debt. */
static void under_many_numbers(int fd, size_t n)
{
    int first = fcntl(fd, F_DUPFD, 30);
    EXPECT(first >= 30, "errno %d", errno);
    for (int number = 3; number <= 20; number++)
        EXPECT(number == fd || dup2(first, number) == number, "errno %d", errno);
    while (n > 0) {
        for (int number = 3; number <= 20 && n > 0; number++) {
            struct pollfd p = {.fd = number, .events = POLLOUT};
            EXPECT(poll(&p, 1, 20000) == 1, "the loop has stalled");
            n -= loops_write(number, n);
        }
    }
    for (int number = 3; number <= 20; number++)
        EXPECT(number == fd || close(number) == 0, "errno %d", errno);
    close(first);
}

static void dup2_onto_every_number_is_one_socket(void)
{
    loops_expect_rate(under_many_numbers);
}

/* The child goes on with an epoll of its own, the parent with the one that it had. */
static void as_parent_and_child(int fd, size_t n)
{
    int epfd = epoll_create1(0), status = -1;
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT);
    loops_fill(fd);
    pid_t child = fork();
    EXPECT(child >= 0, "errno %d", errno);
    if (child == 0) {
        close(epfd);
        by_epoll(fd, n / 2);
        _exit(0);
    }
    send_by(epfd, fd, n / 2);
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", (unsigned)status);
    close(epfd);
}

static void a_fork_in_debt_goes_on_in_both(void)
{
    int fd = loops_upload();
    (void)tundish_unlink("shared");
    uint64_t start_us = loops_now_us();
    as_parent_and_child(fd, 1000000);
    uint64_t took_us = loops_now_us() - start_us;
    EXPECT(took_us > 440000, "%d us: faster than the rate", (int)took_us);
    EXPECT(took_us < 3000000, "%d us", (int)took_us);
}

/* A child that executes something else closes our registrations, and the parent must not notice. */
static void a_parent_in_debt_sleeps_while_children_come_and_go(void)
{
    uint64_t cpu_us = UINT64_MAX;
    struct epoll_event event;
    int fd = loops_upload(), epfd = epoll_create1(0);
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT);
    loops_fill(fd);
    for (int try = 0; try < LOOPS_TRIES && cpu_us > 50000; try++) {
        pid_t child = fork();
        if (child == 0) {
            close(fd);
            close(epfd);
            execlp("true", "true", (char *)NULL);
            _exit(127);
        }
        EXPECT(waitpid(child, NULL, 0) == child, "errno %d", errno);
        uint64_t before_us = loops_cpu_us();
        uint64_t start_us = loops_now_us();
        while (loops_now_us() - start_us < 500000)
            EXPECT(epoll_wait(epfd, &event, 1, 100) == 0, "it became writable");
        uint64_t used_us = loops_cpu_us() - before_us;
        cpu_us = used_us < cpu_us ? used_us : cpu_us;
    }
    EXPECT(cpu_us <= 50000, "%d us of 500000", (int)cpu_us);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* When each of 50 connections has sent its 40 kB. */
static double unfairness(void)
{
    enum {
        COUNT = 50
    };
    int fds[COUNT], epfd = epoll_create1(0), over = 0;
    size_t left[COUNT];
    uint64_t ended_us[COUNT];
    for (int i = 0; i < COUNT; i++) {
        struct epoll_event event = {.events = EPOLLOUT, .data.u32 = (uint32_t)i};
        fds[i] = loops_upload();
        left[i] = 40000;
        EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fds[i], &event) == 0, "errno %d", errno);
    }
    uint64_t start_us = loops_now_us();
    while (over < COUNT) {
        struct epoll_event events[COUNT];
        int n = epoll_wait(epfd, events, COUNT, 20000);
        EXPECT(n > 0, "the loop has stalled");
        for (int i = 0; i < n; i++) {
            uint32_t one = events[i].data.u32;
            left[one] -= loops_write(fds[one], left[one]);
            if (left[one] > 0)
                continue;
            ended_us[over++] = loops_now_us() - start_us;
            close(fds[one]);
        }
    }
    close(epfd);
    qsort(ended_us, COUNT, sizeof *ended_us, ascending);
    fprintf(stderr, "p50 %d us, p99 %d us\n", (int)ended_us[COUNT / 2], (int)ended_us[COUNT - 1]);
    return (double)ended_us[COUNT - 1] / (double)ended_us[COUNT / 2];
}

static void fifty_connections_in_one_loop_are_treated_alike(void)
{
    double best = 100;
    for (int try = 0; try < LOOPS_TRIES && best >= 1.2; try++) {
        double found = unfairness();
        best = found < best ? found : best;
    }
    EXPECT(best < 1.2, "p99/p50 is %.2f", best);
}

/* Node does that. */
static void one_large_vector_does_not_hold_the_loop(void)
{
    static char much[5000000];
    struct iovec parts[2] = {{much, sizeof much}, {much, sizeof much}};
    int fd = loops_upload(), epfd = epoll_create1(0);
    uint64_t best_us = UINT64_MAX;
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT);
    for (int i = 0; i < 20; i++) {
        uint64_t start_us = loops_now_us();
        ssize_t n = writev(fd, parts, 2);
        uint64_t took_us = loops_now_us() - start_us;
        EXPECT((n > 0 && n < 1000000) || (n < 0 && errno == EAGAIN), "%zd, errno %d", n, errno);
        EXPECT(took_us < 500000, "%d us", (int)took_us);
        best_us = took_us < best_us ? took_us : best_us;
        await(epfd, fd);
    }
    EXPECT(best_us <= 50000, "%d us", (int)best_us);
}

/* 20 kB at 20 kB/s, and the wait is ended by nothing but the socket. */
static void a_select_of_900_seconds_ends_in_time(void)
{
    int fd = loops_upload();
    uint64_t cpu_us = loops_cpu_us(), start_us = loops_now_us();
    for (size_t n = 20000; n > 0;) {
        struct timeval timeout = {900, 0};
        fd_set out;
        FD_ZERO(&out);
        FD_SET(fd, &out);
        EXPECT(select(fd + 1, NULL, &out, NULL, &timeout) == 1, "errno %d", errno);
        EXPECT(timeout.tv_sec >= 890 && timeout.tv_sec < 900, "%d s are left", (int)timeout.tv_sec);
        n -= loops_write(fd, n);
    }
    uint64_t took_us = loops_now_us() - start_us;
    cpu_us = loops_cpu_us() - cpu_us;
    EXPECT(took_us >= 930000 && took_us < 3000000, "%d us", (int)took_us);
    EXPECT(cpu_us < 100000, "%d us of processor", (int)cpu_us);
    EXPECT(loops_threads() == 1, "%d threads", loops_threads());
}

#define SLOW "TUNDISH_RATE=20kB/s", "TUNDISH_BURST=1kB"

static const struct guest_case cases[] = {
    GUEST_CASE(add_delete_close_and_reuse_while_throttled, LOOPS_RATE),
    GUEST_CASE(what_was_reserved_is_given_back_on_close, LOOPS_RATE),
    GUEST_CASE(an_epoll_may_be_closed_while_throttled, LOOPS_RATE),
    GUEST_CASE(close_range_first_thing_harms_nothing, LOOPS_RATE),
    GUEST_CASE(dup2_onto_every_number_is_one_socket, LOOPS_RATE),
    GUEST_CASE(a_fork_in_debt_goes_on_in_both, "TUNDISH_BUCKET=shared", LOOPS_RATE),
    GUEST_CASE(a_parent_in_debt_sleeps_while_children_come_and_go, "TUNDISH_RATE=1kB/d", "TUNDISH_BURST=1kB"),
    GUEST_CASE(fifty_connections_in_one_loop_are_treated_alike, LOOPS_RATE),
    GUEST_CASE(one_large_vector_does_not_hold_the_loop, LOOPS_RATE),
    GUEST_CASE(a_select_of_900_seconds_ends_in_time, SLOW),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
