/* SPDX-License-Identifier: MIT */
/*
 * What went wrong once and must not again: costs that no bucket can ever hold, damaged buckets, forks and
 * jumps out of signal handlers in the middle of a call, and lengths that change under it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "raw_call.h"
#include "snippets.h"

static char bytes[100000];

static struct sockaddr_in local(unsigned address, unsigned port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(address);
    return in;
}

/* A send that makes its own connection, to a new listener: its result, or the negative errno. */
static long send_fast(void)
{
    struct sockaddr_in in;
    socklen_t len = sizeof in;
    int listener = peer_listen(SOCK_STREAM), fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(listener >= 0 && getsockname(listener, (struct sockaddr *)&in, &len) == 0, "no listener");
    long sent = sendto(fd, "hi", 2, MSG_FASTOPEN, (const struct sockaddr *)&in, len);
    int error = errno;
    close(fd);
    close(listener);
    if (sent < 0 && error == EOPNOTSUPP)
        guest_skip("no TCP fast open");
    return sent < 0 ? -error : sent;
}

static void send_that_connects_costs_no_more_than_the_bucket_can_hold(void)
{
    EXPECT(send_fast() == 2, "held");
    long second = send_fast();
    EXPECT(second == -ECONNREFUSED, "%ld", second);
}

static void *shrink_slow(void *unused)
{
    struct tundish *bucket;
    struct tundish_options options = TUNDISH_OPTIONS_INIT(1, 1);
    options.interval_us = 10000;
    options.flags = TUNDISH_BYTES;
    guest_sleep_ms(100);
    EXPECT(tundish_open(&bucket, "slow") == 0 && tundish_configure(bucket, &options) == 0, "no change");
    return unused;
}

static void call_that_costs_more_than_a_shrunk_bucket_can_hold_costs_less(void)
{
    struct tundish *bucket;
    pthread_t thread;
    EXPECT(tundish_open(&bucket, "slow") == 0 && tundish_acquire(bucket, GUEST_SLOW_CAPACITY) == 0, "open");
    EXPECT(pthread_create(&thread, NULL, shrink_slow, NULL) == 0, "no thread");
    long sent = send_fast();
    EXPECT(sent == 2, "%ld", sent);
    pthread_join(thread, NULL);
}

/* As a disk that fails, or somebody who is hostile, would leave it. */
static void zero_slow(void)
{
    char path[4096];
    struct stat status;
    EXPECT(tundish_path("slow", path, sizeof path) >= 0, "no path");
    int fd = open(path, O_RDWR);
    EXPECT(fd >= 0 && fstat(fd, &status) == 0, "%s: errno %d", path, errno);
    size_t len = (size_t)status.st_size;
    char *file = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT(file != MAP_FAILED, "errno %d", errno);
    memset(file, 0, len);
    munmap(file, len);
    close(fd);
}

static void damaged_bucket_holds_no_write_for_ever(void)
{
    int blocking = guest_upload(), other = guest_upload();
    struct epoll_event event = {.events = EPOLLOUT};
    int epfd = epoll_create1(0);
    EXPECT(fcntl(other, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, other, &event) == 0, "errno %d", errno);
    EXPECT(write(blocking, bytes, 10) == 10 && write(other, bytes, 10) == 10, "errno %d", errno);
    zero_slow();
    EXPECT(write(blocking, bytes, 3000) == 3000, "errno %d", errno);
    for (int i = 0; i < 100; i++) {
        long sent = write(other, bytes, 3000);
        EXPECT(sent > 0 || (sent < 0 && errno == EAGAIN), "%ld", sent);
        EXPECT(epoll_wait(epfd, &event, 1, 1000) >= 0, "errno %d", errno);
    }
}

static void damaged_bucket_lets_the_debts_of_readers_end(void)
{
    int fd = guest_download(9000);
    struct epoll_event event = {.events = EPOLLIN};
    int epfd = epoll_create1(0);
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    EXPECT(epoll_wait(epfd, &event, 1, 5000) == 1, "errno %d", errno);
    guest_sleep_ms(100);
    zero_slow();
    for (int i = 0; i < 10; i++) {
        (void)epoll_wait(epfd, &event, 1, 100);
        (void)!read(fd, bytes, 3000);
    }
}

static int gate[2];
static _Atomic(int) forked;

static void fork_here(int unused)
{
    char go;
    (void)unused;
    pid_t child = fork();
    forked = child;
    if (child == 0) /* goes on when the parent has spent what it got back */
        (void)raw_call(SYS_read, gate[0], RAW(&go), 1, 0, 0, 0);
}

/* A write of n bytes holds 1000 tokens when a signal ends it, here and in a child of its handler. */
static void expect_tokens_of_one_only(int fd, size_t n)
{
    const struct sigaction action = {.sa_handler = fork_here};
    struct tundish *slow;
    int status = -1;
    EXPECT(pipe(gate) == 0 && sigaction(SIGALRM, &action, NULL) == 0, "errno %d", errno);
    const struct itimerval soon = {.it_value = {0, 200000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    EXPECT(write(fd, bytes, n) == -1 && errno == EINTR, "errno %d", errno);
    if (forked == 0)
        _exit(0);
    EXPECT(guest_charged() == 0, "%u", guest_charged());
    EXPECT(tundish_open(&slow, "slow") == 0, "open");
    EXPECT(tundish_try_acquire(slow, GUEST_SLOW_CAPACITY) == 0, "not given back");
    EXPECT(raw_call(SYS_write, gate[1], RAW("x"), 1, 0, 0, 0) == 1, "pipe");
    EXPECT(waitpid(forked, &status, 0) == forked && status == 0, "%x", (unsigned)status);
    EXPECT(guest_charged() == GUEST_SLOW_CAPACITY, "the child gave %u back", 1000 - guest_charged());
}

static void child_that_a_handler_forks_within_a_send_gives_nothing_back(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    while (raw_call(SYS_sendto, ends[0], RAW(bytes), sizeof bytes, MSG_DONTWAIT, 0, 0) > 0)
        ;
    expect_tokens_of_one_only(ends[0], GUEST_SLOW_CAPACITY);
}

static void child_that_a_handler_forks_within_a_wait_gives_nothing_back(void)
{
    const struct sockaddr_in in = local(INADDR_LOOPBACK, 9);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT(connect(fd, (const struct sockaddr *)&in, sizeof in) == 0, "errno %d", errno);
    expect_tokens_of_one_only(fd, GUEST_SLOW_CAPACITY + 500);
}

/* Sends something to a destination, which has a bucket of its own from then on. */
static void meet(unsigned address)
{
    const struct sockaddr_in in = local(address, 9);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    (void)sendto(fd, "x", 1, MSG_DONTWAIT, (const struct sockaddr *)&in, sizeof in);
    close(fd);
}

/* Whether it has; it is removed. */
static bool was_met(unsigned address)
{
    char name[64];
    struct in_addr in = {htonl(address)};
    snprintf(name, sizeof name, "k-%s", inet_ntoa(in));
    return tundish_unlink(name) == 0;
}

#define MEETINGS 300

static void *meet_many(void *unused)
{
    for (unsigned i = 1; i < MEETINGS; i++)
        meet(0x7f010000 + i);
    return unused;
}

static void children_of_a_thread_that_opens_buckets_have_limits(void)
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, meet_many, NULL) == 0, "no thread");
    unsigned unlimited = 0;
    for (unsigned i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) {
            meet(0x7f020000 + 2 * i);
            meet(0x7f020001 + 2 * i);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        bool first = was_met(0x7f020000 + 2 * i), second = was_met(0x7f020001 + 2 * i);
        unlimited += !first || !second;
    }
    pthread_join(thread, NULL);
    for (unsigned i = 1; i < MEETINGS; i++)
        (void)was_met(0x7f010000 + i);
    EXPECT(unlimited == 0, "%u of 60 children", unlimited);
}

static sigjmp_buf out;

static void jump_out(int unused)
{
    (void)unused;
    siglongjmp(out, 1);
}

static void meet_for(unsigned address, int most_us)
{
    const struct itimerval soon = {.it_value = {0, most_us}}, never = {.it_value = {0, 0}};
    if (sigsetjmp(out, 1) == 0) {
        setitimer(ITIMER_REAL, &soon, NULL);
        meet(address);
    }
    setitimer(ITIMER_REAL, &never, NULL);
}

static void jumps_out_of_opening_a_bucket_leave_later_ones_limited(void)
{
    unsigned limited = 0;
    signal(SIGALRM, jump_out);
    for (unsigned i = 1; i <= 100; i++)
        meet_for(0x7f010000 + i, 60 + 7 * (int)(i % 20));
    for (unsigned i = 0; i < 20; i++) {
        meet(0x7f030000 + i);
        limited += was_met(0x7f030000 + i);
    }
    for (unsigned i = 1; i <= 100; i++)
        (void)was_met(0x7f010000 + i);
    EXPECT(limited == 20, "%u of 20", limited);
}

static struct iovec growing = {bytes, 1};
static _Atomic(bool) enough;

static void *grow_and_shrink(void *unused)
{
    size_t *len = &growing.iov_len;
    for (unsigned i = 0; !enough; i++)
        __atomic_store_n(len, i / 64 % 2 == 0 ? 900 : 1, __ATOMIC_RELAXED); /* each long enough to be seen */
    return unused;
}

static void vector_that_grows_under_a_send_makes_no_tokens(void)
{
    struct msghdr message = {.msg_iov = &growing, .msg_iovlen = 1};
    uint64_t start_ms = guest_ms();
    int fd = guest_upload();
    struct tundish *slow;
    pthread_t thread;
    EXPECT(tundish_open(&slow, "slow") == 0, "open");
    EXPECT(pthread_create(&thread, NULL, grow_and_shrink, NULL) == 0, "no thread");
    while (guest_ms() - start_ms < 500) {
        EXPECT(tundish_reset(slow) == 0 && tundish_acquire(slow, 50) == 0, "reset");
        long sent = sendmsg(fd, &message, 0);
        EXPECT(sent > 0 && tundish_available(slow) < GUEST_SLOW_CAPACITY - 50, "%ld for nothing", sent);
    }
    enough = true;
    pthread_join(thread, NULL);
}

static void datagram_of_a_local_socket_may_be_long(void)
{
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0, "errno %d", errno);
    long sent = send(ends[0], bytes, sizeof bytes, 0);
    if (sent < 0 && errno == EMSGSIZE)
        guest_skip("small socket buffers");
    EXPECT(sent == (long)sizeof bytes, "errno %d", errno);
    EXPECT(recv(ends[1], bytes, sizeof bytes, 0) == (long)sizeof bytes, "errno %d", errno);
    EXPECT(send(ends[0], bytes, sizeof bytes, 0) == -1 && errno == EAGAIN, "not limited");
}

#define KEYED "TUNDISH_BUCKET=k-%h", "TUNDISH_RATE=1B/d", "TUNDISH_BURST=1000"
#define CONNECTS "TUNDISH_CALLS=up,connect"
#define BOTH "TUNDISH_BUCKET=slow,other" /* two buckets: nothing is taken by the short way */

static const struct guest_case cases[] = {
    GUEST_CASE(send_that_connects_costs_no_more_than_the_bucket_can_hold, CONNECTS, "TUNDISH_RATE=1/d",
               "TUNDISH_BURST=1", "TUNDISH_MAX_WAIT=300ms"),
    GUEST_CASE(call_that_costs_more_than_a_shrunk_bucket_can_hold_costs_less, CONNECTS, GUEST_SLOW,
               "TUNDISH_COUNT=calls"),
    GUEST_CASE(damaged_bucket_holds_no_write_for_ever, GUEST_SLOW),
    GUEST_CASE(damaged_bucket_lets_the_debts_of_readers_end, GUEST_SLOW, "TUNDISH_CALLS=down"),
    GUEST_CASE(child_that_a_handler_forks_within_a_send_gives_nothing_back, GUEST_SLOW),
    {"child_that_a_handler_forks_within_a_send_under_two_buckets_gives_nothing_back",
     {BOTH},
     child_that_a_handler_forks_within_a_send_gives_nothing_back},
    GUEST_CASE(child_that_a_handler_forks_within_a_wait_gives_nothing_back, GUEST_SLOW),
    GUEST_CASE(children_of_a_thread_that_opens_buckets_have_limits, KEYED),
    GUEST_CASE(jumps_out_of_opening_a_bucket_leave_later_ones_limited, KEYED),
    GUEST_CASE(vector_that_grows_under_a_send_makes_no_tokens, GUEST_SLOW),
    GUEST_CASE(datagram_of_a_local_socket_may_be_long, "TUNDISH_DEST=unix", "TUNDISH_RATE=1B/d",
               "TUNDISH_BURST=150000", "TUNDISH_WHEN_EMPTY=refuse"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
