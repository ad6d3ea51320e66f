/* SPDX-License-Identifier: MIT */
/* smoke VERSION: a program of somebody else's, which knows the public header only. Silent when all is well.
 */
#include <tundish/tundish.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "smoke"
#define MILLISECOND UINT64_C(1000000)

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "smoke.c:%d: %s\n", __LINE__, #condition);                                       \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static void child_takes_two(struct tundish *bucket)
{
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0)
        _exit(tundish_try_acquire(bucket, 2) == 0 ? 0 : 1);
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void two_handles_share(void)
{
    /* One token in 100 seconds: none falls due while we look. */
    struct tundish_options options = TUNDISH_OPTIONS_INIT(5, 1);
    options.interval_us = 100 * UINT64_C(1000000);
    struct tundish *one, *two;
    EXPECT(tundish_create(&one, NAME, &options) == 0);
    EXPECT(tundish_create(&two, NAME, &options) == -EEXIST && !two);
    EXPECT(tundish_open(&two, NAME) == 0);
    EXPECT(tundish_try_acquire(one, 2) == 0);
    child_takes_two(one);
    EXPECT(tundish_available(two) == 1);
    EXPECT(tundish_try_acquire(two, 2) == -EAGAIN);
    EXPECT(tundish_try_acquire(two, 6) == -E2BIG);
    EXPECT(tundish_wait_time_ns(two, 2) > 0);
    tundish_release(two, 4);
    EXPECT(tundish_available(one) == 5);
    tundish_close(two);
    tundish_close(one);
    EXPECT(tundish_unlink(NAME) == 0);
    EXPECT(tundish_open(&one, NAME) == -ENOENT);
}

static void waiting_takes_time(void)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(1, 50);
    struct tundish *bucket;
    EXPECT(tundish_create_private(&bucket, &options) == 0);
    EXPECT(tundish_try_acquire(bucket, 1) == 0);
    uint64_t start_ns = tundish_now_ns();
    EXPECT(tundish_acquire(bucket, 1) == 0);
    EXPECT(tundish_acquire(bucket, 1) == 0);
    EXPECT(tundish_now_ns() - start_ns >= 20 * MILLISECOND);
    tundish_close(bucket);
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2 && strcmp(tundish_version(), argv[1]) == 0);
    EXPECT(strlen(tundish_strerror(-EAGAIN)) > 0);
    two_handles_share();
    waiting_takes_time();
    return 0;
}
