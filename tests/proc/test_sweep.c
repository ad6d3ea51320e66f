/* SPDX-License-Identifier: MIT */
/* Sweeping: the buckets of runs that are over go, everything else stays. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/bucket.h"
#include "core/config.h"
#include "lib/handle.h"
#include "lib/sweep.h"
#include "proc/proc.h"
#include "shm/store.h"

#define SECOND_US INT64_C(1000000)
#define GRACE_US ((int64_t)TDI_INSTANCE_FORK_US)

static int dies_at_unlink; /* of this process only */

/* The library's, too: the last step of a sweep. */
int unlink(const char *path)
{
    if (dies_at_unlink)
        raise(SIGKILL);
    return unlinkat(AT_FDCWD, path, 0);
}

static int exists(const char *name)
{
    struct stat st;
    return lstat(kit_tmpfile(name), &st) == 0;
}

/* Shared is a list of names up to a NULL. */
static int make_and_die(unsigned index, void *shared)
{
    const char *const *name = shared;
    struct tundish_options options = proc_still_options(10, 10);
    (void)index;
    for (; *name; name++)
        proc_create(*name, &options);
    return 0;
}

static void make_by_the_dead(const char **names)
{
    kit_collect(kit_spawn(1, make_and_die, names), 30 * KIT_SECOND);
}

static int sleep_until_killed(unsigned index, void *shared)
{
    (void)index;
    proc_open("run-opened");
    kit_barrier_wait(shared);
    kit_sleep_ns(60 * KIT_SECOND);
    return 1;
}

START_TEST(the_dead_go_and_all_others_stay)
{
    static const char *names[] = {"run-1", "run-2", "run-opened", "bucket", "running", NULL};
    struct tundish_options options = proc_still_options(10, 10);
    struct kit_barrier *barrier = kit_shared_new(sizeof *barrier);
    make_by_the_dead(names);
    struct tundish *ours = proc_create("run-ours", &options);
    kit_barrier_init(barrier, 2);
    struct kit_children *opener = kit_spawn(1, sleep_until_killed, barrier);
    kit_barrier_wait(barrier);
    ck_assert_int_eq(mkdir(kit_tmpfile("run-directory"), 0700), 0);
    ck_assert_int_eq(symlink("run-1", kit_tmpfile("run-link")), 0);
    ck_assert_int_eq(mkfifo(kit_tmpfile("run-pipe"), 0600), 0);
    fclose(fopen(kit_tmpfile("run-foreign"), "w"));

    ck_assert_int_eq(tdi_sweep(), 2);
    ck_assert(!exists("run-1") && !exists("run-2"));
    static const char *const stay[] = {"run-opened",    "bucket",   "running",  "run-ours",
                                       "run-directory", "run-link", "run-pipe", "run-foreign"};
    for (size_t i = 0; i < PROC_LEN(stay); i++)
        kit_expect(exists(stay[i]), "%s is gone", stay[i]);
    ck_assert_int_eq(tdi_sweep(), 0);

    kit_child_kill(opener, 0);
    kit_collect(opener, 30 * KIT_SECOND);
    ck_assert_int_eq(tdi_sweep(), 1);
    ck_assert(!exists("run-opened"));
    tundish_close(ours);
    ck_assert_int_eq(tdi_sweep(), 1);
    ck_assert(!exists("run-ours"));
}
END_TEST

static int fork_and_die(unsigned index, void *shared)
{
    int *out = shared;
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket = proc_create("run-family", &options);
    (void)index;
    if (fork() == 0) {
        char go;
        close(out[1]);
        tundish_try_acquire(bucket, 1);
        _exit(read(out[0], &go, 1) == 0 ? 0 : 1); /* until the test closes the other end */
    }
    while (proc_info(bucket).instances < 2)
        kit_sleep_ns(KIT_MILLISECOND);
    return 0;
}

START_TEST(a_child_keeps_the_bucket_of_its_dead_parent)
{
    int out[2];
    ck_assert_int_eq(pipe(out), 0);
    kit_collect(kit_spawn(1, fork_and_die, out), 30 * KIT_SECOND);
    ck_assert_int_eq(tdi_sweep(), 0);
    close(out[1]);
    uint64_t end_ns = kit_now_ns() + 20 * KIT_SECOND;
    int swept;
    while ((swept = tdi_sweep()) == 0 && kit_now_ns() < end_ns)
        kit_sleep_ns(KIT_MILLISECOND); /* until init has buried it */
    close(out[0]);
    ck_assert_int_eq(swept, 1);
}
END_TEST

struct family {
    atomic_int child_may_begin, child_is_listed, child_may_end;
};

static void await(const atomic_int *event)
{
    uint64_t end_ns = kit_now_ns() + 30 * KIT_SECOND;
    while (!atomic_load(event) && kit_now_ns() < end_ns)
        kit_sleep_ns(KIT_MILLISECOND);
}

static int fork_and_die_at_once(unsigned index, void *shared)
{
    struct family *family = shared;
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket = proc_create("run-family", &options);
    (void)index;
    tdi_handle_forking(bucket);
    if (fork() == 0) {
        await(&family->child_may_begin);
        tundish_try_acquire(bucket, 1);
        atomic_store(&family->child_is_listed, 1);
        await(&family->child_may_end);
        _exit(0);
    }
    return 0;
}

/* The file of a bucket whose handle is closed again, so that nobody is listed. */
static struct tdi_layout *map_unlisted(const char *name)
{
    struct tdi_layout *file;
    struct tdi_file_facts facts;
    enum tdi_store_fault fault;
    ck_assert_int_eq(tdi_store_map(kit_tmpfile(name), &file, &facts, &fault), 0);
    return file;
}

static void set_forked_us(const char *name, uint64_t forked_us)
{
    struct tdi_layout *file = map_unlisted(name);
    atomic_store(&file->identity.forked_us, forked_us);
    tdi_store_unmap(file);
}

START_TEST(a_child_that_is_not_listed_yet_keeps_the_bucket_of_its_dead_parent)
{
    struct family *family = kit_shared_new(sizeof *family);
    kit_collect(kit_spawn(1, fork_and_die_at_once, family), 30 * KIT_SECOND);
    ck_assert_int_eq(tdi_sweep(), 0);
    atomic_store(&family->child_may_begin, 1);
    await(&family->child_is_listed);
    set_forked_us("run-family", 0); /* as when that is long ago */
    ck_assert_int_eq(tdi_sweep(), 0);
    atomic_store(&family->child_may_end, 1);
    uint64_t end_ns = kit_now_ns() + 20 * KIT_SECOND;
    int swept;
    while ((swept = tdi_sweep()) == 0 && kit_now_ns() < end_ns)
        kit_sleep_ns(KIT_MILLISECOND); /* until init has buried it */
    ck_assert_int_eq(swept, 1);
}
END_TEST

/* The bucket's clock is put that far ahead, in this boot or as if the machine had been started again since. */
static uint64_t put_clock_ahead(const char *name, int64_t ahead_us, uint64_t other_boot)
{
    struct tdi_clock_base base;
    struct tdi_layout *file = map_unlisted(name);
    uint64_t current = tdi_config_read_base(file, &base);
    base.shift_us += ahead_us;
    base.boot_id[0] ^= other_boot;
    ck_assert_int_eq(tdi_bucket_rebase(file, current, &base), 0);
    uint64_t now_us = tdi_handle_shift(base.shift_us, tdi_clock_now_ns());
    tdi_store_unmap(file);
    return now_us;
}

static void expect_sweep_after_fork(int removed, int64_t ahead_us, uint64_t other_boot)
{
    static const char *names[] = {"run-1", NULL};
    make_by_the_dead(names);
    uint64_t now_us = put_clock_ahead("run-1", 3600 * SECOND_US, other_boot);
    set_forked_us("run-1", now_us + (uint64_t)ahead_us);
    int swept = tdi_sweep();
    kit_expect(swept == removed, "%d removed, forked at %+lld us", swept, (long long)ahead_us);
    if (!swept)
        ck_assert_int_eq(tundish_unlink("run-1"), 0);
}

START_TEST(a_fork_keeps_a_bucket_for_seconds_and_no_longer)
{
    expect_sweep_after_fork(0, 0, 0);
    expect_sweep_after_fork(0, -GRACE_US / 5, 0);
    expect_sweep_after_fork(1, -GRACE_US, 0);
    expect_sweep_after_fork(1, -3600 * SECOND_US, 0);
}
END_TEST

START_TEST(a_fork_in_the_future_does_not_keep_a_bucket_until_then)
{
    expect_sweep_after_fork(0, GRACE_US / 5, 0); /* by clocks that do not quite agree */
    expect_sweep_after_fork(1, 60 * SECOND_US + GRACE_US, 0);
    expect_sweep_after_fork(1, INT64_MAX, 0);
}
END_TEST

START_TEST(a_fork_before_the_machine_was_started_again_keeps_nothing)
{
    expect_sweep_after_fork(1, 0, 1);
    expect_sweep_after_fork(1, GRACE_US / 5, 1);
}
END_TEST

START_TEST(of_two_forks_the_later_counts_and_a_lie_does_not)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket = proc_create("run-1", &options);
    _Atomic(uint64_t) *forked_us = &bucket->file->identity.forked_us;
    ck_assert(!tdi_handle_forked_lately(bucket->file));
    tdi_handle_forking(bucket);
    uint64_t first_us = atomic_load(forked_us);
    ck_assert(first_us > 0 && first_us <= tdi_handle_now_us(bucket));
    ck_assert(tdi_handle_forked_lately(bucket->file));

    uint64_t later_us = tdi_handle_now_us(bucket) + (uint64_t)GRACE_US / 5;
    atomic_store(forked_us, later_us);
    tdi_handle_forking(bucket);
    ck_assert_uint_eq(atomic_load(forked_us), later_us);
    atomic_store(forked_us, UINT64_MAX);
    ck_assert(!tdi_handle_forked_lately(bucket->file));
    tdi_handle_forking(bucket);
    ck_assert(atomic_load(forked_us) < later_us);
    tundish_close(bucket);
}
END_TEST

static int make_with_a_full_table_and_die(unsigned index, void *shared)
{
    struct tundish_options options = proc_still_options(10, 10);
    (void)index, (void)shared;
    proc_create("run-crowded", &options);
    for (int i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        proc_open("run-crowded");
    return 0;
}

START_TEST(a_bucket_that_had_unlisted_handles_stays)
{
    kit_collect(kit_spawn(1, make_with_a_full_table_and_die, NULL), 30 * KIT_SECOND);
    ck_assert_int_eq(tdi_sweep(), 0);
    ck_assert(exists("run-crowded"));
}
END_TEST

START_TEST(without_a_directory_there_is_nothing_to_sweep)
{
    char missing[PATH_MAX];
    snprintf(missing, sizeof missing, "%s/missing", kit_tmpdir());
    setenv("TUNDISH_DIR", missing, 1);
    ck_assert_int_eq(tdi_sweep(), 0);
}
END_TEST

static int sweep_and_be_killed(unsigned index, void *shared)
{
    (void)index, (void)shared;
    dies_at_unlink = 1;
    tdi_sweep();
    return 0;
}

static void move_aside(const char *name)
{
    char aside[64];
    snprintf(aside, sizeof aside, ".swept-%s", name);
    int directory = open(kit_tmpdir(), O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(renameat(directory, name, directory, aside), 0);
    close(directory);
}

START_TEST(what_a_killed_sweeper_had_in_hand_is_removed_by_the_next)
{
    static const char *names[] = {"run-1", NULL};
    struct tundish_options options = proc_still_options(10, 10);
    make_by_the_dead(names);
    ck_assert_uint_eq(kit_collect_failures(kit_spawn(1, sweep_and_be_killed, NULL), 30 * KIT_SECOND), 1);
    ck_assert(!exists("run-1"));
    ck_assert(exists(".swept-run-1"));
    struct tundish *next = proc_create("run-1", &options);
    ck_assert_int_eq(tdi_sweep(), 1);
    ck_assert(exists("run-1"));
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 1);
    tundish_close(next);
    ck_assert_int_eq(tdi_sweep(), 1);
}
END_TEST

/* The killed sweeper had found it over, but the name was another file's when it was moved. */
START_TEST(what_a_killed_sweeper_took_by_mistake_gets_its_name_back)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *used = proc_create("run-1", &options);
    fclose(fopen(kit_tmpfile("run-foreign"), "w"));
    move_aside("run-1");
    move_aside("run-foreign");
    ck_assert_int_eq(tdi_sweep(), 0);
    ck_assert(exists("run-1") && exists("run-foreign"));
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 2);
    tundish_close(used);
}
END_TEST

START_TEST(what_lies_aside_and_is_used_stays_while_its_name_is_anothers)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *used = proc_create("run-1", &options);
    move_aside("run-1");
    struct tundish *next = proc_create("run-1", &options);
    ck_assert_int_eq(tdi_sweep(), 0);
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 2);
    tundish_close(next);
    tdi_sweep(); /* it may wait for its turn behind the other */
    ck_assert(exists("run-1") || exists(".swept-run-1"));
    ck_assert_int_eq(tundish_try_acquire(used, 1), 0);
    tundish_close(used);
    tdi_sweep();
    tdi_sweep();
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 0);
}
END_TEST

struct contest {
    struct kit_barrier barrier;
    atomic_int removed[2];
};

static int sweep_at_once(unsigned index, void *shared)
{
    struct contest *contest = shared;
    kit_barrier_wait(&contest->barrier);
    int removed = tdi_sweep();
    kit_expect(removed >= 0, "%s", tundish_strerror(removed));
    atomic_store(&contest->removed[index], removed);
    return 0;
}

START_TEST(two_sweepers_at_once_remove_each_bucket_once)
{
    static const char *names[] = {"run-1", "run-2", "run-3", "run-4", "run-5", NULL};
    struct contest *contest = kit_shared_new(sizeof *contest);
    for (int round = 0; round < 25; round++) {
        kit_barrier_init(&contest->barrier, 2);
        make_by_the_dead(names);
        kit_collect(kit_spawn(2, sweep_at_once, contest), 30 * KIT_SECOND);
        ck_assert_int_eq(atomic_load(&contest->removed[0]) + atomic_load(&contest->removed[1]), 5);
        ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 0);
    }
}
END_TEST

static int sweep_until_killed(unsigned index, void *shared)
{
    int removed;
    (void)index, (void)shared;
    do
        removed = tdi_sweep();
    while (removed >= 0);
    kit_fail("%s", tundish_strerror(removed));
}

START_TEST(a_bucket_in_the_making_is_never_swept)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct kit_children *sweepers = kit_spawn(2, sweep_until_killed, NULL);
    for (int round = 0; round < 500; round++) {
        char name[32];
        snprintf(name, sizeof name, "run-%d", round); /* a name removed and taken again would be fair game */
        struct tundish *bucket = proc_create(name, &options);
        kit_expect(tundish_unlink(name) == 0, "round %d: a sweeper took it", round);
        tundish_close(bucket);
    }
    kit_child_kill(sweepers, 0);
    kit_child_kill(sweepers, 1);
    kit_collect(sweepers, 30 * KIT_SECOND);
}
END_TEST

static Suite *sweep(void)
{
    Suite *suite = suite_create("sweep");
    TCase *names = kit_case(suite, "names");
    tcase_add_test(names, the_dead_go_and_all_others_stay);
    tcase_add_test(names, a_child_keeps_the_bucket_of_its_dead_parent);
    tcase_add_test(names, a_child_that_is_not_listed_yet_keeps_the_bucket_of_its_dead_parent);
    tcase_add_test(names, a_bucket_that_had_unlisted_handles_stays);
    tcase_add_test(names, without_a_directory_there_is_nothing_to_sweep);
    TCase *forks = kit_case(suite, "forks");
    tcase_add_test(forks, a_fork_keeps_a_bucket_for_seconds_and_no_longer);
    tcase_add_test(forks, a_fork_in_the_future_does_not_keep_a_bucket_until_then);
    tcase_add_test(forks, a_fork_before_the_machine_was_started_again_keeps_nothing);
    tcase_add_test(forks, of_two_forks_the_later_counts_and_a_lie_does_not);
    TCase *killed = kit_case(suite, "killed");
    tcase_add_test(killed, what_a_killed_sweeper_had_in_hand_is_removed_by_the_next);
    tcase_add_test(killed, what_a_killed_sweeper_took_by_mistake_gets_its_name_back);
    tcase_add_test(killed, what_lies_aside_and_is_used_stays_while_its_name_is_anothers);
    TCase *races = kit_case(suite, "races");
    tcase_add_test(races, two_sweepers_at_once_remove_each_bucket_once);
    tcase_add_test(races, a_bucket_in_the_making_is_never_swept);
    return suite;
}

KIT_MAIN(sweep)
