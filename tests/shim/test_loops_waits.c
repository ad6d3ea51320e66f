/* SPDX-License-Identifier: MIT */
/*
 * The waits of a program with a socket in debt end as they would without us: by a signal, an error, another
 * event, or their own timeout, neither before nor much later.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "loops.h"
#include "snippets.h"

#define SIGNALS 200
#define CLOSED 60 /* a number that is not in use; the kernel's table has at least 64 */

static int fd, epfd;
static sig_atomic_t handled;

/* How a program waits for the socket to be writable. With a mask, or without if that is NULL. */
typedef int wait_fn(int timeout_ms, const sigset_t *mask);

static struct timespec timespec_of(int timeout_ms)
{
    return (struct timespec){timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
}

static int by_epoll(int timeout_ms, const sigset_t *mask)
{
    struct epoll_event event;
    return mask == NULL ? epoll_wait(epfd, &event, 1, timeout_ms)
                        : epoll_pwait(epfd, &event, 1, timeout_ms, mask);
}

static int by_epoll_pwait2(int timeout_ms, const sigset_t *mask)
{
    struct epoll_event event;
    struct timespec timeout = timespec_of(timeout_ms);
    return epoll_pwait2(epfd, &event, 1, timeout_ms < 0 ? NULL : &timeout, mask);
}

static int by_poll(int timeout_ms, const sigset_t *mask)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    struct timespec timeout = timespec_of(timeout_ms);
    return mask == NULL ? poll(&p, 1, timeout_ms) : ppoll(&p, 1, timeout_ms < 0 ? NULL : &timeout, mask);
}

static int by_select(int timeout_ms, const sigset_t *mask)
{
    fd_set out;
    struct timespec timeout = timespec_of(timeout_ms);
    struct timeval left = {timeout_ms / 1000, timeout_ms % 1000 * 1000L};
    FD_ZERO(&out);
    FD_SET(fd, &out);
    int n = mask == NULL ? select(fd + 1, NULL, &out, NULL, timeout_ms < 0 ? NULL : &left)
                         : pselect(fd + 1, NULL, &out, NULL, timeout_ms < 0 ? NULL : &timeout, mask);
    EXPECT(n < 0 || n == FD_ISSET(fd, &out), "%d, and %d", n, FD_ISSET(fd, &out));
    return n;
}

static wait_fn *const waits[] = {by_epoll, by_epoll_pwait2, by_poll, by_select};
#define WAITS (sizeof waits / sizeof *waits)

/* A socket that will be in debt for a day, registered. */
static void begin(int socket_fd)
{
    struct epoll_event event = {.events = EPOLLOUT};
    fd = socket_fd;
    epfd = epoll_create1(0);
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    loops_fill(fd);
    for (size_t i = 0; i < WAITS; i++)
        EXPECT(waits[i](0, NULL) == 0, "way %zu says that it is writable", i);
}

static void handle(int number)
{
    (void)number;
    handled++;
}

static void handle_alarms(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGINT, &action, NULL) == 0, "errno %d", errno);
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0, "errno %d", errno);
}

static void set_timer(long first_us, long interval_us)
{
    struct itimerval timer = {{0, interval_us}, {0, first_us}};
    EXPECT(setitimer(ITIMER_REAL, &timer, NULL) == 0, "errno %d", errno);
}

/* A program that keeps the signal blocked but while it waits never misses one. */
static void no_signal_is_lost_between_rounds(void)
{
    sigset_t alarm_only, mask;
    begin(loops_upload());
    handle_alarms(handle);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    EXPECT(sigprocmask(SIG_BLOCK, &alarm_only, &mask) == 0, "errno %d", errno);
    for (int i = 0; i < SIGNALS; i++) {
        handled = 0;
        set_timer(1 + rand() % 2000, 0);
        int n = waits[(size_t)i % WAITS](-1, &mask);
        EXPECT(n == -1 && errno == EINTR && handled == 1, "try %d: %d, errno %d, %d", i, n, errno,
               (int)handled);
    }
}

/* The usual program just waits; a signal that comes while it does ends that. */
static void a_signal_ends_every_wait(void)
{
    begin(loops_upload());
    handle_alarms(handle);
    set_timer(1000, 3000);
    for (int i = 0; i < SIGNALS; i++) {
        uint64_t start_us = loops_now_us();
        int n = waits[(size_t)i % WAITS](10000, NULL);
        EXPECT(n == -1 && errno == EINTR, "try %d: %d, errno %d", i, n, errno);
        EXPECT(loops_now_us() - start_us < 5000000, "the signal did not end it");
    }
}

static void sigint_ends_a_throttled_epoll_wait(void)
{
    begin(loops_upload());
    handle_alarms(handle);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) {
            guest_sleep_ms(2);
            kill(parent, SIGINT);
        }
        _exit(0);
    }
    for (int i = 0; i < 50; i++) {
        int n = by_epoll(10000, NULL);
        EXPECT(n == -1 && errno == EINTR, "try %d: %d, errno %d", i, n, errno);
    }
    while (waitpid(child, NULL, 0) != child)
        EXPECT(errno == EINTR, "errno %d", errno);
}

/* Children that end and a terminal that hangs up, of which the program wants to know nothing. */
static void ignored_signals_end_no_wait(void)
{
    begin(loops_upload());
    signal(SIGHUP, SIG_IGN);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < 2000; i++) {
            kill(parent, i % 2 == 0 ? SIGHUP : SIGCHLD);
            if (i % 20 == 0)
                guest_sleep_ms(1);
        }
        _exit(0);
    }
    for (int i = 0; i < SIGNALS; i++) {
        int n = waits[(size_t)i % WAITS](2, NULL);
        EXPECT(n == 0, "try %d: %d, errno %d", i, n, errno);
    }
    EXPECT(waitpid(child, NULL, 0) == child, "errno %d", errno);
}

static sigjmp_buf out;

static void jump(int number)
{
    (void)number;
    siglongjmp(out, 1);
}

/* As programs do that make timeouts of alarm(). */
static void a_handler_may_jump_out_of_any_wait(void)
{
    sigset_t before, after;
    begin(loops_upload());
    handle_alarms(jump);
    sigprocmask(SIG_BLOCK, NULL, &before);
    for (size_t i = 0; i < WAITS; i++) {
        if (sigsetjmp(out, 1) == 0) {
            set_timer(20000, 0);
            (void)waits[i](-1, NULL);
            EXPECT(0, "it did not jump");
        }
        sigprocmask(SIG_BLOCK, NULL, &after);
        for (int number = 1; number < NSIG; number++)
            EXPECT(sigismember(&after, number) == sigismember(&before, number), "signal %d", number);
    }
}

static void timeouts_are_kept(void)
{
    uint64_t took_us = 0;
    begin(loops_upload());
    for (size_t i = 0; i < WAITS; i++)
        for (int timeout_ms = 0; timeout_ms <= 60; timeout_ms += 20) {
            int try = 0;
            do {
                uint64_t start_us = loops_now_us();
                EXPECT(waits[i](timeout_ms, NULL) == 0, "not a timeout");
                took_us = loops_now_us() - start_us;
                EXPECT(took_us >= (uint64_t)timeout_ms * 1000, "%d us are too few", (int)took_us);
            } while (took_us > (uint64_t)timeout_ms * 1000 + 5000 && ++try < LOOPS_TRIES);
            EXPECT(try < LOOPS_TRIES, "way %zu: %d us for %d ms", i, (int)took_us, timeout_ms);
        }
}

static void bad_arguments_are_the_kernels_to_refuse(void)
{
    struct epoll_event event;
    struct pollfd p = {.events = POLLOUT};
    void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct timespec bad = {0, 1000000000};
    struct timeval negative = {-1, 0};
    fd_set set;
    begin(loops_upload());
    p.fd = fd;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    FD_SET(CLOSED, &set);
    EXPECT(select(CLOSED + 1, &set, NULL, NULL, NULL) == -1 && errno == EBADF, "errno %d", errno);
    EXPECT(FD_ISSET(fd, &set) && FD_ISSET(CLOSED, &set), "the sets were changed");
    EXPECT(select(fd + 1, NULL, NULL, NULL, &negative) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(pselect(fd + 1, NULL, NULL, NULL, &bad, NULL) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(select(-1, NULL, NULL, NULL, NULL) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(ppoll(&p, 1, &bad, NULL) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(poll(nowhere, 1, 0) == -1 && errno == EFAULT, "errno %d", errno);
    EXPECT(epoll_pwait2(epfd, &event, 1, &bad, NULL) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(epoll_wait(epfd, &event, 0, 0) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(epoll_wait(fd, &event, 1, -1) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(epoll_wait(CLOSED, &event, 1, -1) == -1 && errno == EBADF, "errno %d", errno);
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == -1 && errno == EEXIST, "errno %d", errno);
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, nowhere) == -1 && errno == EFAULT, "errno %d", errno);
    EXPECT(epoll_ctl(fd, EPOLL_CTL_ADD, fd, &event) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL) == 0, "errno %d", errno);
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL) == -1 && errno == ENOENT, "errno %d", errno);
}

/* Programs give the limit of descriptors, with a set that has room for far fewer. */
static void select_looks_no_further_than_the_kernel_does(void)
{
    struct {
        fd_set out;
        unsigned char behind[4096];
    } memory;
    struct timeval timeout = {0, 1000};
    begin(loops_upload());
    FD_ZERO(&memory.out);
    FD_SET(fd, &memory.out);
    memset(memory.behind, 0xff, sizeof memory.behind);
    EXPECT(select(1 << 20, NULL, &memory.out, NULL, &timeout) == 0, "errno %d", errno);
    EXPECT(!FD_ISSET(fd, &memory.out), "it is still set");
    for (size_t i = 0; i < sizeof memory.behind; i++)
        EXPECT(memory.behind[i] == 0xff, "byte %zu behind the set was changed", i);
}

static sigset_t cleanup_mask;

static void note_mask(void *unused)
{
    (void)unused;
    pthread_sigmask(SIG_BLOCK, NULL, &cleanup_mask);
}

static void *wait_for_ever(void *way)
{
    pthread_cleanup_push(note_mask, NULL);
    (void)(*(wait_fn *const *)way)(-1, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void every_wait_is_a_cancellation_point(void)
{
    begin(loops_upload());
    for (size_t i = 0; i < WAITS; i++) {
        pthread_t thread;
        void *result;
        sigfillset(&cleanup_mask);
        EXPECT(pthread_create(&thread, NULL, wait_for_ever, (void *)(uintptr_t)&waits[i]) == 0, "no thread");
        guest_sleep_ms(i % 2 == 0 ? 30 : 0);
        EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0, "no thread");
        EXPECT(result == PTHREAD_CANCELED, "it was not cancelled");
        EXPECT(sigismember(&cleanup_mask, SIGINT) == 0, "its clean-up keeps signals out");
    }
}

static void poll_answers_what_it_is_asked(void)
{
    int pipes[2];
    begin(loops_upload());
    EXPECT(pipe(pipes) == 0 && write(pipes[1], "x", 1) == 1, "errno %d", errno);
    struct pollfd p[4] = {{.fd = fd, .events = POLLOUT, .revents = -1},
                          {.fd = pipes[0], .events = POLLIN},
                          {.fd = CLOSED, .events = POLLIN},
                          {.fd = -1, .events = POLLIN, .revents = -1}};
    EXPECT(poll(p, 4, -1) == 2, "errno %d", errno);
    EXPECT(p[0].revents == 0 && p[0].events == POLLOUT, "%d, %d", p[0].revents, p[0].events);
    EXPECT(p[1].revents == POLLIN && p[2].revents == POLLNVAL && p[3].revents == 0, "others");
}

/* The peer resets the connection after a while. */
static void a_reset_is_seen_at_once(void)
{
    for (size_t i = 0; i < WAITS; i++) {
        struct linger reset = {1, 0};
        int ends[2];
        EXPECT(peer_pair(ends) == 0, "no pair");
        EXPECT(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "errno %d", errno);
        EXPECT(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0, "errno %d", errno);
        begin(ends[0]);
        if (fork() == 0) {
            guest_sleep_ms(50);
            _exit(0); /* the last one that has it */
        }
        close(ends[1]);
        uint64_t start_us = loops_now_us();
        EXPECT(waits[i](10000, NULL) == 1, "way %zu", i);
        EXPECT(loops_now_us() - start_us < 2000000, "way %zu: %d us", i, (int)(loops_now_us() - start_us));
        EXPECT(write(fd, "x", 1) == -1 && errno == ECONNRESET, "errno %d", errno);
        close(fd);
        close(epfd);
    }
}

/* A timer and a socket in one loop. */
static void a_timer_in_the_same_loop_is_on_time(void)
{
    struct itimerspec every = {{0, 10000000}, {0, 10000000}};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), best = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = timer};
    begin(loops_upload());
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, timer, &event) == 0, "errno %d", errno);
    for (int try = 0; try < LOOPS_TRIES && best < 80; try++) {
        int on_time = 0;
        uint64_t start_us = loops_now_us();
        EXPECT(timerfd_settime(timer, 0, &every, NULL) == 0, "errno %d", errno);
        for (uint64_t i = 0, more; i < 100; i += more) {
            EXPECT(epoll_wait(epfd, &event, 1, 5000) == 1 && event.data.fd == timer, "another event");
            EXPECT(read(timer, &more, sizeof more) == sizeof more, "errno %d", errno);
            on_time += loops_now_us() - start_us < (i + 1) * 10000 + 4000;
        }
        best = on_time > best ? on_time : best;
    }
    EXPECT(best >= 80, "only %d of 100", best);
}

#define SLOW "TUNDISH_RATE=1kB/h", "TUNDISH_BURST=1kB"
#define SLOW_CASE(name) GUEST_CASE(name, SLOW)

static const struct guest_case cases[] = {
    SLOW_CASE(no_signal_is_lost_between_rounds),
    SLOW_CASE(a_signal_ends_every_wait),
    SLOW_CASE(ignored_signals_end_no_wait),
    SLOW_CASE(sigint_ends_a_throttled_epoll_wait),
    SLOW_CASE(a_handler_may_jump_out_of_any_wait),
    SLOW_CASE(timeouts_are_kept),
    SLOW_CASE(bad_arguments_are_the_kernels_to_refuse),
    SLOW_CASE(select_looks_no_further_than_the_kernel_does),
    SLOW_CASE(every_wait_is_a_cancellation_point),
    SLOW_CASE(poll_answers_what_it_is_asked),
    SLOW_CASE(a_reset_is_seen_at_once),
    SLOW_CASE(a_timer_in_the_same_loop_is_on_time),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
