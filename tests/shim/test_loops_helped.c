/* SPDX-License-Identifier: MIT */
/*
 * Who fires the owed event: the helper thread where there are several, and nobody where that cannot be made;
 * then the call waits itself rather than leave an edge-triggered loop without its edge. And what a child that
 * lives in its parent's memory must not change of that.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "loops.h"
#include "snippets.h"

#define PATIENCE_MS 10000

static char bytes[4096];

static int watch(int fd, uint32_t events)
{
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = events, .data.fd = fd};
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    return epfd;
}

static void expect_event(int epfd)
{
    struct epoll_event event;
    int n = epoll_wait(epfd, &event, 1, PATIENCE_MS);
    EXPECT(n == 1, "%d, errno %d: the loop has stalled", n, errno);
}

/* A child that finds no program to execute, and tells its parent so by a pipe: what shells and Python do. */
static void have_vfork_child_that_writes(void)
{
    int ends[2];
    EXPECT(pipe(ends) == 0, "errno %d", errno);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        (void)close_range(3, ~0U, 0);
        _exit(0);
    }
    EXPECT(waitpid(child, NULL, 0) == child, "errno %d", errno);
    close(ends[0]);
    close(ends[1]);
}

static void a_vfork_child_that_is_first_takes_nothing_over(void)
{
    have_vfork_child_that_writes();
    int fd = loops_upload(), epfd = watch(fd, EPOLLOUT | EPOLLET);
    expect_event(epfd);
    loops_fill(fd);
    expect_event(epfd);
}

/* Its copies of the parent's descriptors are closed, not the parent's. */
static void debts_end_on_close_after_a_vfork_child_closed_all(void)
{
    int fd = loops_upload(), next = loops_upload();
    watch(fd, EPOLLOUT);
    loops_fill(fd);
    have_vfork_child_that_writes();
    close(fd);
    struct tundish *bucket;
    struct tundish_info info = TUNDISH_INFO_INIT;
    EXPECT(tundish_open(&bucket, "closed") == 0 && tundish_info(bucket, &info) == 0, "no bucket");
    EXPECT(info.waiting == 0, "%u wait for a socket that is closed", info.waiting);
    (void)tundish_unlink("closed");
    close(next);
}

/* With a short count and no event to come, the loop would wait for ever. */
static void what_cannot_be_owed_an_event_is_sent_whole(void)
{
    int fd = loops_upload(), epfd = watch(fd, EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE);
    expect_event(epfd);
    for (int i = 0; i < 3; i++) {
        ssize_t n = write(fd, bytes, sizeof bytes);
        EXPECT(n == (ssize_t)sizeof bytes, "%zd, errno %d", n, errno);
    }
}

static void *sleep_for_ever(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;)
        pause();
    return unused;
}

static void start_another_thread(void)
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0, "no thread");
}

static int written_to;
static atomic_bool done;

static void write_in_handler(int number)
{
    (void)number;
    for (int i = 0; i < 4; i++)
        (void)!write(written_to, bytes, 600);
    done = 1;
}

/* Making a thread there would wait for ever for what the handler has interrupted. */
static void a_handler_that_interrupts_malloc_may_write(void)
{
    for (int try = 0; try < 5; try++) {
        written_to = loops_upload();
        watch(written_to, EPOLLOUT);
        if (try == 0)
            start_another_thread();
        struct sigaction action = {.sa_handler = write_in_handler, .sa_flags = SA_RESTART};
        struct itimerval timer = {.it_value = {0, 5000}};
        done = 0;
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &timer, NULL);
        while (!done) {
            void *pieces[64];
            for (size_t i = 0; i < 64; i++)
                pieces[i] = malloc(2000 + i * 40);
            for (size_t i = 0; i < 64; i++)
                free(pieces[i]);
        }
        close(written_to);
    }
}

static int awaited_fd;
static int awaited_epoll;

static void *await_and_send(void *unused)
{
    expect_event(awaited_epoll);
    for (size_t sent = 0; sent < 20000;) {
        size_t n = loops_write(awaited_fd, 4096);
        if (n == 0)
            expect_event(awaited_epoll);
        sent += n;
    }
    return unused;
}

/* One thread sleeps in epoll_wait(-1), another writes, and there can be no third. */
static void where_no_thread_can_be_made_nothing_stalls(void)
{
    struct rlimit none = {0, 0};
    pthread_t thread;
    if (geteuid() == 0 && setuid(65534) != 0)
        guest_skip("no other user");
    awaited_fd = loops_upload();
    awaited_epoll = watch(awaited_fd, EPOLLOUT | EPOLLET);
    EXPECT(pthread_create(&thread, NULL, await_and_send, NULL) == 0, "no thread");
    EXPECT(setrlimit(RLIMIT_NPROC, &none) == 0, "errno %d", errno);
    for (int i = 0; i < 20; i++)
        (void)loops_write(awaited_fd, 4096);
    EXPECT(pthread_join(thread, NULL) == 0, "join");
}

/* What one rule's socket owes when it is closed is not another rule's to pay. */
static void what_is_left_unpaid_is_paid_by_its_own_bucket(void)
{
    int fast[2], slow[2];
    char some[10];
    EXPECT(peer_pair(fast) == 0 && peer_pair(slow) == 0, "no pairs");
    EXPECT(send(fast[1], bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes, "errno %d", errno);
    EXPECT(send(slow[1], bytes, sizeof some, 0) == (ssize_t)sizeof some, "errno %d", errno);
    EXPECT(recv(fast[0], bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes, "errno %d", errno);
    close(fast[0]);
    uint32_t before = guest_charged();
    uint64_t start_ms = guest_ms();
    EXPECT(read(slow[0], some, sizeof some) == (ssize_t)sizeof some, "errno %d", errno);
    EXPECT(guest_ms() - start_ms < 5000, "it waited");
    EXPECT(guest_charged() - before == sizeof some, "%u", guest_charged() - before);
}

#define SMALL "TUNDISH_RATE=20kB/s", "TUNDISH_BURST=1kB"

static const struct guest_case cases[] = {
    GUEST_CASE(a_vfork_child_that_is_first_takes_nothing_over, LOOPS_RATE),
    GUEST_CASE(debts_end_on_close_after_a_vfork_child_closed_all, "TUNDISH_BUCKET=closed", SMALL),
    GUEST_CASE(what_cannot_be_owed_an_event_is_sent_whole, SMALL),
    GUEST_CASE(a_handler_that_interrupts_malloc_may_write, SMALL),
    GUEST_CASE(where_no_thread_can_be_made_nothing_stalls, SMALL),
    GUEST_CASE(what_is_left_unpaid_is_paid_by_its_own_bucket, "TUNDISH_RATE=1kB/s", "TUNDISH_BURST=1kB",
               "TUNDISH_CALLS=recv", "TUNDISH_2_BUCKET=slow", "TUNDISH_2_COUNT=bytes",
               "TUNDISH_2_CALLS=read"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
