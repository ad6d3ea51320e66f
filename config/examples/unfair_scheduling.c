/* SPDX-License-Identifier: MIT */
/*
 * unfair_scheduling: what standing in line buys and what it costs. Five tasks take ten tokens each, one at a
 * time, as fast as they get them, from a bucket that gains ten at once every 200 ms. In line, every task gets
 * something of every step, so none waits longer than one step, and most end late. Without, whoever is awake
 * takes again and again: some tasks end early, others wait for several steps.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tundish/tundish.h>

enum {
    TASKS = 5,
    ACQUIRES = 10,
    STEP_TOKENS = 10,
    STEP_US = 200000,
};

struct task {
    struct tundish *bucket;
    pthread_barrier_t *together;
    uint64_t begin_ns;
    uint64_t granted_ns[ACQUIRES];
    int grants;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "unfair_scheduling: %s: %s\n", what, why);
    exit(1);
}

static void *run(void *argument)
{
    struct task *task = argument;
    pthread_barrier_wait(task->together);
    task->begin_ns = tundish_now_ns();
    while (task->grants < ACQUIRES) {
        int error = tundish_acquire(task->bucket, 1);
        if (error)
            fail("acquire", tundish_strerror(error));
        task->granted_ns[task->grants++] = tundish_now_ns();
    }
    return NULL;
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static uint64_t longest_wait_ns(const struct task *task)
{
    uint64_t before_ns = task->begin_ns, longest_ns = 0;
    for (int i = 0; i < task->grants; i++) {
        if (task->granted_ns[i] - before_ns > longest_ns)
            longest_ns = task->granted_ns[i] - before_ns;
        before_ns = task->granted_ns[i];
    }
    return longest_ns;
}

static void print_table(const char *title, const struct task *tasks)
{
    double longest = 0, ends = 0;
    printf("%s\n  task  first ms  median ms  last ms  longest wait ms  grants\n", title);
    for (int i = 0; i < TASKS; i++) {
        const struct task *task = &tasks[i];
        double wait = ms(longest_wait_ns(task));
        double last = ms(task->granted_ns[ACQUIRES - 1] - task->begin_ns);
        printf("  %4d  %8.1f  %9.1f  %7.1f  %15.1f  %6d\n", i + 1, ms(task->granted_ns[0] - task->begin_ns),
               ms(task->granted_ns[ACQUIRES / 2] - task->begin_ns), last, wait, task->grants);
        longest = wait > longest ? wait : longest;
        ends += last / TASKS;
    }
    printf("  longest wait of all %.0f ms, tasks end after %.0f ms on average\n", longest, ends);
}

static void measure(const char *title, uint32_t flags)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(STEP_TOKENS, STEP_TOKENS);
    options.interval_us = STEP_US;
    options.initial = 0;
    options.flags = TUNDISH_STEPPED | flags;

    struct tundish *bucket;
    struct task tasks[TASKS] = {0};
    pthread_t threads[TASKS];
    pthread_barrier_t together;
    int error = tundish_create_private(&bucket, &options);
    if (error)
        fail("bucket", tundish_strerror(error));
    pthread_barrier_init(&together, NULL, TASKS);
    for (int i = 0; i < TASKS; i++) {
        tasks[i].bucket = bucket;
        tasks[i].together = &together;
        if (pthread_create(&threads[i], NULL, run, &tasks[i]) != 0)
            fail("thread", "cannot be started");
    }
    for (int i = 0; i < TASKS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    tundish_close(bucket);
    print_table(title, tasks);
}

int main(void)
{
    measure("fair", 0);
    measure("unfair", TUNDISH_UNFAIR);
    return 0;
}
