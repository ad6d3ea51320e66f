/* SPDX-License-Identifier: MIT */
/*
 * epoll: three jobs wait for tokens in one event loop, which goes on turning meanwhile. The descriptors of
 * waiters are never read; polling a waiter is what takes the tokens, and freeing it closes its descriptor.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <tundish/tundish.h>
#include <unistd.h>

struct job {
    const char *name;
    uint32_t n;
    struct tundish_waiter *waiter;
};

static int check(int result)
{
    if (result >= 0 || result == -EINPROGRESS)
        return result;
    fprintf(stderr, "epoll: %s\n", tundish_strerror(result));
    exit(1);
}

static void watch(int loop, struct job *job)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = job};
    int fd = check(tundish_waiter_fd(job->waiter));
    if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0)
        check(-errno);
}

/* 1 if the job has to wait. */
static int start(int loop, struct tundish *bucket, struct job *job)
{
    const uint64_t never = TUNDISH_NO_DEADLINE;
    int result = tundish_waiter_start(bucket, job->n, never, &job->waiter);
    if (check(result) == 0) {
        printf("%s: at once\n", job->name);
        return 0;
    }
    watch(loop, job);
    return 1;
}

/* 1 if the job is done. */
static int proceed(struct job *job)
{
    if (check(tundish_waiter_poll(job->waiter)) == -EINPROGRESS)
        return 0;
    printf("%s: granted\n", job->name);
    tundish_waiter_free(job->waiter);
    return 1;
}

int main(void)
{
    /* The second asks for more than the bucket holds. */
    struct job jobs[] = {{"a", 1, NULL}, {"b", 20, NULL}, {"c", 1, NULL}};
    struct tundish_options options = TUNDISH_OPTIONS_INIT(5, 50);
    struct tundish *bucket;
    int waiting = 0, idle = 0;

    check(tundish_create_private(&bucket, &options));
    int loop = epoll_create1(EPOLL_CLOEXEC);
    if (loop < 0)
        check(-errno);
    for (int i = 0; i < 3; i++)
        waiting += start(loop, bucket, &jobs[i]);
    while (waiting > 0) {
        struct epoll_event event;
        int ready = epoll_wait(loop, &event, 1, 10);
        if (ready == 1)
            waiting -= proceed(event.data.ptr);
        else
            idle++; /* time for other business */
    }
    printf("%d turns of the loop were free\n", idle);
    close(loop);
    tundish_close(bucket);
    return 0;
}
