/* SPDX-License-Identifier: MIT */
/* Threads that already wait for events when another one's write is refused are owed one all the same. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "loops.h"

static struct {
    int fd;
    int epfd;
    int stop; /* readable at the end */
    sem_t writable;
    pthread_mutex_t lock;
    size_t left;
    atomic_int inside; /* threads between an event and the next arming */
} shared;

static int epoll_with(int fd, uint32_t events)
{
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = events, .data.fd = fd};
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    event = (struct epoll_event){.events = EPOLLIN, .data.fd = shared.stop};
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, shared.stop, &event) == 0, "errno %d", errno);
    return epfd;
}

static void start(int fd, size_t n, uint32_t events)
{
    shared.fd = fd;
    shared.left = n;
    shared.stop = eventfd(0, 0);
    shared.epfd = epoll_with(fd, events);
    EXPECT(sem_init(&shared.writable, 0, 0) == 0, "errno %d", errno);
    EXPECT(pthread_mutex_init(&shared.lock, NULL) == 0, "no mutex");
}

static void stop(pthread_t *threads, int count)
{
    EXPECT(eventfd_write(shared.stop, 1) == 0, "errno %d", errno);
    for (int i = 0; i < count; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0, "no thread");
    close(shared.epfd);
    close(shared.stop);
}

/* Waits for whichever it is given without limit, and tells the writer. */
static void *wait_in_epoll(void *unused)
{
    struct epoll_event event;
    while (epoll_wait(shared.epfd, &event, 1, -1) == 1 && event.data.fd != shared.stop)
        sem_post(&shared.writable);
    return unused;
}

static void *wait_in_poll(void *unused)
{
    struct pollfd p[2] = {{.fd = shared.epfd, .events = POLLIN}, {.fd = shared.stop, .events = POLLIN}};
    while (poll(p, 2, -1) > 0 && p[1].revents == 0) {
        struct epoll_event event;
        if (epoll_wait(shared.epfd, &event, 1, 0) == 1)
            sem_post(&shared.writable);
    }
    return unused;
}

static void *wait_in_select(void *unused)
{
    for (;;) {
        struct epoll_event event;
        fd_set in;
        FD_ZERO(&in);
        FD_SET(shared.epfd, &in);
        FD_SET(shared.stop, &in);
        int n = select((shared.epfd > shared.stop ? shared.epfd : shared.stop) + 1, &in, NULL, NULL, NULL);
        if (n <= 0 || FD_ISSET(shared.stop, &in))
            return unused;
        if (epoll_wait(shared.epfd, &event, 1, 0) == 1)
            sem_post(&shared.writable);
    }
}

/* This thread writes, and sleeps until the other one has seen that it may. */
static void write_when_told(int fd, size_t n, void *(*waiter)(void *))
{
    pthread_t thread;
    start(fd, n, EPOLLOUT | EPOLLET);
    EXPECT(pthread_create(&thread, NULL, waiter, NULL) == 0, "no thread");
    while (n > 0) {
        struct timespec limit;
        size_t done = loops_write(fd, n);
        n -= done;
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 20;
        if (done == 0)
            EXPECT(sem_timedwait(&shared.writable, &limit) == 0, "the other thread has stalled");
    }
    stop(&thread, 1);
}

static void beside_epoll(int fd, size_t n)
{
    write_when_told(fd, n, wait_in_epoll);
}

static void beside_poll(int fd, size_t n)
{
    write_when_told(fd, n, wait_in_poll);
}

static void beside_select(int fd, size_t n)
{
    write_when_told(fd, n, wait_in_select);
}

static void a_thread_that_waits_in_epoll_is_woken(void)
{
    loops_expect_rate(beside_epoll);
}

static void a_thread_that_waits_in_poll_of_an_epoll_is_woken(void)
{
    loops_expect_rate(beside_poll);
}

static void a_thread_that_waits_in_select_of_an_epoll_is_woken(void)
{
    loops_expect_rate(beside_select);
}

/* A poll of the socket itself, without limit, each time a write was refused. */
static void *poll_the_socket(void *unused)
{
    struct pollfd p = {.fd = shared.fd, .events = POLLOUT};
    EXPECT(poll(&p, 1, -1) == 1 && p.revents == POLLOUT, "%d, errno %d", p.revents, errno);
    return unused;
}

static void polled_by_others(int fd, size_t n)
{
    shared.fd = fd;
    while (n > 0) {
        pthread_t thread;
        size_t done = loops_write(fd, n);
        n -= done;
        if (done > 0)
            continue;
        EXPECT(pthread_create(&thread, NULL, poll_the_socket, NULL) == 0, "no thread");
        EXPECT(pthread_join(thread, NULL) == 0, "no thread");
    }
}

static void another_threads_poll_ends_in_time(void)
{
    loops_expect_rate(polled_by_others);
}

/* A server's workers: whoever gets the event has the connection to itself until it arms it again. */
static void *work(void *unused)
{
    struct epoll_event event;
    while (epoll_wait(shared.epfd, &event, 1, -1) == 1 && event.data.fd != shared.stop) {
        EXPECT(atomic_fetch_add(&shared.inside, 1) == 0, "two threads have the same connection");
        pthread_mutex_lock(&shared.lock);
        shared.left -= loops_write(shared.fd, shared.left);
        bool over = shared.left == 0;
        pthread_mutex_unlock(&shared.lock);
        atomic_fetch_sub(&shared.inside, 1);
        struct epoll_event again = {.events = EPOLLOUT | EPOLLONESHOT, .data.fd = shared.fd};
        if (over)
            sem_post(&shared.writable);
        else
            EXPECT(epoll_ctl(shared.epfd, EPOLL_CTL_MOD, shared.fd, &again) == 0, "errno %d", errno);
    }
    return unused;
}

static void by_workers(int fd, size_t n)
{
    pthread_t threads[2];
    start(fd, n, EPOLLOUT | EPOLLONESHOT);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0, "no thread");
    EXPECT(sem_wait(&shared.writable) == 0, "errno %d", errno);
    stop(threads, 2);
}

static void one_shots_of_two_threads_keep_the_rate(void)
{
    loops_expect_rate(by_workers);
}

/* The writer adds the socket, in debt already, to an epoll that another thread waits in. */
static void added_to_a_waited_epoll(int fd, size_t n)
{
    pthread_t thread;
    start(fd, n, EPOLLET); /* nothing but errors yet */
    EXPECT(pthread_create(&thread, NULL, wait_in_epoll, NULL) == 0, "no thread");
    while (n > 0) {
        struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.fd = fd};
        size_t done = loops_write(fd, n);
        n -= done;
        if (done > 0)
            continue;
        EXPECT(epoll_ctl(shared.epfd, EPOLL_CTL_MOD, fd, &event) == 0, "errno %d", errno);
        EXPECT(sem_wait(&shared.writable) == 0, "errno %d", errno);
    }
    stop(&thread, 1);
}

static void what_is_added_in_debt_wakes_who_waits_already(void)
{
    loops_expect_rate(added_to_a_waited_epoll);
}

static const struct guest_case cases[] = {
    GUEST_CASE(a_thread_that_waits_in_epoll_is_woken, LOOPS_RATE),
    GUEST_CASE(a_thread_that_waits_in_poll_of_an_epoll_is_woken, LOOPS_RATE),
    GUEST_CASE(a_thread_that_waits_in_select_of_an_epoll_is_woken, LOOPS_RATE),
    GUEST_CASE(another_threads_poll_ends_in_time, LOOPS_RATE),
    GUEST_CASE(one_shots_of_two_threads_keep_the_rate, LOOPS_RATE),
    GUEST_CASE(what_is_added_in_debt_wakes_who_waits_already, LOOPS_RATE),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
