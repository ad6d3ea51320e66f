/* SPDX-License-Identifier: MIT */
/* Handles across fork in all its kinds. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/observe.h"
#include "plat/clock.h"
#include "proc/proc.h"
#include "unit/step.h"

struct stage {
    struct kit_barrier barrier;
    struct tundish *bucket;
    atomic_uint granted;
    atomic_int over;
};

static struct stage *new_stage(struct tundish *bucket)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    stage->bucket = bucket;
    return stage;
}

static int take_two(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    kit_expect(tundish_try_acquire(stage->bucket, 2) == 0, "no tokens");
    return 0;
}

START_TEST(parent_and_child_share_the_bucket)
{
    struct tundish_options options = proc_still_options(20, 20);
    struct stage *stage = new_stage(proc_create("bucket", &options));
    ck_assert_int_eq(tundish_try_acquire(stage->bucket, 1), 0);
    kit_collect(kit_spawn(4, take_two, stage), 30 * KIT_SECOND);
    ck_assert_uint_eq(tundish_available(stage->bucket), 11);
    tundish_close(stage->bucket);
}
END_TEST

static int take_two_through_a_grandchild(unsigned index, void *shared)
{
    (void)index;
    kit_collect(kit_spawn(2, take_two, shared), 30 * KIT_SECOND);
    return 0;
}

START_TEST(a_private_bucket_is_shared_with_all_descendants)
{
    struct tundish_options options = proc_still_options(20, 20);
    struct stage *stage = new_stage(proc_create_private(&options));
    kit_collect(kit_spawn(3, take_two_through_a_grandchild, stage), 30 * KIT_SECOND);
    ck_assert_uint_eq(tundish_available(stage->bucket), 8);
    tundish_close(stage->bucket);
}
END_TEST

static int enter_and_close(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    kit_expect(proc_info(stage->bucket).instances == 1, "listed before it did anything");
    kit_expect(tundish_try_acquire(stage->bucket, 1) == 0, "no token");
    kit_expect(proc_info(stage->bucket).instances == 2, "not listed after its first call");
    kit_barrier_wait(&stage->barrier); /* the parent looks */
    kit_barrier_wait(&stage->barrier);
    tundish_close(stage->bucket);
    return 0;
}

START_TEST(a_child_gets_an_entry_of_its_own_and_closes_only_that)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct stage *stage = new_stage(proc_create("bucket", &options));
    kit_barrier_init(&stage->barrier, 2);
    struct kit_children *child = kit_spawn(1, enter_and_close, stage);
    kit_barrier_wait(&stage->barrier);
    ck_assert_uint_eq(proc_info(stage->bucket).instances, 2);
    kit_barrier_wait(&stage->barrier);
    kit_collect(child, 30 * KIT_SECOND);
    ck_assert_uint_eq(proc_info(stage->bucket).instances, 1);
    ck_assert_int_eq(tundish_try_acquire(stage->bucket, 1), 0);
    ck_assert_uint_eq(tundish_available(stage->bucket), 8);
    tundish_close(stage->bucket);
}
END_TEST

static int close_at_once(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    tundish_close(stage->bucket);
    return 0;
}

START_TEST(closing_an_unused_handle_in_the_child_leaves_the_parents_entry)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct stage *stage = new_stage(proc_create("bucket", &options));
    kit_collect(kit_spawn(2, close_at_once, stage), 30 * KIT_SECOND);
    ck_assert_uint_eq(proc_info(stage->bucket).instances, 1);
    ck_assert_int_eq(tundish_try_acquire(stage->bucket, 1), 0);
    tundish_close(stage->bucket);
}
END_TEST

static int outlive_the_parents_handle(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    kit_barrier_wait(&stage->barrier);
    kit_expect(tundish_try_acquire(stage->bucket, 3) == 0, "no tokens");
    kit_expect(proc_info(stage->bucket).instances == 1, "the parent is still listed");
    return 0;
}

START_TEST(a_child_outlives_the_handle_of_its_parent)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct stage *stage = new_stage(proc_create("bucket", &options));
    kit_barrier_init(&stage->barrier, 2);
    struct kit_children *child = kit_spawn(1, outlive_the_parents_handle, stage);
    tundish_close(stage->bucket);
    kit_barrier_wait(&stage->barrier);
    kit_collect(child, 30 * KIT_SECOND);
    struct tundish *again = proc_open("bucket");
    ck_assert_uint_eq(tundish_available(again), 7);
    tundish_close(again);
}
END_TEST

static void *take_and_give_back(void *argument)
{
    struct stage *stage = argument;
    while (!atomic_load(&stage->over)) {
        if (tundish_try_acquire(stage->bucket, 1) == 0)
            tundish_release(stage->bucket, 1);
        tundish_now_ns();
    }
    return NULL;
}

static int take_three_of_each(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    for (int i = 0; i < 3; i++)
        kit_expect(tundish_acquire_for(stage->bucket, 1, 10 * KIT_SECOND) == 0, "no token");
    uint64_t now_ns = tundish_now_ns();
    kit_expect(tundish_now_ns() - now_ns < KIT_SECOND, "time jumps");
    struct tundish *again = proc_open("bucket");
    kit_expect(tundish_try_acquire(again, 1) == 0, "no token by the second handle");
    tundish_close(again);
    return 0;
}

START_TEST(children_of_a_busy_threaded_program_work)
{
    enum {
        THREADS = 3,
        ROUNDS = 40
    };
    struct tundish_options options = proc_still_options(1000, 1000);
    struct stage *stage = new_stage(proc_create("bucket", &options));
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, take_and_give_back, stage), 0);
    for (int round = 0; round < ROUNDS; round++)
        kit_collect(kit_spawn(2, take_three_of_each, stage), 30 * KIT_SECOND);
    atomic_store(&stage->over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ck_assert_uint_eq(tundish_available(stage->bucket), 1000 - ROUNDS * 2 * 4);
    ck_assert_uint_eq(proc_info(stage->bucket).unlisted, 0);
    tundish_close(stage->bucket);
}
END_TEST

/* In vfork's child nothing but calls to functions that keep their hands off the parent's stack. */
static struct tundish *vforked_bucket;
static int vforked_result;

static void __attribute__((noinline)) take_in_the_parents_memory(void)
{
    vforked_result = tundish_try_acquire(vforked_bucket, 3);
}

START_TEST(a_vforked_child_may_take_tokens)
{
    struct tundish_options options = proc_still_options(10, 10);
    int status;
    vforked_bucket = proc_create("bucket", &options);
    vforked_result = 1;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        take_in_the_parents_memory();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(vforked_result, 0);
    ck_assert_uint_eq(tundish_available(vforked_bucket), 7);
    ck_assert_uint_eq(proc_info(vforked_bucket).instances, 1);
    tundish_close(vforked_bucket);
}
END_TEST

static struct stage *handlers_stage;

static void fork_in_the_handler(int signal)
{
    (void)signal;
    pid_t child = fork();
    if (child == 0) {
        int error = tundish_try_acquire(handlers_stage->bucket, 1);
        if (error == 0)
            atomic_fetch_add(&handlers_stage->granted, 1);
        _exit(error == 0 ? 0 : 1);
    }
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        atomic_fetch_add(&handlers_stage->over, 1);
}

static int hit_with_signals(unsigned index, void *shared)
{
    pid_t *target = shared;
    (void)index;
    for (int i = 0; i < 60; i++) {
        kill(*target, SIGUSR1);
        kit_sleep_ns(2 * KIT_MILLISECOND);
    }
    return 0;
}

START_TEST(a_handler_may_fork_in_the_middle_of_an_acquire)
{
    struct tundish_options options = proc_still_options(1000, 1000);
    struct sigaction action = {.sa_handler = fork_in_the_handler, .sa_flags = SA_RESTART};
    pid_t *self = kit_shared_new(sizeof *self);
    *self = getpid();
    handlers_stage = new_stage(proc_create("bucket", &options));
    sigaction(SIGUSR1, &action, NULL);
    struct kit_children *hitter = kit_spawn(1, hit_with_signals, self);
    uint64_t end_ns = kit_now_ns() + 20 * KIT_SECOND;
    while (!kit_child_ended(hitter, 0) && kit_now_ns() < end_ns) {
        for (int i = 0; i < 2000; i++) {
            ck_assert_int_eq(tundish_try_acquire(handlers_stage->bucket, 1), 0);
            tundish_release(handlers_stage->bucket, 1);
        }
    }
    kit_collect(hitter, 30 * KIT_SECOND);
    unsigned granted = atomic_load(&handlers_stage->granted);
    ck_assert_uint_gt(granted, 0);
    ck_assert_int_eq(atomic_load(&handlers_stage->over), (int)granted);
    ck_assert_uint_eq(tundish_available(handlers_stage->bucket), 1000 - granted);
    tundish_close(handlers_stage->bucket);
}
END_TEST

static int read_the_counter_again(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    uint64_t end_ns = kit_now_ns() + 20 * KIT_MILLISECOND;
    while (kit_now_ns() < end_ns)
        kit_expect(tundish_try_acquire(stage->bucket, 1) == 0, "no token");
    kit_expect(atomic_load(&tdi_clock.sequence) % 2 == 0,
               "the child still takes some thread of its parent for anchoring the clock, and so never reads "
               "the counter");
    return 0;
}

/* Some other thread of the parent was just writing the anchor: it is not there in the child to finish. */
START_TEST(a_child_forked_in_the_middle_of_an_anchoring_reads_the_counter_again)
{
    struct tundish_options options = proc_still_options(TUNDISH_CAPACITY_MAX - 1, TUNDISH_INITIAL_FULL);
    struct stage *stage = new_stage(proc_create("bucket", &options));
    if (tdi_clock_source() != TDI_CLOCK_COUNTER) {
        printf("no counter here: nothing to test\n");
        return;
    }
    atomic_fetch_add(&tdi_clock.sequence, 1);
    kit_expect(atomic_load(&tdi_clock.sequence) % 2 == 1, "somebody is at it");
    struct kit_children *child = kit_spawn(1, read_the_counter_again, stage);
    atomic_fetch_add(&tdi_clock.sequence, 1);
    kit_collect(child, 30 * KIT_SECOND);
    tundish_close(stage->bucket);
}
END_TEST

/* ---- forked by a handler, in the middle of the first operation ---- */

static struct tundish *forking_bucket;
static volatile sig_atomic_t has_forked, is_grandchild;

static void fork_once(int signal)
{
    (void)signal;
    if (has_forked)
        return;
    has_forked = 1;
    is_grandchild = fork() == 0;
}

static bool has_one_entry(struct tundish *bucket)
{
    struct tdi_observe_instance found;
    unsigned count = 0;
    tundish_try_acquire(bucket, 1);
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        count += tdi_observe_instance(bucket, i, &found) && found.who.pid == (uint32_t)getpid();
    return count == 1;
}

static int be_interrupted(unsigned index, void *shared)
{
    unsigned after_us = 1 + *(unsigned *)shared % 120;
    struct sigaction action = {.sa_handler = fork_once};
    struct itimerval once = {{0, 0}, {0, (suseconds_t)after_us}};
    int status = 0;
    (void)index;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &once, NULL);
    tundish_try_acquire(forking_bucket, 1);
    while (!has_forked)
        sched_yield();
    if (is_grandchild)
        _exit(!has_one_entry(forking_bucket));
    bool one = has_one_entry(forking_bucket);
    kit_expect(wait(&status) > 0, "no child");
    kit_expect(one, "the child has no entry of its own, or several");
    kit_expect(status == 0, "nor has the grandchild: %#x", status);
    return 0;
}

START_TEST(a_child_forked_in_the_middle_of_entering_enters_for_itself)
{
    struct tundish_options options = proc_still_options(100000, 100000);
    unsigned *round = kit_shared_new(sizeof *round);
    forking_bucket = proc_create("forking", &options);
    for (*round = 0; *round < 240; ++*round)
        kit_collect(kit_spawn(1, be_interrupted, round), 20 * KIT_SECOND);
    tundish_close(forking_bucket);
}
END_TEST

/* ---- forked by a handler, at any moment of an operation ---- */

#if STEP_CAN
static bool is_intruders_child;

#define MOMENTS 600 /* finding out where to count comes first */

static void act_release(void *bucket)
{
    tundish_release(bucket, 1);
}

static void intrude_fork(void *unused)
{
    (void)unused;
    is_intruders_child = fork() == 0;
}

/* The child goes on with what was interrupted, and what it had read is the parent's. */
START_TEST(a_child_forked_at_any_moment_goes_on)
{
    struct tundish_options options = proc_still_options(100000, 50000);
    struct tundish *bucket = proc_create("stepped", &options);
    act_release(bucket);
    for (unsigned long at = 1; at < MOMENTS && step_intrude(act_release, intrude_fork, bucket, at); at++) {
        int status = 0;
        if (is_intruders_child)
            _exit(tundish_try_acquire(bucket, 1) != 0);
        kit_expect(wait(&status) > 0 && status == 0, "at %lu: the child ended with %#x", at, status);
    }
    tundish_close(bucket);
}
END_TEST
#endif

static Suite *forks(void)
{
    Suite *suite = suite_create("fork");
    TCase *sharing = kit_case(suite, "sharing");
    tcase_add_test(sharing, parent_and_child_share_the_bucket);
    tcase_add_test(sharing, a_private_bucket_is_shared_with_all_descendants);
    TCase *entries = kit_case(suite, "entries");
    tcase_add_test(entries, a_child_gets_an_entry_of_its_own_and_closes_only_that);
    tcase_add_test(entries, closing_an_unused_handle_in_the_child_leaves_the_parents_entry);
    tcase_add_test(entries, a_child_outlives_the_handle_of_its_parent);
    TCase *moments = kit_case(suite, "moments");
    tcase_set_timeout(moments, 30);
    tcase_add_test(moments, children_of_a_busy_threaded_program_work);
    tcase_add_test(moments, a_vforked_child_may_take_tokens);
    tcase_add_test(moments, a_handler_may_fork_in_the_middle_of_an_acquire);
    tcase_add_test(moments, a_child_forked_in_the_middle_of_entering_enters_for_itself);
#if STEP_CAN
    tcase_add_test(moments, a_child_forked_at_any_moment_goes_on);
#endif
    tcase_add_test(moments, a_child_forked_in_the_middle_of_an_anchoring_reads_the_counter_again);
    return suite;
}

KIT_MAIN(forks)
