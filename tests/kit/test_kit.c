/* SPDX-License-Identifier: MIT */
/* The kit's own promises: a tool that reports success by mistake would hide every other failure. */
#include "kit/kit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct stage {
    struct kit_barrier barrier;
    atomic_uint steps;
    atomic_int orphan;
};

static int step_together(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    for (unsigned round = 1; round <= 50; round++) {
        atomic_fetch_add(&stage->steps, 1);
        kit_barrier_wait(&stage->barrier);
        unsigned steps = atomic_load(&stage->steps);
        kit_expect(steps == 4 * round, "%u steps in round %u", steps, round);
        kit_barrier_wait(&stage->barrier);
    }
    return 0;
}

START_TEST(barrier_lets_nobody_pass_early)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    kit_barrier_init(&stage->barrier, 4);
    kit_collect(kit_spawn(4, step_together, stage), 60 * KIT_SECOND);
    ck_assert_uint_eq(atomic_load(&stage->steps), 200);
}
END_TEST

static int fail_if_odd(unsigned index, void *shared)
{
    (void)shared;
    kit_expect(index % 2 == 0, "%u is odd", index);
    return index == 4 ? 3 : 0;
}

START_TEST(failures_of_children_are_counted)
{
    ck_assert_uint_eq(kit_collect_failures(kit_spawn(6, fail_if_odd, NULL), 60 * KIT_SECOND), 4);
}
END_TEST

static int collect_a_failure(unsigned index, void *shared)
{
    (void)index, (void)shared;
    kit_collect(kit_spawn(2, fail_if_odd, NULL), 60 * KIT_SECOND);
    return 0;
}

START_TEST(a_failed_child_fails_whoever_collects_it)
{
    ck_assert_uint_eq(kit_collect_failures(kit_spawn(1, collect_a_failure, NULL), 60 * KIT_SECOND), 1);
}
END_TEST

static int sleep_for_ever(unsigned index, void *shared)
{
    (void)index, (void)shared;
    pause();
    return 1;
}

START_TEST(a_child_past_its_deadline_is_killed_and_counted)
{
    struct kit_children *children = kit_spawn(1, sleep_for_ever, NULL);
    pid_t pid = kit_child_pid(children, 0);
    ck_assert_uint_eq(kit_collect_failures(children, KIT_MILLISECOND), 1);
    ck_assert_int_eq(kill(pid, 0), -1);
    ck_assert_int_eq(errno, ESRCH);
}
END_TEST

START_TEST(an_agreed_kill_is_no_failure)
{
    struct kit_children *children = kit_spawn(2, sleep_for_ever, NULL);
    ck_assert(!kit_child_ended(children, 0));
    kit_child_kill(children, 0);
    kit_child_kill(children, 1);
    ck_assert(kit_child_ended(children, 0));
    kit_collect(children, 60 * KIT_SECOND);
}
END_TEST

static int leave_an_orphan(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    struct kit_children *children = kit_spawn(1, sleep_for_ever, NULL);
    atomic_store(&stage->orphan, kit_child_pid(children, 0));
    return 0;
}

START_TEST(children_do_not_outlive_their_parent)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    kit_collect(kit_spawn(1, leave_an_orphan, stage), 60 * KIT_SECOND);
    /* Whoever reaps orphans here takes its time, so a zombie counts as dead. */
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", atomic_load(&stage->orphan));
    uint64_t end_ns = kit_now_ns() + 30 * KIT_SECOND;
    for (;;) {
        FILE *stat = fopen(path, "r");
        if (!stat)
            return;
        int fields = fscanf(stat, "%*d (%*[^)]) %c", &state);
        fclose(stat);
        if (fields != 1 || state == 'Z' || state == 'X')
            return;
        kit_expect(kit_now_ns() < end_ns, "the orphan lives, state %c", state);
        kit_sleep_ns(KIT_MILLISECOND);
    }
}
END_TEST

START_TEST(each_test_has_an_empty_directory_of_its_own)
{
    ck_assert_str_eq(getenv("TUNDISH_DIR"), kit_tmpdir());
    ck_assert_int_ne(access(kit_tmpfile("mine"), F_OK), 0);
    FILE *file = fopen(kit_tmpfile("mine"), "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
}
END_TEST

START_TEST(sleep_lasts_at_least_as_long_as_asked)
{
    uint64_t start_ns = kit_now_ns();
    kit_sleep_ns(3 * KIT_MILLISECOND);
    ck_assert_uint_ge(kit_now_ns() - start_ns, 3 * KIT_MILLISECOND);
}
END_TEST

static Suite *kit(void)
{
    Suite *suite = suite_create("kit");
    TCase *processes = kit_case(suite, "processes");
    tcase_add_test(processes, barrier_lets_nobody_pass_early);
    tcase_add_test(processes, failures_of_children_are_counted);
    tcase_add_test(processes, a_failed_child_fails_whoever_collects_it);
    tcase_add_test(processes, a_child_past_its_deadline_is_killed_and_counted);
    tcase_add_test(processes, an_agreed_kill_is_no_failure);
    tcase_add_test(processes, children_do_not_outlive_their_parent);
    TCase *world = kit_case(suite, "world");
    tcase_add_loop_test(world, each_test_has_an_empty_directory_of_its_own, 0, 2);
    tcase_add_test(world, sleep_lasts_at_least_as_long_as_asked);
    return suite;
}

KIT_MAIN(kit)
