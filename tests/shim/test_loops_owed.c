/* SPDX-License-Identifier: MIT */
/* Events are owed though an epoll has several numbers or processes, or the program executes another one. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "loops.h"

#define NEVER "TUNDISH_RATE=1kB/d", "TUNDISH_BURST=1kB"

static void ctl(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    EXPECT(epoll_ctl(epfd, op, fd, &event) == 0, "op %d, errno %d", op, errno);
}

/* How many events come, one at most; *data is the event's. */
static int await(int epfd, int timeout_ms, uint64_t *data)
{
    struct epoll_event event = {.events = 0};
    int n = epoll_wait(epfd, &event, 1, timeout_ms);
    EXPECT(n >= 0, "errno %d", errno);
    *data = event.data.u64;
    return n;
}

static int other_number(int epfd, int way)
{
    int number = way == 0   ? dup(epfd)
                 : way == 1 ? dup2(epfd, 50)
                 : way == 2 ? dup3(epfd, 51, O_CLOEXEC)
                            : fcntl(epfd, F_DUPFD, 52);
    EXPECT(number >= 0, "errno %d", errno);
    return number;
}

/* Its registrations live on under the other number, and so does what is owed. */
static void one_number_of_an_epoll_may_be_closed(void)
{
    static const uint32_t modes[] = {0, EPOLLET};
    for (int i = 0; i < 8; i++) {
        int fd = loops_upload(), first = epoll_create1(0);
        uint64_t data;
        if (i % 2 == 0)
            ctl(first, EPOLL_CTL_ADD, fd, EPOLLOUT | modes[i / 4], 7);
        int epfd = other_number(first, i % 4);
        if (i % 2 == 1)
            ctl(first, EPOLL_CTL_ADD, fd, EPOLLOUT | modes[i / 4], 7);
        EXPECT(await(epfd, 20000, &data) == 1, "it is not writable");
        if (i % 4 < 2)
            loops_fill(fd);
        close(first);
        loops_fill(fd);
        for (size_t n = 100000; n > 0; n -= loops_write(fd, n)) {
            loops_fill(fd);
            EXPECT(await(epfd, 20000, &data) == 1 && data == 7, "%d: the loop has stalled", i);
        }
        close(fd);
        close(epfd);
    }
}

/* What was asked for by the first number is history. */
static void the_last_word_counts_by_whichever_number_it_was_said(void)
{
    int fd = loops_upload(), first = epoll_create1(0), second = dup(first);
    uint64_t data;
    for (uint64_t i = 0; i < 20; i++) {
        ctl(i % 2 == 0 ? first : second, i == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, EPOLLOUT, i);
        loops_fill(fd);
        EXPECT(await(first, 20000, &data) == 1 && data == i, "%d instead of %d", (int)data, (int)i);
        loops_fill(fd);
        EXPECT(await(second, 20000, &data) == 1 && data == i, "%d instead of %d", (int)data, (int)i);
    }
    ctl(second, EPOLL_CTL_DEL, fd, 0, 0);
    loops_fill(fd);
    EXPECT(await(first, 300, &data) == 0, "an event of what was deleted");
}

/* Two epolls are two, whatever was duplicated. */
static void registrations_of_two_epolls_are_kept_apart(void)
{
    int fd = loops_upload(), one = epoll_create1(0), other = epoll_create1(0), again = dup(one);
    uint64_t data;
    ctl(one, EPOLL_CTL_ADD, fd, EPOLLOUT, 1);
    ctl(other, EPOLL_CTL_ADD, fd, EPOLLOUT, 2);
    close(one);
    for (int i = 0; i < 10; i++) {
        loops_fill(fd);
        EXPECT(await(again, 20000, &data) == 1 && data == 1, "%d", (int)data);
        EXPECT(await(other, 20000, &data) == 1 && data == 2, "%d", (int)data);
    }
}

/* The parent in debt, and its child, which has tokens of its own, share an epoll. */
_Noreturn static void be_parent(int said)
{
    int fd = loops_upload(), epfd = epoll_create1(0);
    uint64_t data;
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 1);
    loops_fill(fd);
    EXPECT(await(epfd, 100, &data) == 0, "it became writable");
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        bool early = await(epfd, 300, &data) == 1;
        char word = early ? 'e' : await(epfd, 10000, &data) == 1 ? 'y' : 'n';
        EXPECT(write(said, &word, 1) == 1, "errno %d", errno);
        _exit(0);
    }
    guest_sleep_ms(800);
    raise(SIGKILL);
    _exit(1);
}

static void a_child_is_shown_what_its_parent_was_killed_before_showing(void)
{
    int ends[2], status;
    char word = '?';
    EXPECT(pipe(ends) == 0, "errno %d", errno);
    pid_t parent = fork();
    if (parent == 0)
        be_parent(ends[1]);
    close(ends[1]);
    EXPECT(waitpid(parent, &status, 0) == parent && WIFSIGNALED(status), "%#x", (unsigned)status);
    EXPECT(read(ends[0], &word, 1) == 1, "errno %d", errno);
    EXPECT(word != 'e', "shown while the parent was still waiting");
    EXPECT(word == 'y', "the child's loop has stalled");
}

static void a_loop_in_debt_sleeps_after_an_exec_that_failed(void)
{
    int fd = loops_upload(), epfd = epoll_create1(0);
    uint64_t data;
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 1);
    loops_fill(fd);
    EXPECT(await(epfd, 100, &data) == 0, "it became writable");
    for (int i = 0; i < 3; i++) {
        errno = 0;
        EXPECT(execl("/nonexistent/program", "program", (char *)NULL) == -1 && errno == ENOENT, "errno %d",
               errno);
        EXPECT(await(epfd, 200, &data) == 0, "it is shown for good");
    }
}

/* And it is granted what it waits for, from a new place in line. */
static void a_loop_in_debt_goes_on_after_an_exec_that_failed(void)
{
    static const uint32_t modes[] = {0, EPOLLET, EPOLLONESHOT};
    for (int i = 0; i < 3; i++) {
        int fd = loops_upload(), epfd = epoll_create1(0);
        uint64_t data;
        loops_fill(fd);
        ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | modes[i], 1);
        (void)execl("/nonexistent/program", "program", (char *)NULL);
        EXPECT(await(epfd, 20000, &data) == 1, "the loop has stalled");
        EXPECT(loops_write(fd, 100) == 100, "nothing was granted");
        close(fd);
        close(epfd);
    }
}

static void *wait_for_long(void *epfd)
{
    uint64_t data;
    (void)await(*(int *)epfd, 20000, &data);
    return NULL;
}

/* In line until it executes something else; where a thread waits, another one looks after the debt. */
_Noreturn static void become_sleep(int fd, bool threads)
{
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t data;
    pthread_t thread;
    ctl(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 1);
    if (threads)
        EXPECT(pthread_create(&thread, NULL, wait_for_long, &epfd) == 0, "no thread");
    loops_fill(fd);
    EXPECT(await(epfd, 20, &data) == 0, "it became writable");
    execlp("sleep", "sleep", "10", (char *)NULL);
    _exit(127);
}

/* Returns when the child sleeps as another program. */
static pid_t start_sleep(int fd, bool threads)
{
    int ends[2];
    char none;
    EXPECT(pipe2(ends, O_CLOEXEC) == 0, "errno %d", errno);
    pid_t child = fork();
    if (child == 0)
        become_sleep(fd, threads);
    close(ends[1]);
    EXPECT(read(ends[0], &none, 1) == 0, "errno %d", errno);
    close(ends[0]);
    return child;
}

static uint32_t in_line(void)
{
    struct tundish_info info = TUNDISH_INFO_INIT;
    struct tundish *bucket;
    EXPECT(tundish_open(&bucket, "shared") == 0, "no bucket");
    EXPECT(tundish_info(bucket, &info) == 0, "no info");
    tundish_close(bucket);
    return info.waiting;
}

static void who_executes_something_else_leaves_the_line(void)
{
    int fds[10];
    for (int i = 0; i < 10; i++)
        fds[i] = loops_upload();
    for (int i = 0; i < 10; i++) {
        pid_t child = start_sleep(fds[i], i % 2 == 1);
        uint32_t found = in_line();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        EXPECT(found == 0, "%d: %d in line", i, (int)found);
    }
}

static const struct guest_case cases[] = {
    GUEST_CASE(one_number_of_an_epoll_may_be_closed, LOOPS_RATE),
    GUEST_CASE(the_last_word_counts_by_whichever_number_it_was_said, LOOPS_RATE),
    GUEST_CASE(registrations_of_two_epolls_are_kept_apart, LOOPS_RATE),
    GUEST_CASE(a_child_is_shown_what_its_parent_was_killed_before_showing, NEVER),
    GUEST_CASE(a_loop_in_debt_sleeps_after_an_exec_that_failed, NEVER),
    GUEST_CASE(a_loop_in_debt_goes_on_after_an_exec_that_failed, LOOPS_RATE),
    GUEST_CASE(who_executes_something_else_leaves_the_line, "TUNDISH_BUCKET=shared", NEVER),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
