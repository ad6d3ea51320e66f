/* SPDX-License-Identifier: MIT */
/* Sweeping: the buckets of runs that are over go, everything else stays. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/sweep.h"
#include "proc/proc.h"
#include "shm/layout.h"

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
    tcase_add_test(names, a_bucket_that_had_unlisted_handles_stays);
    tcase_add_test(names, without_a_directory_there_is_nothing_to_sweep);
    TCase *races = kit_case(suite, "races");
    tcase_add_test(races, two_sweepers_at_once_remove_each_bucket_once);
    tcase_add_test(races, a_bucket_in_the_making_is_never_swept);
    return suite;
}

KIT_MAIN(sweep)
