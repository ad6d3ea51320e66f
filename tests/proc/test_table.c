/* SPDX-License-Identifier: MIT */
/* The table of handles: who is listed, and how the dead make room. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/handle.h"
#include "lib/observe.h"
#include "proc/proc.h"
#include "shm/layout.h"

struct stage {
    struct kit_barrier barrier;
    atomic_uint unlisted;
};

static int fill_the_table_and_die(unsigned index, void *shared)
{
    (void)index, (void)shared;
    for (int i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        proc_open("bucket");
    return 0;
}

static void fill_with_the_dead(void)
{
    kit_collect(kit_spawn(1, fill_the_table_and_die, NULL), 30 * KIT_SECOND);
}

START_TEST(handles_are_listed_until_they_are_closed)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *maker = proc_create("bucket", &options);
    ck_assert_uint_eq(proc_info(maker).instances, 1);
    struct tundish *second = proc_open("bucket");
    struct tundish *third = proc_open("bucket");
    ck_assert_uint_eq(proc_info(maker).instances, 3);
    tundish_close(second);
    ck_assert_uint_eq(proc_info(maker).instances, 2);
    tundish_close(maker);
    ck_assert_uint_eq(proc_info(third).instances, 1);
    ck_assert_uint_eq(proc_info(third).unlisted, 0);
    tundish_close(third);
}
END_TEST

START_TEST(a_program_that_calls_itself_otherwise_is_the_same_program)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *first = proc_create("bucket", &options);
    char otherwise[] = "otherwise";
    program_invocation_short_name = otherwise;
    struct tundish *second = proc_open("bucket");
    ck_assert_uint_eq(proc_info(first).instances, 2);
    tundish_close(second);
    tundish_close(first);
}
END_TEST

START_TEST(a_title_written_over_the_arguments_is_no_name)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket = proc_create("bucket", &options);
    struct tdi_observe_instance found;
    char before[16];
    snprintf(before, sizeof before, "%s", program_invocation_short_name);
    memcpy(program_invocation_short_name, "title", sizeof "title");
    struct tundish *second = proc_open("bucket");
    ck_assert(tdi_observe_instance(bucket, 1, &found));
    kit_expect(strcmp(found.who.program, before) == 0, "listed as '%s'", found.who.program);
    tundish_close(second);
    tundish_close(bucket);
}
END_TEST

static int have_nothing(unsigned index, void *shared)
{
    (void)index, (void)shared;
    return 0;
}

/* As if it had been killed after its claim, before it wrote who it is. */
static void leave_a_claim(struct tundish *bucket, uint32_t index, uint32_t pid, uint64_t pid_namespace)
{
    uint64_t owner = (uint64_t)tdi_proc_digest(pid_namespace) << 54 | (uint64_t)pid << 32 | (1000000 + index);
    atomic_store(&bucket->file->instance[index].owner, owner);
}

START_TEST(a_place_whose_claimer_was_killed_is_found_by_the_claim)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket = proc_create("bucket", &options);
    struct tdi_identity self;
    tdi_proc_identify(&self);
    if (self.pid_namespace == 0)
        return; /* without /proc nobody knows */
    struct kit_children *child = kit_spawn(1, have_nothing, NULL);
    uint32_t gone = (uint32_t)kit_child_pid(child, 0);
    kit_collect(child, 10 * KIT_SECOND);
    leave_a_claim(bucket, 1, gone, self.pid_namespace);
    leave_a_claim(bucket, 2, self.pid, self.pid_namespace); /* lives */
    leave_a_claim(bucket, 3, gone, self.pid_namespace + 1); /* who knows */
    leave_a_claim(bucket, 4, gone, 0);
    ck_assert_uint_eq(proc_info(bucket).instances, 5);
    tdi_observe_bury(bucket);
    ck_assert_uint_eq(proc_info(bucket).instances, 4);
    ck_assert_uint_eq(atomic_load(&bucket->file->instance[1].owner), 0);
    tundish_close(bucket);
}
END_TEST

START_TEST(handles_beyond_the_table_work_and_are_counted)
{
    struct tundish_options options = proc_still_options(1000, 1000);
    struct tundish *handle[TDI_LAYOUT_INSTANCES + 6];
    handle[0] = proc_create("bucket", &options);
    for (unsigned i = 1; i < PROC_LEN(handle); i++)
        handle[i] = proc_open("bucket");
    for (unsigned i = 0; i < PROC_LEN(handle); i++)
        ck_assert_int_eq(tundish_try_acquire(handle[i], 1), 0);
    struct tundish_info info = proc_info(handle[0]);
    ck_assert_uint_eq(info.instances, TDI_LAYOUT_INSTANCES);
    ck_assert_uint_eq(info.unlisted, 6);
    ck_assert_uint_eq(info.available, 1000 - PROC_LEN(handle));
    for (unsigned i = 0; i < PROC_LEN(handle); i++)
        tundish_close(handle[i]);
    struct tundish *last = proc_open("bucket");
    ck_assert_uint_eq(proc_info(last).instances, 1);
    tundish_close(last);
}
END_TEST

START_TEST(the_dead_make_room_when_the_table_is_full)
{
    struct tundish_options options = proc_still_options(10, 10);
    tundish_close(proc_create("bucket", &options));
    for (int round = 0; round < 3; round++)
        fill_with_the_dead();
    struct tundish *bucket = proc_open("bucket");
    ck_assert_uint_eq(proc_info(bucket).instances, 1);
    ck_assert_uint_eq(proc_info(bucket).unlisted, 0);
    tundish_close(bucket);
}
END_TEST

static int open_at_once(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    kit_barrier_wait(&stage->barrier);
    struct tundish *bucket = proc_open("bucket");
    kit_barrier_wait(&stage->barrier);
    struct tundish_info info = proc_info(bucket);
    atomic_store(&stage->unlisted, info.unlisted);
    kit_barrier_wait(&stage->barrier);
    tundish_close(bucket);
    return 0;
}

START_TEST(several_who_find_the_table_full_of_the_dead_are_all_listed)
{
    struct tundish_options options = proc_still_options(10, 10);
    unsigned unlisted = 0;
    for (int round = 0; round < 20; round++) {
        struct stage *stage = kit_shared_new(sizeof *stage);
        kit_barrier_init(&stage->barrier, 8);
        tundish_close(proc_create("bucket", &options));
        fill_with_the_dead();
        kit_collect(kit_spawn(8, open_at_once, stage), 30 * KIT_SECOND);
        unlisted += atomic_load(&stage->unlisted);
        ck_assert_int_eq(tundish_unlink("bucket"), 0);
    }
    kit_expect(unlisted == 0, "%u handles found no entry though 64 were free for 8", unlisted);
}
END_TEST

static Suite *table(void)
{
    Suite *suite = suite_create("table");
    TCase *entries = kit_case(suite, "entries");
    tcase_add_test(entries, handles_are_listed_until_they_are_closed);
    tcase_add_test(entries, a_program_that_calls_itself_otherwise_is_the_same_program);
    tcase_add_test(entries, a_title_written_over_the_arguments_is_no_name);
    tcase_add_test(entries, a_place_whose_claimer_was_killed_is_found_by_the_claim);
    tcase_add_test(entries, handles_beyond_the_table_work_and_are_counted);
    tcase_add_test(entries, the_dead_make_room_when_the_table_is_full);
    tcase_add_test(entries, several_who_find_the_table_full_of_the_dead_are_all_listed);
    return suite;
}

KIT_MAIN(table)
