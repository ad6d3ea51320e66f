/* SPDX-License-Identifier: MIT */
/*
 * Processes in another time namespace, whose steady clock is ten days ahead, share buckets with those
 * outside: both see the same bucket time and each other.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/handle.h"
#include "lib/sweep.h"
#include "proc/proc.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define AHEAD_S 864000

/* What the process inside has to tell. */
struct story {
    uint64_t boottime_s; /* as the kernel tells it there */
    uint64_t now_ns;
    uint64_t age_ns;
    uint32_t available;
    uint32_t living; /* handles on the bucket */
    int32_t swept;
    int32_t error;
};

struct talk {
    int to_parent[2];
    int to_child[2];
};

enum moment {
    EXECUTED,          /* the program inside is a new one */
    FORKED,            /* it never used the library before the fork */
    FORKED_WITH_HANDLE /* it goes on with the handle it had outside */
};

struct setting {
    struct kit_barrier made; /* the bucket */
    struct talk talk;
    enum moment moment;
};

static void tell(int out, int in, struct tundish *bucket, int error)
{
    struct timespec now;
    struct story story = {.error = error, .swept = -1};
    char go;
    clock_gettime(CLOCK_BOOTTIME, &now);
    story.boottime_s = (uint64_t)now.tv_sec;
    if (error == 0) {
        struct tundish_info info = TUNDISH_INFO_INIT;
        story.error = tundish_try_acquire(bucket, 1);
        story.now_ns = tundish_now_ns();
        tundish_info(bucket, &info);
        story.age_ns = info.age_ns;
        story.available = info.available;
        story.living = tdi_handle_count_live(bucket->file);
        story.swept = tdi_sweep();
    }
    /* A run's bucket of each side that the other side has not opened. */
    struct tundish_options options = proc_options(1, 1, 1000000);
    struct tundish *own = NULL;
    if (story.error == 0)
        story.error = tundish_create(&own, "run-inside", &options);
    if (write(out, &story, sizeof story) != sizeof story || read(in, &go, 1) != 1)
        _exit(5);
}

/* The program inside: argv is NAME "inside" OUT IN. */
static int inside(char **argv)
{
    struct tundish *bucket = NULL;
    int error = tundish_open(&bucket, "run-bucket");
    tell(atoi(argv[2]), atoi(argv[3]), bucket, error);
    tundish_close(bucket);
    return 0;
}

static _Noreturn void execute(const struct talk *talk)
{
    char out[12], in[12];
    snprintf(out, sizeof out, "%d", talk->to_parent[1]);
    snprintf(in, sizeof in, "%d", talk->to_child[0]);
    execl("/proc/self/exe", "inside", "inside", out, in, (char *)NULL);
    _exit(6);
}

static int leave_for_another_namespace(void)
{
    char text[64];
    if (unshare(CLONE_NEWTIME) != 0)
        return -errno;
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    int len = snprintf(text, sizeof text, "boottime %d 500000007\n", AHEAD_S);
    int error = fd < 0 || write(fd, text, (size_t)len) != len ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return error;
}

/* Stands between the two namespaces: its children are inside. */
static int stand_between(unsigned index, void *shared)
{
    struct setting *setting = shared;
    struct tundish *bucket = NULL;
    int status;
    (void)index;
    kit_barrier_wait(&setting->made);
    if (setting->moment == FORKED_WITH_HANDLE) {
        bucket = proc_open("run-bucket");
        uint64_t end_ns = kit_now_ns() + 10 * KIT_MILLISECOND;
        while (kit_now_ns() < end_ns) /* long enough for the clock to be learnt */
            tundish_try_acquire(bucket, 0), tundish_available(bucket);
    }
    int error = leave_for_another_namespace();
    kit_expect(error == 0, "time namespace: %s", strerror(-error));
    pid_t child = fork();
    kit_expect(child >= 0, "fork: %s", strerror(errno));
    if (child == 0 && setting->moment == EXECUTED)
        execute(&setting->talk);
    if (child == 0) {
        if (setting->moment == FORKED)
            error = tundish_open(&bucket, "run-bucket");
        tell(setting->talk.to_parent[1], setting->talk.to_child[0], bucket, error);
        _exit(0);
    }
    kit_expect(waitpid(child, &status, 0) == child && status == 0, "the process inside ended with %#x",
               status);
    return 0;
}

static void listen_to(const struct talk *talk, struct story *story)
{
    struct pollfd ready = {.fd = talk->to_parent[0], .events = POLLIN};
    ck_assert_int_eq(poll(&ready, 1, 30000), 1);
    ck_assert_int_eq(read(talk->to_parent[0], story, sizeof *story), sizeof *story);
}

START_TEST(both_sides_of_a_time_namespace_see_the_same_time_and_each_other)
{
    struct tundish_options options = proc_options(1000, 1, 1000 * UINT64_C(1000000));
    struct setting *setting = kit_shared_new(sizeof *setting);
    struct story story;
    struct timespec boot;
    setting->moment = (enum moment)_i;
    kit_barrier_init(&setting->made, 2);
    ck_assert_int_eq(pipe(setting->talk.to_parent), 0);
    ck_assert_int_eq(pipe(setting->talk.to_child), 0);
    struct kit_children *between = kit_spawn(1, stand_between, setting); /* before we use the library */
    struct tundish *bucket = proc_create("run-bucket", &options);
    struct tundish *other = proc_create("run-outside", &options);
    ck_assert_int_eq(tundish_try_acquire(bucket, 500), 0);
    uint64_t before_ns = tundish_now_ns();
    kit_barrier_wait(&setting->made);
    listen_to(&setting->talk, &story);
    uint64_t after_ns = tundish_now_ns();
    struct tundish_info info = proc_info(bucket);
    uint32_t living = tdi_handle_count_live(bucket->file);
    int swept = tdi_sweep();
    ck_assert_int_eq(write(setting->talk.to_child[1], "x", 1), 1);
    kit_collect(between, 30 * KIT_SECOND);

    clock_gettime(CLOCK_BOOTTIME, &boot);
    kit_expect(story.boottime_s >= AHEAD_S + (uint64_t)boot.tv_sec - 60, "the namespace is not ahead");
    ck_assert_int_eq(story.error, 0);
    kit_expect(story.now_ns + 5000 >= before_ns && story.now_ns <= after_ns + 5000,
               "now is %lld ns off inside", (long long)(story.now_ns - before_ns));
    kit_expect(story.age_ns <= info.age_ns + 5000, "the bucket is %lld ns older inside",
               (long long)(story.age_ns - info.age_ns));
    ck_assert_uint_eq(story.available, 499);
    ck_assert_uint_eq(info.available, 499);
    unsigned handles = setting->moment == FORKED_WITH_HANDLE ? 3 : 2;
    kit_expect(story.living == handles && living == handles,
               "%u living handles seen from inside, %u from outside, there are %u", story.living, living,
               handles);
    kit_expect(story.swept == 0 && swept == 0,
               "%d buckets swept from inside, %d from outside, though all live", story.swept, swept);
    ck_assert_int_eq(tundish_try_acquire(bucket, 1), 0);
    tundish_close(other);
    tundish_close(bucket);
}
END_TEST

static int open_on_the_threshold(unsigned index, void *shared)
{
    struct setting *setting = shared;
    struct tundish *bucket;
    (void)index;
    kit_barrier_wait(&setting->made);
    kit_expect(leave_for_another_namespace() == 0, "no time namespace");
    int error = tundish_open(&bucket, "bucket");
    kit_expect(error == -ENOTSUP && bucket == NULL, "open gives %d", error);
    struct tundish_options options = proc_options(1, 1, 1000000);
    error = tundish_create_private(&bucket, &options);
    kit_expect(error == -ENOTSUP && bucket == NULL, "create_private gives %d", error);
    return 0;
}

START_TEST(who_has_left_its_namespace_without_executing_is_enotsup)
{
    struct setting *setting = kit_shared_new(sizeof *setting);
    struct tundish_options options = proc_options(1, 1, 1000000);
    kit_barrier_init(&setting->made, 2);
    struct kit_children *child = kit_spawn(1, open_on_the_threshold, setting);
    tundish_close(proc_create("bucket", &options));
    kit_barrier_wait(&setting->made);
    kit_collect(child, 30 * KIT_SECOND);
}
END_TEST

static int may_make_time_namespaces(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(leave_for_another_namespace() != 0);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static Suite *time_namespaces(void)
{
    if (!may_make_time_namespaces())
        kit_skip("needs the right to make a time namespace, and a kernel that has them");
    Suite *suite = suite_create("time namespaces");
    TCase *both = kit_case(suite, "both sides");
    tcase_add_loop_test(both, both_sides_of_a_time_namespace_see_the_same_time_and_each_other, EXECUTED,
                        FORKED_WITH_HANDLE + 1);
    tcase_add_test(both, who_has_left_its_namespace_without_executing_is_enotsup);
    return suite;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "inside") == 0)
        return inside(argv);
    return kit_run((kit_suite_fn *const[]){time_namespaces, NULL});
}
