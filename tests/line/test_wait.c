/* SPDX-License-Identifier: MIT */
/* Waiting in real time: threads, signals, forks, cancellation, event loops, other pid namespaces. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <tundish/tundish.h>
#include <unistd.h>

#include "kit/kit.h"
#include "lib/handle.h"
#include "proc/proc.h"
#include "shm/layout.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80 /* not in every libc's header */
#endif
#define MS KIT_MILLISECOND
#define LONG_NS (20 * KIT_SECOND) /* a wait that should not take so long */
#define LATE_NS (500 * MS)        /* a loaded machine wakes us up no later than this */
#define AT_ONCE_NS (100 * MS)
#define TRIES 5 /* of what a loaded machine may be too slow for once */

static struct tundish *slow_bucket(uint32_t capacity, uint32_t initial)
{
    struct tundish_options options = proc_still_options(capacity, initial);
    return proc_create_private(&options);
}

static struct tundish *bucket_of(uint32_t capacity, uint32_t per_second, uint32_t initial, uint32_t flags)
{
    struct tundish_options options = proc_options(capacity, per_second, 1000000);
    options.initial = initial;
    options.flags = flags;
    return proc_create_private(&options);
}

/* One acquire in a thread of its own. */
struct asking {
    struct tundish *bucket;
    uint32_t n;
    uint64_t timeout_ns;
    pthread_t thread;
    int error;
    uint64_t took_ns;
    uint64_t end_ns;
};

static void *ask(void *argument)
{
    struct asking *asking = argument;
    uint64_t start_ns = kit_now_ns();
    asking->error = tundish_acquire_for(asking->bucket, asking->n, asking->timeout_ns);
    asking->end_ns = kit_now_ns();
    asking->took_ns = asking->end_ns - start_ns;
    return NULL;
}

static void start_asking(struct asking *asking, struct tundish *bucket, uint32_t n, uint64_t timeout_ns)
{
    *asking = (struct asking){.bucket = bucket, .n = n, .timeout_ns = timeout_ns, .error = 1};
    kit_expect(pthread_create(&asking->thread, NULL, ask, asking) == 0, "no thread");
}

static void expect_served(struct asking *asking)
{
    pthread_join(asking->thread, NULL);
    kit_expect(asking->error == 0, "%s", tundish_strerror(asking->error));
}

/* Timeouts. */

START_TEST(a_timeout_comes_neither_early_nor_very_late)
{
    struct tundish *bucket = slow_bucket(10, 4);
    uint64_t best_ns = UINT64_MAX;
    for (unsigned i = 0; i < 10; i++) {
        uint64_t wanted_ns = (5 + 7 * i) * MS, start_ns = tundish_now_ns();
        int error = i % 2 ? tundish_acquire_for(bucket, 5, wanted_ns)
                          : tundish_acquire_until(bucket, 30, start_ns + wanted_ns);
        uint64_t took_ns = tundish_now_ns() - start_ns;
        kit_expect(error == -ETIMEDOUT, "%s", tundish_strerror(error));
        kit_expect(took_ns >= wanted_ns && took_ns < wanted_ns + LATE_NS, "%llu us instead of %llu",
                   (unsigned long long)(took_ns / 1000), (unsigned long long)(wanted_ns / 1000));
        best_ns = took_ns - wanted_ns < best_ns ? took_ns - wanted_ns : best_ns;
        kit_expect(tundish_available(bucket) == 4, "%u of 4 came back", tundish_available(bucket));
        kit_expect(proc_info(bucket).waiting == 0, "still in line");
    }
    kit_expect(best_ns < 20 * MS, "the best of ten was %llu us late", (unsigned long long)(best_ns / 1000));
    tundish_close(bucket);
}
END_TEST

START_TEST(a_deadline_that_is_past_tries_once)
{
    struct tundish *bucket = slow_bucket(10, 4);
    kit_expect(tundish_acquire_until(bucket, 5, 0) == -ETIMEDOUT, "5 of 4");
    kit_expect(tundish_acquire_until(bucket, 4, 0) == 0, "4 of 4");
    kit_expect(tundish_acquire_for(bucket, 40, 0) == -ETIMEDOUT, "40 of 0");
    kit_expect(tundish_acquire_for(bucket, 0, 0) == 0, "none");
    kit_expect(proc_info(bucket).waiting == 0, "in line");
    tundish_close(bucket);
}
END_TEST

START_TEST(pieces_of_a_large_request_come_back_after_a_timeout)
{
    struct tundish *bucket = bucket_of(5, 1, 5, 0);
    kit_expect(tundish_acquire_for(bucket, 20, 30 * MS) == -ETIMEDOUT, "20 of 5");
    kit_expect(tundish_available(bucket) == 5, "%u of 5 came back", tundish_available(bucket));
    tundish_close(bucket);
}
END_TEST

START_TEST(errno_and_timer_slack_are_as_they_were)
{
    struct tundish *bucket = bucket_of(5, 500, 0, 0);
    prctl(PR_SET_TIMERSLACK, 77777, 0, 0, 0);
    errno = 4321;
    kit_expect(tundish_acquire(bucket, 3) == 0, "3");
    kit_expect(tundish_acquire_for(bucket, 500, 5 * MS) == -ETIMEDOUT, "500");
    kit_expect(errno == 4321, "errno is %d", errno);
    kit_expect(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 77777, "timer slack is %d",
               prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    kit_expect(tundish_acquire(bucket, 3) == 0, "3");
    kit_expect(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 1, "timer slack is not 1 any more");
    tundish_close(bucket);
}
END_TEST

/* Good news reaches who sleeps. */

static void give_back(struct tundish *bucket)
{
    tundish_release(bucket, 5);
}

static void reset(struct tundish *bucket)
{
    kit_expect(tundish_reset(bucket) == 0, "reset");
}

static void speed_up(struct tundish *bucket)
{
    struct tundish_options options = proc_options(10, 10000, 1000000);
    kit_expect(tundish_configure(bucket, &options) == 0, "configure");
}

static void (*const news[])(struct tundish *) = {give_back, reset, speed_up};

START_TEST(whoever_sleeps_for_an_hour_hears_of_more_tokens_at_once)
{
    uint64_t best_ns = UINT64_MAX;
    for (unsigned attempt = 0; attempt < TRIES && best_ns >= AT_ONCE_NS; attempt++) {
        struct tundish_options options = proc_options(10, 1, UINT64_C(3600) * 1000000);
        struct asking asking;
        options.initial = 0;
        struct tundish *bucket = proc_create_private(&options);
        start_asking(&asking, bucket, 5, LONG_NS);
        proc_expect_in_line(bucket, 1);
        kit_sleep_ns(20 * MS);
        uint64_t told_ns = kit_now_ns();
        news[_i](bucket);
        expect_served(&asking);
        best_ns = asking.end_ns - told_ns < best_ns ? asking.end_ns - told_ns : best_ns;
        tundish_close(bucket);
    }
    kit_expect(best_ns < AT_ONCE_NS, "%llu ms", (unsigned long long)(best_ns / MS));
}
END_TEST

START_TEST(whoever_stands_far_behind_is_served_as_soon_as_it_can_be)
{
    struct asking asking[20];
    struct tundish *bucket = slow_bucket(100, 0);
    for (unsigned i = 0; i < 20; i++) {
        start_asking(&asking[i], bucket, 5, LONG_NS);
        proc_expect_in_line(bucket, i + 1);
    }
    uint64_t told_ns = kit_now_ns();
    tundish_release(bucket, 100);
    for (unsigned i = 0; i < 20; i++)
        expect_served(&asking[i]);
    kit_expect(asking[19].end_ns - told_ns < 5 * AT_ONCE_NS, "%llu ms",
               (unsigned long long)((asking[19].end_ns - told_ns) / MS));
    kit_expect(tundish_available(bucket) == 0, "%u left", tundish_available(bucket));
    tundish_close(bucket);
}
END_TEST

START_TEST(a_cancelled_head_lets_the_next_move_up_at_once)
{
    struct asking head, next;
    struct tundish *bucket = slow_bucket(100, 50);
    start_asking(&head, bucket, 90, KIT_SECOND);
    proc_expect_in_line(bucket, 1);
    start_asking(&next, bucket, 40, LONG_NS);
    proc_expect_in_line(bucket, 2);
    pthread_join(head.thread, NULL);
    expect_served(&next);
    kit_expect(head.error == -ETIMEDOUT, "%s", tundish_strerror(head.error));
    kit_expect(next.end_ns < head.end_ns + LATE_NS, "%llu ms later",
               (unsigned long long)((next.end_ns - head.end_ns) / MS));
    kit_expect(tundish_available(bucket) == 10, "%u", tundish_available(bucket));
    tundish_close(bucket);
}
END_TEST

/* Who comes while others of the crowd look at the line must not take them for dead: each ticket is one place. */
START_TEST(a_crowd_that_comes_at_once_keeps_its_places)
{
    enum {
        CROWD = TDI_LAYOUT_SLOTS
    };
    for (unsigned round = 0; round < 10; round++) {
        struct asking asking[CROWD];
        struct tundish *bucket = slow_bucket(100, 0);
        for (unsigned i = 0; i < CROWD; i++)
            start_asking(&asking[i], bucket, 1, LONG_NS);
        proc_expect_in_line(bucket, CROWD);
        kit_sleep_ns(100 * MS);
        uint32_t tickets = atomic_load(&bucket->file->line.ticket);
        tundish_release(bucket, CROWD);
        for (unsigned i = 0; i < CROWD; i++)
            expect_served(&asking[i]);
        kit_expect(tickets <= CROWD + 1, "%u tickets for %d waiters: some lost their places", tickets, CROWD);
        tundish_close(bucket);
    }
}
END_TEST

START_TEST(two_handles_of_one_bucket_share_its_line)
{
    struct tundish_options options = proc_still_options(10, 0);
    struct tundish *one = proc_create("two-handles", &options), *other = proc_open("two-handles");
    struct asking asking[2];
    start_asking(&asking[0], one, 5, LONG_NS);
    proc_expect_in_line(other, 1);
    start_asking(&asking[1], other, 5, LONG_NS);
    proc_expect_in_line(one, 2);
    tundish_release(other, 5);
    expect_served(&asking[0]);
    kit_expect(proc_info(one).waiting == 1, "the second is still there");
    tundish_release(one, 5);
    expect_served(&asking[1]);
    kit_expect(asking[0].took_ns < LONG_NS / 2 && asking[1].took_ns < LONG_NS / 2, "slow");
    tundish_close(other);
    tundish_close(one);
    kit_expect(tundish_unlink("two-handles") == 0, "unlink");
}
END_TEST

/* Signals. */

static struct tundish *handlers_bucket;
static _Atomic(unsigned) handled;
static _Atomic(unsigned) handlers_tokens;
static _Atomic(uint64_t) handlers_longest_ns;

static void count_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void acquire_in_handler(int signal)
{
    uint64_t start_ns = kit_now_ns();
    if (tundish_acquire_for(handlers_bucket, 1, 10 * KIT_SECOND) == 0)
        atomic_fetch_add(&handlers_tokens, 1);
    uint64_t took_ns = kit_now_ns() - start_ns;
    if (took_ns > atomic_load(&handlers_longest_ns))
        atomic_store(&handlers_longest_ns, took_ns);
    count_signal(signal);
}

static void every_so_often(void (*handler)(int), int flags, suseconds_t every_us, bool again)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval timer = {.it_value = {0, every_us}};
    if (again)
        timer.it_interval = timer.it_value;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void no_more(void)
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
}

START_TEST(a_wait_goes_on_after_signal_handlers)
{
    for (int restart = 0; restart < 2; restart++) {
        uint64_t start_ns = tundish_now_ns();
        struct tundish *bucket = bucket_of(10, 100, 0, 0);
        atomic_store(&handled, 0);
        every_so_often(count_signal, restart ? SA_RESTART : 0, 2000, true);
        kit_expect(tundish_acquire(bucket, 10) == 0, "10 in 100 ms");
        uint64_t took_ns = tundish_now_ns() - start_ns;
        kit_expect(tundish_acquire_for(bucket, 10, 50 * MS) == -ETIMEDOUT, "10 in 50 ms");
        no_more();
        kit_expect(took_ns >= 99 * MS && took_ns < 100 * MS + LATE_NS, "%llu ms",
                   (unsigned long long)(took_ns / MS));
        kit_expect(atomic_load(&handled) > 3, "%u signals", atomic_load(&handled));
        tundish_close(bucket);
    }
}
END_TEST

START_TEST(a_handler_may_wait_in_the_line_it_interrupts)
{
    handlers_bucket = bucket_of(10, 200, 0, 0);
    every_so_often(acquire_in_handler, 0, 20000, false);
    uint64_t start_ns = kit_now_ns();
    kit_expect(tundish_acquire_for(handlers_bucket, 8, 10 * KIT_SECOND) == 0, "8 in 40 ms");
    uint64_t took_ns = kit_now_ns() - start_ns;
    kit_expect(atomic_load(&handlers_tokens) == 1 && atomic_load(&handled) == 1, "the handler got nothing");
    kit_expect(took_ns < 4 * KIT_SECOND, "%llu ms", (unsigned long long)(took_ns / MS));
    kit_expect(proc_info(handlers_bucket).waiting == 0, "in line");
    tundish_close(handlers_bucket);
}
END_TEST

START_TEST(a_handler_that_needs_what_the_interrupted_waits_for_is_served_in_the_end)
{
    /* The one it interrupts needs all the bucket can hold: it has to lose its place first. */
    handlers_bucket = bucket_of(10, 200, 0, TUNDISH_STRICT);
    every_so_often(acquire_in_handler, 0, 20000, false);
    kit_expect(tundish_acquire_for(handlers_bucket, 10, 10 * KIT_SECOND) == 0, "10 in 50 ms");
    kit_expect(atomic_load(&handlers_tokens) == 1, "the handler got nothing");
    kit_expect(atomic_load(&handlers_longest_ns) < 4 * KIT_SECOND, "the handler waited for %llu ms",
               (unsigned long long)(atomic_load(&handlers_longest_ns) / MS));
    tundish_close(handlers_bucket);
}
END_TEST

/* Cancellation. */

static void *ask_for_ever(void *argument)
{
    struct asking *asking = argument;
    asking->error = tundish_acquire(asking->bucket, asking->n);
    return NULL;
}

static void cancel_and_join(struct asking *asking)
{
    void *result;
    kit_expect(pthread_cancel(asking->thread) == 0, "cancel");
    kit_expect(pthread_join(asking->thread, &result) == 0, "join");
    kit_expect(result == PTHREAD_CANCELED && asking->error == 1, "it was not cancelled");
}

START_TEST(a_cancelled_thread_gives_everything_back)
{
    struct tundish *bucket = slow_bucket(10, 6);
    for (unsigned i = 0; i < 20; i++) {
        struct asking asking = {.bucket = bucket, .n = i % 2 ? 7 : 25, .error = 1}, behind;
        kit_expect(pthread_create(&asking.thread, NULL, ask_for_ever, &asking) == 0, "no thread");
        proc_expect_in_line(bucket, 1);
        start_asking(&behind, bucket, 6, LONG_NS);
        proc_expect_in_line(bucket, 2);
        if (i % 3)
            kit_sleep_ns(MS);
        cancel_and_join(&asking);
        expect_served(&behind);
        kit_expect(tundish_available(bucket) == 0, "%u left", tundish_available(bucket));
        tundish_release(bucket, 6);
        kit_expect(proc_info(bucket).waiting == 0, "still in line");
    }
    tundish_close(bucket);
}
END_TEST

static void *ask_uncancellably(void *argument)
{
    int state, type;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    ask_for_ever(argument);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    if (state != PTHREAD_CANCEL_DISABLE || type != PTHREAD_CANCEL_DEFERRED)
        ((struct asking *)argument)->error = 2;
    return NULL;
}

START_TEST(a_thread_that_is_not_to_be_cancelled_waits_on)
{
    struct tundish *bucket = slow_bucket(10, 0);
    struct asking asking = {.bucket = bucket, .n = 5, .error = 1};
    kit_expect(pthread_create(&asking.thread, NULL, ask_uncancellably, &asking) == 0, "no thread");
    proc_expect_in_line(bucket, 1);
    kit_expect(pthread_cancel(asking.thread) == 0, "cancel");
    kit_sleep_ns(50 * MS);
    kit_expect(proc_info(bucket).waiting == 1, "it left the line");
    tundish_release(bucket, 5);
    kit_expect(pthread_join(asking.thread, NULL) == 0, "join");
    kit_expect(asking.error == 0, "%d", asking.error);
    tundish_close(bucket);
}
END_TEST

/* Event loops. */

static int poll_by_epoll(struct tundish_waiter *waiter, uint64_t limit_ns)
{
    struct epoll_event event = {.events = EPOLLIN};
    int loop = epoll_create1(EPOLL_CLOEXEC), fd = tundish_waiter_fd(waiter), error = -EINPROGRESS;
    uint64_t end_ns = kit_now_ns() + limit_ns;
    kit_expect(fd >= 0 && tundish_waiter_fd(waiter) == fd, "descriptor %d", fd);
    kit_expect(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
    unsigned looks = 0;
    while (error == -EINPROGRESS && kit_now_ns() < end_ns) {
        kit_expect(epoll_wait(loop, &event, 1, (int)(limit_ns / MS)) == 1, "not readable in time");
        error = tundish_waiter_poll(waiter);
        looks++;
    }
    kit_expect(looks < 200, "readable %u times", looks);
    kit_expect(epoll_wait(loop, &event, 1, 0) == (error == -EINPROGRESS ? 0 : 1),
               "readable is to mean that it is over");
    close(loop);
    return error;
}

START_TEST(a_waiter_in_an_event_loop_is_served_in_time)
{
    unsigned descriptors = proc_count_descriptors();
    uint64_t start_ns = tundish_now_ns();
    struct tundish *bucket = bucket_of(10, 100, 0, 0);
    struct tundish_waiter *waiter;
    kit_expect(tundish_waiter_start(bucket, 15, TUNDISH_NO_DEADLINE, &waiter) == -EINPROGRESS, "15 of 0");
    kit_expect(tundish_waiter_poll(waiter) == -EINPROGRESS, "15 of 0");
    kit_expect(poll_by_epoll(waiter, LONG_NS) == 0, "15 in 150 ms");
    uint64_t took_ns = tundish_now_ns() - start_ns;
    kit_expect(took_ns >= 149 * MS && took_ns < 150 * MS + LATE_NS, "%llu ms",
               (unsigned long long)(took_ns / MS));
    kit_expect(tundish_waiter_poll(waiter) == 0 && tundish_waiter_poll(waiter) == 0, "the answer is final");
    kit_expect(tundish_waiter_next_ns(waiter) == 0, "over");
    tundish_waiter_free(waiter);
    kit_expect(tundish_waiter_start(bucket, 10, tundish_now_ns() + 40 * MS, &waiter) == -EINPROGRESS, "10");
    kit_expect(poll_by_epoll(waiter, LONG_NS) == -ETIMEDOUT, "10 in 40 ms");
    kit_expect(tundish_waiter_poll(waiter) == -ETIMEDOUT, "the answer is final");
    tundish_waiter_free(waiter);
    tundish_waiter_free(NULL);
    kit_expect(proc_count_descriptors() == descriptors, "descriptors leak");
    kit_expect(proc_info(bucket).waiting == 0, "in line");
    tundish_close(bucket);
}
END_TEST

START_TEST(a_freed_waiter_gives_everything_back)
{
    struct tundish *bucket = slow_bucket(10, 7);
    struct tundish_waiter *waiter, *behind;
    kit_expect(tundish_waiter_start(bucket, 9, TUNDISH_NO_DEADLINE, &waiter) == -EINPROGRESS, "9 of 7");
    kit_expect(tundish_waiter_start(bucket, 7, TUNDISH_NO_DEADLINE, &behind) == -EINPROGRESS, "behind");
    kit_expect(tundish_available(bucket) == 0, "those in line come first");
    tundish_waiter_free(waiter);
    kit_expect(tundish_waiter_poll(behind) == 0, "it has moved up");
    tundish_waiter_free(behind);
    kit_expect(tundish_available(bucket) == 0, "granted stays granted");
    tundish_release(bucket, 7);
    kit_expect(tundish_waiter_start(bucket, 25, TUNDISH_NO_DEADLINE, &waiter) == -EINPROGRESS, "25 of 7");
    tundish_waiter_free(waiter);
    kit_expect(tundish_available(bucket) == 7, "%u of 7", tundish_available(bucket));
    kit_expect(tundish_waiter_start(bucket, 7, 0, &waiter) == 0 && !waiter, "7 of 7");
    kit_expect(tundish_waiter_start(bucket, 7, 0, &waiter) == -ETIMEDOUT && !waiter, "7 of 0, past");
    tundish_close(bucket);
}
END_TEST

START_TEST(a_waiter_that_nobody_polls_delays_others_two_seconds_at_most)
{
    struct tundish *bucket = bucket_of(10, 100, 0, TUNDISH_STRICT);
    struct tundish_waiter *forgotten;
    kit_expect(tundish_waiter_start(bucket, 10, TUNDISH_NO_DEADLINE, &forgotten) == -EINPROGRESS, "10 of 0");
    uint64_t start_ns = kit_now_ns();
    kit_expect(tundish_acquire_for(bucket, 10, LONG_NS) == 0, "behind a forgotten one");
    uint64_t took_ns = kit_now_ns() - start_ns;
    kit_expect(took_ns > 1900 * MS && took_ns < 2300 * MS + LATE_NS, "%llu ms",
               (unsigned long long)(took_ns / MS));
    kit_expect(poll_by_epoll(forgotten, LONG_NS) == 0, "it lines up again");
    tundish_waiter_free(forgotten);
    tundish_close(bucket);
}
END_TEST

START_TEST(a_forked_child_lines_up_anew_with_its_parents_waiter)
{
    struct tundish *bucket = slow_bucket(20, 3);
    struct tundish_waiter *waiter;
    kit_expect(tundish_waiter_start(bucket, 25, TUNDISH_NO_DEADLINE, &waiter) == -EINPROGRESS, "25 of 3");
    kit_expect(proc_info(bucket).waiting == 1, "the parent");
    pid_t pid = fork();
    if (pid == 0) {
        int error = tundish_waiter_poll(waiter);
        bool two = proc_info(bucket).waiting == 2;
        tundish_waiter_free(waiter);
        _exit(error == -EINPROGRESS && two && proc_info(bucket).waiting == 1 ? 0 : 1);
    }
    int status;
    kit_expect(waitpid(pid, &status, 0) == pid && status == 0, "the child says %x", status);
    pid = fork();
    if (pid == 0) { /* not polled: it stands for nothing */
        tundish_waiter_free(waiter);
        _exit(proc_info(bucket).waiting == 1 ? 0 : 1);
    }
    kit_expect(waitpid(pid, &status, 0) == pid && status == 0, "the child says %x", status);
    tundish_waiter_free(waiter);
    kit_expect(tundish_available(bucket) == 3, "%u of 3 came back", tundish_available(bucket));
    kit_expect(proc_info(bucket).waiting == 0, "in line");
    tundish_close(bucket);
}
END_TEST

/* In a time namespace whose clock is behind ours. */
static int wait_on_another_clock(void)
{
    struct tundish *bucket;
    struct tundish_waiter *waiter;
    struct tundish_options options = proc_options(10, 100, 1000000);
    options.initial = 0;
    if (tundish_create_private(&bucket, &options) != 0)
        return 1;
    if (tundish_waiter_start(bucket, 5, TUNDISH_NO_DEADLINE, &waiter) != -EINPROGRESS)
        return 2;
    struct pollfd ready = {.fd = tundish_waiter_fd(waiter), .events = POLLIN};
    int error = -EINPROGRESS;
    for (unsigned looks = 0; error == -EINPROGRESS; looks++) {
        if (looks > 50 || poll(&ready, 1, 5000) != 1)
            return 3; /* not told that another look is worth while */
        error = tundish_waiter_poll(waiter);
    }
    if (error != 0)
        return 4;
    return poll(&ready, 1, 1000) == 1 ? 0 : 5; /* not told that it is over */
}

static bool set_clock_of_children_back(void)
{
    static const char offsets[] = "boottime -100 0\n";
    if (unshare(CLONE_NEWTIME) != 0)
        return false;
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, offsets, sizeof offsets - 1) == (ssize_t)sizeof offsets - 1;
    close(fd);
    return written;
}

START_TEST(a_descriptor_tells_what_there_is_to_tell_in_another_time_namespace)
{
    int status;
    pid_t outer = fork();
    if (outer == 0) {
        if (!set_clock_of_children_back())
            _exit(KIT_SKIP);
        pid_t inner = fork();
        if (inner == 0)
            _exit(wait_on_another_clock());
        waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    kit_expect(waitpid(outer, &status, 0) == outer && WIFEXITED(status), "the child");
    if (WEXITSTATUS(status) == KIT_SKIP)
        printf("time namespaces are not allowed here\n");
    else
        kit_expect(WEXITSTATUS(status) == 0, "failure %d", WEXITSTATUS(status));
}
END_TEST

/* Several buckets. */

struct crossing {
    struct tundish *bucket[2];
    _Atomic(uint64_t) granted;
    struct kit_barrier barrier;
};

static int cross(unsigned index, void *shared)
{
    struct crossing *crossing = shared;
    struct tundish_demand demands[2] = {{crossing->bucket[index % 2], 3},
                                        {crossing->bucket[1 - index % 2], 3}};
    kit_barrier_wait(&crossing->barrier);
    for (unsigned i = 0; i < 15; i++) {
        int error = tundish_acquire_all(demands, 2, tundish_now_ns() + LONG_NS);
        kit_expect(error == 0, "%s", tundish_strerror(error));
        atomic_fetch_add(&crossing->granted, 3);
    }
    return 0;
}

START_TEST(crossed_orders_do_not_block_each_other)
{
    struct crossing *crossing = kit_shared_new(sizeof *crossing);
    kit_barrier_init(&crossing->barrier, 6);
    crossing->bucket[0] = bucket_of(10, 500, 0, 0);
    crossing->bucket[1] = bucket_of(10, 700, 0, 0);
    kit_collect(kit_spawn(6, cross, crossing), 2 * LONG_NS);
    kit_expect(atomic_load(&crossing->granted) == 270, "granted");
    for (int i = 0; i < 2; i++) {
        struct tundish_info info = proc_info(crossing->bucket[i]);
        kit_expect(info.waiting == 0, "%u in line", info.waiting);
        kit_expect(info.age_ns / KIT_SECOND * info.refill + info.refill >= 270, "more than were generated");
        tundish_close(crossing->bucket[i]);
    }
}
END_TEST

START_TEST(waiting_for_several_holds_none_of_them)
{
    struct tundish *full = slow_bucket(10, 10), *empty = slow_bucket(10, 0);
    struct tundish_demand demands[2] = {{full, 4}, {empty, 4}};
    kit_expect(tundish_acquire_all(demands, 2, tundish_now_ns() + 30 * MS) == -ETIMEDOUT, "4 of 0");
    kit_expect(tundish_available(full) == 10 && tundish_available(empty) == 0, "%u and %u",
               tundish_available(full), tundish_available(empty));
    kit_expect(proc_info(empty).waiting == 0, "in line");
    tundish_close(full);
    tundish_close(empty);
}
END_TEST

/* Deaths. */

/*
 * The dead and the stopped stand before a living one: they want ten tokens of a bucket that will never have
 * more than nine, which is what the living one wants.
 */
static int wait_for_ten(unsigned index, void *bucket)
{
    (void)index;
    return tundish_acquire_for(bucket, 10, LONG_NS);
}

/* How long the living one is held up by whom it stands behind now. */
static uint64_t wait_behind_it(struct tundish *bucket)
{
    uint64_t start_ns = kit_now_ns();
    kit_expect(tundish_acquire_for(bucket, 9, LONG_NS) == 0, "nine of nine");
    return kit_now_ns() - start_ns;
}

static void kill_in_line(struct tundish *bucket)
{
    struct kit_children *victim = kit_spawn(1, wait_for_ten, bucket);
    proc_expect_in_line(bucket, 1);
    kit_child_kill(victim, 0);
    kit_collect(victim, KIT_SECOND);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

START_TEST(a_killed_waiter_delays_others_by_less_than_a_tenth_of_a_second)
{
    uint64_t best_ns = UINT64_MAX;
    for (unsigned attempt = 0; attempt < TRIES && best_ns >= 100 * MS; attempt++) {
        struct tundish *bucket = slow_bucket(10, 9);
        kill_in_line(bucket);
        kit_expect(proc_info(bucket).waiting == 1, "the dead one is in line");
        best_ns = less(best_ns, wait_behind_it(bucket));
        kit_expect(proc_info(bucket).waiting == 0, "the dead one is still in line");
        tundish_close(bucket);
    }
    kit_expect(best_ns < 100 * MS, "%llu ms", (unsigned long long)(best_ns / MS));
}
END_TEST

START_TEST(a_try_behind_a_killed_waiter_is_refused_by_the_living_only)
{
    uint64_t best_ns = UINT64_MAX;
    for (unsigned attempt = 0; attempt < TRIES && best_ns >= 100 * MS; attempt++) {
        struct tundish *bucket = slow_bucket(10, 9);
        kill_in_line(bucket);
        uint64_t start_ns = kit_now_ns();
        while (tundish_try_acquire(bucket, 9) != 0)
            kit_expect(kit_now_ns() - start_ns < LONG_NS, "still refused");
        best_ns = less(best_ns, kit_now_ns() - start_ns);
        tundish_close(bucket);
    }
    kit_expect(best_ns < 100 * MS, "%llu ms", (unsigned long long)(best_ns / MS));
}
END_TEST

START_TEST(a_stopped_waiter_delays_others_two_seconds_and_then_lines_up_again)
{
    struct tundish *bucket = slow_bucket(10, 9);
    struct kit_children *stopped = kit_spawn(1, wait_for_ten, bucket);
    proc_expect_in_line(bucket, 1);
    /* One that was stopped before it said so in the word would delay nobody. */
    while (!(atomic_load(&bucket->file->word) & TDI_WORD_QUEUED))
        kit_sleep_ns(MS);
    kill(kit_child_pid(stopped, 0), SIGSTOP);
    uint64_t took_ns = wait_behind_it(bucket);
    kit_expect(took_ns > 1500 * MS && took_ns < 2200 * MS + LATE_NS, "%llu ms",
               (unsigned long long)(took_ns / MS));
    kit_expect(proc_info(bucket).waiting == 0, "it is still in line");
    kill(kit_child_pid(stopped, 0), SIGCONT);
    tundish_release(bucket, 10);
    kit_collect(stopped, LONG_NS);
    tundish_close(bucket);
}
END_TEST

/* The dead one's entry is cleared to make room for others while it is still in line. */
START_TEST(a_dead_waiter_is_found_out_even_after_its_entry_was_needed)
{
    struct tundish_options options = proc_still_options(10, 9);
    struct tundish *bucket = proc_create("crowded", &options), *more[TDI_LAYOUT_INSTANCES];
    uint64_t best_ns = UINT64_MAX;
    for (unsigned attempt = 0; attempt < TRIES && best_ns >= 500 * MS; attempt++) {
        unsigned opened = 0;
        kill_in_line(bucket);
        while (opened < TDI_LAYOUT_INSTANCES - 1)
            more[opened++] = proc_open("crowded");
        best_ns = less(best_ns, wait_behind_it(bucket));
        tundish_release(bucket, 9);
        while (opened > 0)
            tundish_close(more[--opened]);
    }
    tundish_close(bucket);
    kit_expect(tundish_unlink("crowded") == 0, "unlink");
    kit_expect(best_ns < 500 * MS, "it was in the way for %llu ms", (unsigned long long)(best_ns / MS));
}
END_TEST

START_TEST(a_dead_waiter_of_another_pid_namespace_is_evicted_after_two_seconds)
{
    struct tundish *bucket = slow_bucket(10, 9);
    pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
            _exit(KIT_SKIP);
        pid_t inner = fork();
        if (inner == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(wait_for_ten(0, bucket));
        }
        proc_expect_in_line(bucket, 1);
        kill(inner, SIGKILL);
        waitpid(inner, NULL, 0);
        _exit(0);
    }
    int status;
    kit_expect(waitpid(outer, &status, 0) == outer && WIFEXITED(status), "the child");
    if (WEXITSTATUS(status) == KIT_SKIP) {
        printf("pid namespaces are not allowed here\n");
        tundish_close(bucket);
        return;
    }
    kit_expect(status == 0 && proc_info(bucket).waiting == 1, "the dead one is in line");
    uint64_t took_ns = wait_behind_it(bucket);
    kit_expect(took_ns < 2100 * MS + LATE_NS, "%llu ms", (unsigned long long)(took_ns / MS));
    tundish_close(bucket);
}
END_TEST

/* Many threads. */

#define THREADS 24

static void *take_turns(void *argument)
{
    struct asking *asking = argument;
    for (unsigned i = 0; i < 40; i++) {
        int error = tundish_acquire_for(asking->bucket, 1 + i % 3, LONG_NS);
        kit_expect(error == 0, "%s", tundish_strerror(error));
        if (i % 5 == 0)
            tundish_acquire_for(asking->bucket, 15, MS);
        if (i % 7 == 0)
            tundish_release(asking->bucket, 1);
        atomic_thread_fence(memory_order_seq_cst);
        asking->took_ns += 1;
    }
    return NULL;
}

START_TEST(threads_take_turns)
{
    struct tundish *bucket = bucket_of(10, 5000, 10, 0);
    struct asking asking[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        asking[i] = (struct asking){.bucket = bucket};
        kit_expect(pthread_create(&asking[i].thread, NULL, take_turns, &asking[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(asking[i].thread, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        kit_expect(asking[i].took_ns == 40, "thread %u", i);
    kit_expect(proc_info(bucket).waiting == 0, "in line");
    tundish_close(bucket);
}
END_TEST

static Suite *waiting(void)
{
    Suite *suite = suite_create("waiting");

    TCase *timeouts = kit_case(suite, "timeouts");
    tcase_add_test(timeouts, a_timeout_comes_neither_early_nor_very_late);
    tcase_add_test(timeouts, a_deadline_that_is_past_tries_once);
    tcase_add_test(timeouts, pieces_of_a_large_request_come_back_after_a_timeout);
    tcase_add_test(timeouts, errno_and_timer_slack_are_as_they_were);

    TCase *told = kit_case(suite, "news");
    tcase_add_loop_test(told, whoever_sleeps_for_an_hour_hears_of_more_tokens_at_once, 0,
                        (int)PROC_LEN(news));
    tcase_add_test(told, whoever_stands_far_behind_is_served_as_soon_as_it_can_be);
    tcase_add_test(told, a_cancelled_head_lets_the_next_move_up_at_once);
    tcase_add_test(told, a_crowd_that_comes_at_once_keeps_its_places);
    tcase_add_test(told, two_handles_of_one_bucket_share_its_line);

    TCase *signals = kit_case(suite, "signals");
    tcase_add_test(signals, a_wait_goes_on_after_signal_handlers);
    tcase_add_test(signals, a_handler_may_wait_in_the_line_it_interrupts);
    tcase_add_test(signals, a_handler_that_needs_what_the_interrupted_waits_for_is_served_in_the_end);

    TCase *cancelling = kit_case(suite, "cancelling");
    tcase_add_test(cancelling, a_cancelled_thread_gives_everything_back);
    tcase_add_test(cancelling, a_thread_that_is_not_to_be_cancelled_waits_on);

    TCase *loops = kit_case(suite, "loops");
    tcase_add_test(loops, a_waiter_in_an_event_loop_is_served_in_time);
    tcase_add_test(loops, a_freed_waiter_gives_everything_back);
    tcase_add_test(loops, a_waiter_that_nobody_polls_delays_others_two_seconds_at_most);
    tcase_add_test(loops, a_forked_child_lines_up_anew_with_its_parents_waiter);
    tcase_add_test(loops, a_descriptor_tells_what_there_is_to_tell_in_another_time_namespace);

    TCase *several = kit_case(suite, "several");
    tcase_add_test(several, crossed_orders_do_not_block_each_other);
    tcase_add_test(several, waiting_for_several_holds_none_of_them);

    TCase *deaths = kit_case(suite, "deaths");
    tcase_add_test(deaths, a_killed_waiter_delays_others_by_less_than_a_tenth_of_a_second);
    tcase_add_test(deaths, a_try_behind_a_killed_waiter_is_refused_by_the_living_only);
    tcase_add_test(deaths, a_stopped_waiter_delays_others_two_seconds_and_then_lines_up_again);
    tcase_add_test(deaths, a_dead_waiter_is_found_out_even_after_its_entry_was_needed);
    tcase_add_test(deaths, a_dead_waiter_of_another_pid_namespace_is_evicted_after_two_seconds);

    TCase *threads = kit_case(suite, "threads");
    tcase_add_test(threads, threads_take_turns);
    return suite;
}

KIT_MAIN(waiting)
