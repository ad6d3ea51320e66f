/* SPDX-License-Identifier: MIT */
/* Receiving at a rate: its end is neither made up nor hidden, and nothing is lost or forgiven. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "guest.h"
#include "raw_call.h"
#include "snippets.h"

static char bytes[65536];

static void await(int epfd)
{
    struct epoll_event event;
    EXPECT(epoll_wait(epfd, &event, 1, 10000) == 1, "stalled");
}

/* 3000 bytes, of which 2000 are to be paid for at 10 kB/s. */
static void end_comes_after_the_debt_and_no_sooner(void)
{
    int fd = guest_download(3000);
    EXPECT(recv(fd, bytes, 3000, MSG_WAITALL) == 3000, "errno %d", errno);
    uint64_t start = guest_ms();
    errno = EDOM;
    EXPECT(read(fd, bytes, 1) == 0 && errno == EDOM, "errno %d", errno);
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 180 && took < 2000, "the end after %d ms", (int)took);
}

static void event_loop_sees_the_end_in_time(void)
{
    int fd = guest_download(3000), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    for (size_t got = 0; got < 3000;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        EXPECT(n > 0 || (n == -1 && errno == EAGAIN), "%zd after %zu, errno %d", n, got, errno);
        got += n > 0 ? (size_t)n : 0;
        if (n < 0)
            await(epfd);
    }
    uint64_t start = guest_ms();
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) == -1 && errno == EAGAIN)
        await(epfd);
    EXPECT(n == 0, "%zd, errno %d", n, errno);
    EXPECT(guest_ms() - start < 2000, "the end after %d ms", (int)(guest_ms() - start));
}

static void reset_is_seen_at_once_by_who_must_not_wait(void)
{
    int ends[2];
    struct linger at_once = {1, 0};
    EXPECT(peer_pair(ends) == 0 && peer_put(ends[1], bytes, 3000) == 0, "no pair");
    EXPECT(recv(ends[0], bytes, 3000, 0) == 3000, "errno %d", errno);
    EXPECT(recv(ends[0], bytes, 3000, MSG_DONTWAIT) == -1 && errno == EAGAIN, "errno %d", errno);
    setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(ends[1]);
    EXPECT(recv(ends[0], bytes, 3000, MSG_DONTWAIT) == -1 && errno == ECONNRESET, "errno %d", errno);
}

static void look_ahead_is_free(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0 && peer_put(ends[1], "look", 4) == 0, "no pair");
    for (int i = 0; i < 1000; i++)
        EXPECT(recv(ends[0], bytes, 4, MSG_PEEK) == 4, "errno %d", errno);
    EXPECT(guest_charged() == 0, "%u", guest_charged());
    EXPECT(recv(ends[0], bytes, 4, 0) == 4 && memcmp(bytes, "look", 4) == 0, "errno %d", errno);
    EXPECT(guest_charged() == 4, "%u", guest_charged());
}

static void wait_for_all_gets_all(void)
{
    int fd = guest_download(40000);
    uint64_t start = guest_ms();
    for (int i = 0; i < 2; i++)
        EXPECT(recv(fd, bytes, 20000, MSG_WAITALL) == 20000, "errno %d", errno);
    EXPECT(guest_ms() - start >= 180, "19 kB at 100 kB/s took %d ms", (int)(guest_ms() - start));
}

static void datagrams_arrive_whole(void)
{
    static const size_t sizes[] = {900, 3000, 1, 2000};
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    int fd = peer_listen(SOCK_DGRAM), sender = socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&to, &len) == 0, "getsockname");
    for (size_t i = 0; i < 4; i++)
        EXPECT(raw_call(SYS_sendto, sender, RAW(bytes), (long)sizes[i], 0, RAW(&to), len) == (long)sizes[i],
               "not sent");
    uint64_t start = guest_ms();
    for (size_t i = 0; i < 4; i++) {
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_TRUNC);
        EXPECT(n == (ssize_t)sizes[i], "%zd, errno %d", n, errno);
    }
    EXPECT(guest_ms() - start >= 140, "2901 at 20 kB/s took %d ms", (int)(guest_ms() - start));
}

/* A socket with 2000 bytes more that owes 500. */
static int in_debt(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0 && peer_put(ends[1], bytes, 3500) == 0, "no pair");
    EXPECT(recv(ends[0], bytes, 1500, MSG_WAITALL) == 1500, "errno %d", errno);
    return ends[0];
}

static void expect_the_rest(int fd)
{
    struct tundish *bucket;
    EXPECT(tundish_open(&bucket, "slow") == 0 && tundish_reset(bucket) == 0, "reset");
    EXPECT(recv(fd, bytes, sizeof bytes, 0) == 2000, "errno %d", errno);
}

static void receive_timeout_holds_for_the_debt(void)
{
    int fd = in_debt();
    struct timeval timeout = {.tv_usec = 100000};
    EXPECT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0, "setsockopt");
    uint64_t start = guest_ms();
    EXPECT(recv(fd, bytes, 100, 0) == -1 && errno == EAGAIN, "errno %d", errno);
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 95 && took < 5000, "%d ms", (int)took);
    expect_the_rest(fd);
}

static void handler(int number)
{
    (void)number;
}

static void handler_interrupts_a_receive_in_debt(void)
{
    struct sigaction action = {.sa_handler = handler};
    struct itimerval timer = {.it_value.tv_usec = 100000, .it_interval.tv_usec = 30000};
    int fd = in_debt();
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    EXPECT(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
    EXPECT(read(fd, bytes, 100) == -1 && errno == EINTR, "errno %d", errno);
    timer = (struct itimerval){0};
    EXPECT(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
    EXPECT(recv(fd, bytes, 100, MSG_DONTWAIT) == -1 && errno == EAGAIN, "the debt is gone");
    expect_the_rest(fd);
}

static void refused_receive_loses_nothing(void)
{
    int fd = in_debt();
    EXPECT(recv(fd, bytes, 100, 0) == -1 && errno == ENOBUFS, "errno %d", errno);
    expect_the_rest(fd);
}

/* 10 kB, most of which is paid for at 10 kB/s, by a loop that is sent away again and again. */
static void longest_wait_does_not_forgive_a_debt(void)
{
    int fd = guest_download(10000), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    await(epfd);
    uint64_t start = guest_ms();
    for (ssize_t n, got = 0; (n = read(fd, bytes, 5000)) != 0; got += n > 0 ? n : 0) {
        EXPECT(n > 0 || errno == EAGAIN, "errno %d", errno);
        if (n < 0)
            await(epfd);
        EXPECT(guest_ms() - start < 5000, "%zd after 5 s", got);
    }
    EXPECT(guest_ms() - start >= 780, "9 kB at 10 kB/s took %d ms", (int)(guest_ms() - start));
}

/* Each is closed with a debt, which the next one finds waiting for it. */
static void many_short_connections_keep_to_the_rate(void)
{
    uint64_t start = guest_ms();
    for (int i = 0; i < 20; i++) {
        int fd = guest_download(10000);
        EXPECT(recv(fd, bytes, 10000, MSG_WAITALL) == 10000, "errno %d", errno);
        close(fd);
    }
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 880, "179 kB and more at 200 kB/s took %d ms", (int)took);
}

#define DOWN(rate, burst) "TUNDISH_CALLS=down", "TUNDISH_RATE=" rate, "TUNDISH_BURST=" burst

static const struct guest_case cases[] = {
    GUEST_CASE(end_comes_after_the_debt_and_no_sooner, DOWN("10kB/s", "1kB")),
    GUEST_CASE(event_loop_sees_the_end_in_time, DOWN("10kB/s", "1kB")),
    GUEST_CASE(reset_is_seen_at_once_by_who_must_not_wait, DOWN("1kB/s", "1kB")),
    GUEST_CASE(look_ahead_is_free, GUEST_SLOW, "TUNDISH_CALLS=down"),
    GUEST_CASE(wait_for_all_gets_all, DOWN("100kB/s", "1kB")),
    GUEST_CASE(datagrams_arrive_whole, DOWN("20kB/s", "1kB")),
    GUEST_CASE(receive_timeout_holds_for_the_debt, GUEST_SLOW, "TUNDISH_CALLS=down"),
    GUEST_CASE(handler_interrupts_a_receive_in_debt, GUEST_SLOW, "TUNDISH_CALLS=down"),
    GUEST_CASE(refused_receive_loses_nothing, GUEST_SLOW, "TUNDISH_CALLS=down",
               "TUNDISH_WHEN_EMPTY=refuse:ENOBUFS"),
    GUEST_CASE(longest_wait_does_not_forgive_a_debt, DOWN("10kB/s", "1kB"), "TUNDISH_MAX_WAIT=150ms"),
    GUEST_CASE(many_short_connections_keep_to_the_rate, DOWN("200kB/s", "1kB")),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
