/* SPDX-License-Identifier: MIT */
/* Receiving at a rate, by every call and every kind of loop. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define RATE 2000000
#define BURST 100000 /* makes up for 50 ms that the machine is busy with others */
#define TOTAL 3000000
#define PIECE 16384
#define TRIES 3

static char bytes[65536];

static struct iovec halves[2] = {{bytes, PIECE / 2}, {bytes + PIECE / 2, PIECE / 2}};

static ssize_t by_read(int fd)
{
    return read(fd, bytes, PIECE);
}

static ssize_t by_readv(int fd)
{
    return readv(fd, halves, 2);
}

static ssize_t by_recv(int fd)
{
    return recv(fd, bytes, PIECE, 0);
}

static ssize_t by_recvfrom(int fd)
{
    return recvfrom(fd, bytes, PIECE, 0, NULL, NULL);
}

static ssize_t by_recvmsg(int fd)
{
    struct msghdr message = {.msg_iov = halves, .msg_iovlen = 2};
    return recvmsg(fd, &message, 0);
}

static ssize_t by_recvmmsg(int fd)
{
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &halves[0], .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = &halves[1], .msg_iovlen = 1}}};
    int n = recvmmsg(fd, messages, 2, MSG_WAITFORONE, NULL);
    return n <= 0 ? n : (ssize_t)messages[0].msg_len + (n > 1 ? (ssize_t)messages[1].msg_len : 0);
}

/* Waits until the socket may be read, in the manner of some loop. */
typedef void wait_fn(int fd, int epfd);

static void not_at_all(int fd, int epfd)
{
    (void)fd;
    (void)epfd;
}

static void in_poll(int fd, int epfd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)epfd;
    EXPECT(poll(&p, 1, 10000) == 1, "stalled");
}

static void in_select(int fd, int epfd)
{
    fd_set in;
    struct timeval patience = {.tv_sec = 10};
    (void)epfd;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    EXPECT(select(fd + 1, &in, NULL, NULL, &patience) == 1, "stalled");
}

static void in_epoll(int fd, int epfd)
{
    struct epoll_event event;
    (void)fd;
    EXPECT(epoll_wait(epfd, &event, 1, 10000) == 1, "stalled");
}

/*
 * Bytes a second after the burst, as a read finds it that waited for all before it to be paid: the best of the
 * last quarter, for a thread that is woken late catches up with its next reads. TOTAL must come.
 */
static double rate_of(ssize_t (*take)(int fd), wait_fn *wait, uint32_t events)
{
    int fd = guest_download(TOTAL), epfd = epoll_create1(0);
    struct epoll_event event = {.events = events};
    size_t got = 0;
    double best = 0;
    if (wait != not_at_all)
        EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    if (wait == in_epoll)
        EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    wait(fd, epfd);
    uint64_t start = 0;
    for (ssize_t n; (n = take(fd)) != 0;) {
        if (n < 0) {
            EXPECT(errno == EAGAIN && wait != not_at_all, "errno %d", errno);
            wait(fd, epfd);
            continue;
        }
        uint64_t now = guest_ms();
        start = start == 0 ? now : start; /* the sender takes its time to begin */
        double rate = got < TOTAL * 3 / 4 ? 0 : (double)(got - BURST) * 1000 / (double)(now - start + 1);
        best = rate > best ? rate : best;
        got += (size_t)n;
        if (wait != not_at_all && (events & (uint32_t)EPOLLET) == 0)
            wait(fd, epfd);
    }
    EXPECT(got == TOTAL, "%zu", got);
    close(fd);
    close(epfd);
    return best;
}

static void expect_rate(ssize_t (*take)(int fd), wait_fn *wait, uint32_t events)
{
    double best = 0;
    for (int i = 0; i < TRIES && best < 0.98; i++) {
        double ratio = rate_of(take, wait, events) / RATE;
        EXPECT(ratio <= 1.01, "%.3f of the rate", ratio);
        best = ratio > best ? ratio : best;
        guest_sleep_ms(60); /* the burst of the next */
    }
    EXPECT(best >= 0.98, "%.3f of the rate", best);
}

static void reads_keep_to_the_rate(void)
{
    expect_rate(by_read, not_at_all, 0);
    expect_rate(by_readv, not_at_all, 0);
}

static void receives_keep_to_the_rate(void)
{
    expect_rate(by_recv, not_at_all, 0);
    expect_rate(by_recvfrom, not_at_all, 0);
    expect_rate(by_recvmsg, not_at_all, 0);
    expect_rate(by_recvmmsg, not_at_all, 0);
}

static void poll_and_select_keep_to_the_rate(void)
{
    expect_rate(by_read, in_poll, 0);
    expect_rate(by_recv, in_select, 0);
}

static void level_triggered_epoll_keeps_to_the_rate(void)
{
    expect_rate(by_read, in_epoll, EPOLLIN);
    expect_rate(by_recvmsg, in_epoll, EPOLLIN | EPOLLRDHUP);
}

static void edge_triggered_epoll_keeps_to_the_rate(void)
{
    expect_rate(by_read, in_epoll, EPOLLIN | EPOLLET);
    expect_rate(by_recv, in_epoll, EPOLLIN | EPOLLRDHUP | EPOLLET);
}

/* No event can be owed there, so that the reads wait themselves. */
static void exclusive_epoll_keeps_to_the_rate(void)
{
    expect_rate(by_read, in_epoll, EPOLLIN | EPOLLEXCLUSIVE);
}

/* It takes a short count for the end of what there is, and waits for the next edge. */
static void loop_that_stops_at_a_short_read_is_woken(void)
{
    int fd = guest_download(200000), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    size_t got = 0;
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    guest_sleep_ms(100); /* all that will come is there */
    while (got < 200000) {
        in_epoll(fd, epfd);
        for (ssize_t n = sizeof bytes; got < 200000 && n == sizeof bytes;) {
            n = read(fd, bytes, sizeof bytes);
            EXPECT(n <= 10000 && (n > 0 || errno == EAGAIN), "%zd at once", n);
            got += n > 0 ? (size_t)n : 0;
        }
    }
}

/* Each is another process, whose debt ends with it: of 60 kB it had a bucketful, no more, for nothing. */
static void short_processes_cannot_have_all_they_want(void)
{
    uint64_t start = guest_ms();
    for (int i = 0; i < 3; i++) {
        int fd = guest_download(60000), status = -1;
        pid_t child = fork();
        if (child == 0) {
            size_t got = 0;
            for (ssize_t n; got < 60000 && (n = read(fd, bytes, sizeof bytes)) > 0;)
                got += (size_t)n;
            _exit(got == 60000 ? 0 : 1);
        }
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "status %x", (unsigned)status);
        close(fd);
    }
    (void)tundish_unlink("shared");
    EXPECT(guest_ms() - start >= 690, "140 kB at 200 kB/s took %d ms", (int)(guest_ms() - start));
}

#define DOWN(rate, burst) "TUNDISH_CALLS=down", "TUNDISH_RATE=" rate, "TUNDISH_BURST=" burst
#define FAST DOWN("2MB/s", "100kB")

static const struct guest_case cases[] = {
    GUEST_CASE(reads_keep_to_the_rate, FAST),
    GUEST_CASE(receives_keep_to_the_rate, FAST),
    GUEST_CASE(poll_and_select_keep_to_the_rate, FAST),
    GUEST_CASE(level_triggered_epoll_keeps_to_the_rate, FAST),
    GUEST_CASE(edge_triggered_epoll_keeps_to_the_rate, FAST),
    GUEST_CASE(exclusive_epoll_keeps_to_the_rate, FAST),
    GUEST_CASE(loop_that_stops_at_a_short_read_is_woken, DOWN("1MB/s", "10kB")),
    GUEST_CASE(short_processes_cannot_have_all_they_want, "TUNDISH_BUCKET=shared", DOWN("200kB/s", "10kB")),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
