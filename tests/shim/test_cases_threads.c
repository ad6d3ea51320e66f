/* SPDX-License-Identifier: MIT */
/* Threads, forks and vforks around calls that wait, and waits that somebody else ends. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "snippets.h"

#define SOON_MS 1500 /* 200 ms and what a busy machine adds; the waits that are cut short would last hours */

static char bytes[30000];

static void set_nonblocking(int fd)
{
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
}

/* An epoll that watches fd for EPOLLOUT, edge-triggered. */
static int epoll_of(int fd)
{
    int epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    EXPECT(epoll_wait(epfd, &event, 1, 5000) == 1, "not writable");
    return epfd;
}

static pthread_t started(void *(*run)(void *), int *fd)
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, run, fd) == 0, "no thread");
    return thread;
}

static void *write_for_ever(void *fd)
{
    while (write(*(int *)fd, bytes, 5000) > 0)
        ;
    return NULL;
}

static void *loop_for_ever(void *fd)
{
    int epfd = epoll_of(*(int *)fd);
    struct epoll_event event;
    do
        while (write(*(int *)fd, bytes, 5000) > 0)
            ;
    while (epoll_wait(epfd, &event, 1, -1) == 1);
    return NULL;
}

static void children_of_a_threaded_program_write(void)
{
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = guest_upload();
        if (i >= 2)
            set_nonblocking(fds[i]);
        pthread_detach(started(i < 2 ? write_for_ever : loop_for_ever, &fds[i]));
    }
    int mine = guest_upload();
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        EXPECT(child >= 0, "fork");
        if (child == 0) {
            alarm(10);
            int epfd = epoll_of(fds[2]);
            EXPECT(write(mine, bytes, 1500) == 1500, "errno %d", errno);
            (void)!write(fds[2], bytes, 1500);
            close(epfd);
            close(fds[2]);
            _exit(0);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "child %d: %x", i, (unsigned)status);
    }
}

/* In the parent's memory the child closes, puts others in the place of, and writes to, numbers of its own. */
static void vforked_child_does_not_disturb_its_parents_descriptors(void)
{
    int fd = guest_upload(), indebted = guest_upload(), file = peer_file("x", 1);
    char name[] = "true";
    char *const arguments[] = {name, NULL};
    set_nonblocking(indebted);
    int epfd = epoll_of(indebted);
    EXPECT(write(fd, bytes, 100) == 100, "known for a socket");
    while (write(indebted, bytes, 5000) > 0)
        ;
    EXPECT(errno == EAGAIN, "errno %d", errno);
    for (int i = 0; i < 100; i++) {
        pid_t child = vfork();
        if (child == 0) {
            close(indebted);
            close(epfd);
            dup2(file, fd);
            if (write(fd, bytes, sizeof bytes) != sizeof bytes)
                _exit(1);
            execv("/bin/true", arguments);
            _exit(2);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "child %d: %x", i, (unsigned)status);
    }
    EXPECT(guest_charged() == GUEST_SLOW_CAPACITY, "%u", guest_charged());
    EXPECT(write(indebted, bytes, 100) == -1 && errno == EAGAIN, "the debt is gone: errno %d", errno);
    struct tundish *bucket;
    EXPECT(tundish_open(&bucket, "slow") == 0 && tundish_reset(bucket) == 0, "reset");
    struct epoll_event event;
    EXPECT(epoll_wait(epfd, &event, 1, 5000) == 1, "the event that was owed never came");
    EXPECT(write(indebted, bytes, 100) == 100, "errno %d", errno);
    EXPECT(write(fd, bytes, 100) == 100, "errno %d", errno);
    EXPECT(guest_charged() == 200, "%u", guest_charged());
}

static void *read_some(void *fd)
{
    (void)!read(*(int *)fd, bytes, 100);
    return NULL;
}

static void cancel_and_join(pthread_t thread)
{
    void *result;
    EXPECT(pthread_cancel(thread) == 0, "cancel");
    EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "it was not cancelled");
}

static void skip_if_unwinding_is_an_error(void)
{
#ifdef __SANITIZE_ADDRESS__
    guest_skip("AddressSanitizer takes the unwinding of a cancelled thread for an error");
#endif
}

static atomic_bool is_cancelled;

static void *read_once_cancelled(void *fd)
{
    while (!atomic_load(&is_cancelled))
        ;
    return read_some(fd);
}

/* As in the case below if the thread is looking, and not asleep, just when it is cancelled. */
static void reader_cancelled_before_it_waits_is_told_so(void)
{
    int ends[2];
    void *result;
    skip_if_unwinding_is_an_error();
    EXPECT(peer_pair(ends) == 0 && peer_put(ends[1], bytes, 3000) == 0, "no pair");
    EXPECT(read(ends[0], bytes, 1500) == 1500, "errno %d", errno);
    pthread_t thread = started(read_once_cancelled, &ends[0]);
    EXPECT(pthread_cancel(thread) == 0, "cancel");
    atomic_store(&is_cancelled, true);
    EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "it was not cancelled");
}

static void cancelled_reader_leaves_its_debt_to_the_next(void)
{
    int ends[2];
    skip_if_unwinding_is_an_error();
    EXPECT(peer_pair(ends) == 0 && peer_put(ends[1], bytes, 3000) == 0, "no pair");
    EXPECT(read(ends[0], bytes, 1500) == 1500, "errno %d", errno);
    EXPECT(guest_charged() == 1000, "%u", guest_charged());
    pthread_t thread = started(read_some, &ends[0]);
    guest_sleep_ms(100);
    cancel_and_join(thread);
    struct timeval timeout = {.tv_usec = 100000};
    EXPECT(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0, "setsockopt");
    ssize_t n = read(ends[0], bytes, 100);
    EXPECT(n == -1 && errno == EAGAIN, "500 bytes are not paid for: %zd, errno %d", n, errno);
    struct tundish *bucket;
    EXPECT(tundish_open(&bucket, "slow") == 0 && tundish_reset(bucket) == 0, "reset");
    EXPECT(read(ends[0], bytes, 1500) == 1500, "the reader that was cancelled took some");
}

static void *connect_once(void *unused)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)unused;
    EXPECT(getsockname(peer_listen(SOCK_STREAM), (struct sockaddr *)&address, &len) == 0, "no listener");
    int result = connect(fd, (struct sockaddr *)&address, len);
    EXPECT(result == 0 || errno == EINPROGRESS, "errno %d", errno);
    return NULL;
}

static void cancelled_connect_of_a_non_blocking_socket_leaves_the_line(void)
{
    skip_if_unwinding_is_an_error();
    connect_once(NULL);
    pthread_t thread = started(connect_once, NULL);
    guest_sleep_ms(200);
    cancel_and_join(thread);
    struct tundish *bucket;
    struct tundish_info info = TUNDISH_INFO_INIT;
    EXPECT(tundish_open(&bucket, "hourly") == 0 && tundish_unlink("hourly") == 0, "no bucket");
    EXPECT(tundish_info(bucket, &info) == 0 && info.waiting == 0, "%u in line", info.waiting);
}

/* Makes "slow" a fast one after a while, as `tundish set` does from outside. */
static void *quicken(void *name)
{
    struct tundish *bucket;
    struct tundish_options options = TUNDISH_OPTIONS_INIT(100000, 100000000);
    EXPECT(tundish_open(&bucket, name) == 0, "no bucket %s", (const char *)name);
    guest_sleep_ms(300);
    options.flags = TUNDISH_BYTES;
    EXPECT(tundish_configure(bucket, &options) == 0, "configure");
    tundish_close(bucket);
    return NULL;
}

static uint64_t quicken_later(const char *name)
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, quicken, (void *)(uintptr_t)name) == 0, "no thread");
    pthread_detach(thread);
    return guest_ms();
}

static void expect_quickened(uint64_t start)
{
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 250 && took < 300 + SOON_MS, "%d ms", (int)took);
}

static void new_rate_reaches_a_waiting_write(void)
{
    int fd = guest_upload();
    EXPECT(write(fd, bytes, 1000) == 1000, "the burst");
    uint64_t start = quicken_later("slow");
    EXPECT(write(fd, bytes, 5000) == 5000, "errno %d", errno);
    expect_quickened(start);
}

static void new_rate_reaches_a_waiting_epoll_loop(void)
{
    int fd = guest_upload();
    struct epoll_event event;
    set_nonblocking(fd);
    int epfd = epoll_of(fd);
    while (write(fd, bytes, 5000) > 0)
        ;
    uint64_t start = quicken_later("slow");
    EXPECT(epoll_wait(epfd, &event, 1, 20000) == 1, "stalled");
    EXPECT(write(fd, bytes, 5000) > 0, "errno %d", errno);
    expect_quickened(start);
}

static void new_rate_reaches_a_waiting_poll(void)
{
    int fd = guest_upload();
    set_nonblocking(fd);
    /* Two connections: the write of a client with a single one may wait itself. */
    struct pollfd p[] = {{.fd = fd, .events = POLLOUT}, {.fd = guest_upload()}};
    EXPECT(poll(p, 2, 5000) == 1, "not writable");
    while (write(fd, bytes, 5000) > 0)
        ;
    uint64_t start = quicken_later("slow");
    EXPECT(poll(p, 2, 20000) == 1, "stalled");
    EXPECT(write(fd, bytes, 5000) > 0, "errno %d", errno);
    expect_quickened(start);
}

static void new_rate_reaches_a_waiting_connect(void)
{
    connect_once(NULL);
    uint64_t start = quicken_later("hourly");
    connect_once(NULL);
    (void)tundish_unlink("hourly");
    expect_quickened(start);
}

#define HOURLY "TUNDISH_BUCKET=hourly", "TUNDISH_RATE=1/h", "TUNDISH_BURST=1"

static const struct guest_case cases[] = {
    GUEST_CASE(children_of_a_threaded_program_write, "TUNDISH_RATE=200kB/s", "TUNDISH_BURST=1kB"),
    GUEST_CASE(vforked_child_does_not_disturb_its_parents_descriptors, GUEST_SLOW),
    GUEST_CASE(reader_cancelled_before_it_waits_is_told_so, GUEST_SLOW, "TUNDISH_CALLS=down"),
    GUEST_CASE(cancelled_reader_leaves_its_debt_to_the_next, GUEST_SLOW, "TUNDISH_CALLS=down"),
    GUEST_CASE(cancelled_connect_of_a_non_blocking_socket_leaves_the_line, HOURLY),
    GUEST_CASE(new_rate_reaches_a_waiting_write, GUEST_SLOW),
    GUEST_CASE(new_rate_reaches_a_waiting_epoll_loop, GUEST_SLOW),
    GUEST_CASE(new_rate_reaches_a_waiting_poll, GUEST_SLOW),
    GUEST_CASE(new_rate_reaches_a_waiting_connect, HOURLY),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
