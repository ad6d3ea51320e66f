/* SPDX-License-Identifier: MIT */
/* File systems made for the test in a mount namespace of its own, and users other than the owner. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/explain.h"
#include "proc/proc.h"

#define NOBODY 65534

static void mount_small(const char *directory, const char *options, unsigned long flags)
{
    kit_expect(unshare(CLONE_NEWNS) == 0, "unshare: %s", strerror(errno));
    kit_expect(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount: %s", strerror(errno));
    kit_expect(mount("tmpfs", directory, "tmpfs", flags, options) == 0, "mount: %s", strerror(errno));
}

static void expect_error(const char *name, int error, const char *words)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket;
    char text[512];
    int got = tundish_create(&bucket, name, &options);
    kit_expect(got == error, "create gives %d (%s)", got, tundish_strerror(got));
    got = tundish_open_or_create(&bucket, name, &options);
    kit_expect(got == error, "open_or_create gives %d (%s)", got, tundish_strerror(got));
    tdi_explain(name, error, text, sizeof text);
    kit_expect(strstr(text, words), "explained as '%s', which lacks '%s'", text, words);
}

static int fill_the_disk(unsigned index, void *shared)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket;
    char name[32];
    int error = 0;
    (void)shared;
    mount_small(kit_tmpdir(), index == 2 ? "nr_inodes=3" : "size=64k", 0);
    kit_expect(index != 1 || proc_deny_nameless_files(0), "no seccomp filters");
    unsigned made = 0;
    for (; made < 1000 && error == 0; made += error == 0) {
        snprintf(name, sizeof name, "bucket-%u", made);
        error = tundish_create(&bucket, name, &options);
        if (error == 0)
            kit_expect(tundish_try_acquire(bucket, 1) == 0, "no token");
        tundish_close(bucket);
    }
    kit_expect(error == -ENOSPC, "%s", tundish_strerror(error));
    kit_expect(made > 0 && made == proc_count_files(kit_tmpdir()), "%u buckets, %u files", made,
               proc_count_files(kit_tmpdir()));
    expect_error("another", -ENOSPC, "no space left");
    kit_expect(made == proc_count_files(kit_tmpdir()), "something was left");
    kit_expect(tundish_unlink("bucket-0") == 0, "unlink");
    kit_expect(tundish_create(&bucket, "another", &options) == 0, "no room though one was removed");
    tundish_close(bucket);
    return 0;
}

START_TEST(a_full_disk_is_enospc_and_nothing_is_left_there)
{
    kit_tmpdir();
    kit_collect(kit_spawn(3, fill_the_disk, NULL), 30 * KIT_SECOND);
}
END_TEST

static int use_a_read_only_disk(unsigned index, void *shared)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket, *other;
    (void)index, (void)shared;
    mount_small(kit_tmpdir(), NULL, 0);
    bucket = proc_create("bucket", &options);
    struct tundish *closed = proc_open("bucket");
    tundish_close(closed);

    tundish_close(bucket);
    kit_expect(mount(NULL, kit_tmpdir(), NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0, "remount: %s",
               strerror(errno));
    expect_error("another", -EROFS, "read-only");
    int error = tundish_open(&other, "bucket");
    kit_expect(error == -EROFS || error == -EACCES, "open gives %s", tundish_strerror(error));
    kit_expect(tundish_unlink("bucket") == -EROFS, "unlink");
    return 0;
}

START_TEST(a_read_only_disk_is_erofs)
{
    kit_tmpdir();
    kit_collect(kit_spawn(1, use_a_read_only_disk, NULL), 30 * KIT_SECOND);
}
END_TEST

static void become_nobody(void)
{
    kit_expect(setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                   setresuid(NOBODY, NOBODY, NOBODY) == 0,
               "setuid: %s", strerror(errno));
}

static int meet_others_files(unsigned index, void *shared)
{
    struct tundish *bucket;
    char text[512];
    (void)index, (void)shared;
    become_nobody();
    static const char *const closed[] = {"mine", "readable", "writable"};
    for (size_t i = 0; i < PROC_LEN(closed); i++) {
        int error = tundish_open(&bucket, closed[i]);
        kit_expect(error == -EACCES, "%s: open gives %s", closed[i], tundish_strerror(error));
        tdi_explain(closed[i], error, text, sizeof text);
        kit_expect(strstr(text, "no permission"), "explained as '%s'", text);
    }
    bucket = proc_open("shared");
    kit_expect(tundish_try_acquire(bucket, 3) == 0, "acquire");
    kit_expect(proc_info(bucket).instances == 2, "%u instances", proc_info(bucket).instances);
    tundish_close(bucket);
    expect_error("new", -EACCES, "no permission");
    kit_expect(tundish_unlink("shared") == -EACCES, "unlink");
    return 0;
}

START_TEST(permissions_decide_who_may_use_and_make_buckets)
{
    struct tundish_options options = proc_still_options(10, 10);
    ck_assert_int_eq(chmod(kit_tmpdir(), 0755), 0);
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s/..", kit_tmpdir());
    ck_assert_int_eq(chmod(parent, 0755), 0);
    tundish_close(proc_create("mine", &options));
    options.mode = 0644;
    tundish_close(proc_create("readable", &options));
    options.mode = 0622;
    tundish_close(proc_create("writable", &options));
    options.mode = 0666;
    struct tundish *shared = proc_create("shared", &options);
    kit_collect(kit_spawn(1, meet_others_files, NULL), 30 * KIT_SECOND);
    ck_assert_uint_eq(tundish_available(shared), 7);
    tundish_close(shared);
}
END_TEST

static int use_without_proc(unsigned index, void *shared)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket = shared, *made;
    (void)index;
    mount_small("/proc", NULL, 0);
    kit_expect(tundish_try_acquire(bucket, 1) == 0, "acquire");
    kit_expect(proc_info(bucket).instances == 2, "%u instances", proc_info(bucket).instances);
    struct tundish *again = proc_open("bucket");
    kit_expect(tundish_available(again) == 9, "%u tokens", tundish_available(again));
    tundish_close(again);
    int error = tundish_create(&made, "another", &options);
    kit_expect(error == 0, "create without /proc: %s", tundish_strerror(error));
    tundish_close(made);
    return 0;
}

START_TEST(buckets_work_where_proc_is_missing)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *bucket = proc_create("bucket", &options);
    kit_collect(kit_spawn(1, use_without_proc, bucket), 30 * KIT_SECOND);
    struct tundish *again = proc_open("another");
    ck_assert_uint_eq(tundish_available(again), 10);
    tundish_close(again);
    tundish_close(bucket);
}
END_TEST

/* Whether this process may do what the tests here do. */
static int may_mount(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
              mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static Suite *root(void)
{
    if (!may_mount())
        kit_skip("needs the right to mount and to change the user");
    Suite *suite = suite_create("root");
    TCase *disks = kit_case(suite, "disks");
    tcase_add_test(disks, a_full_disk_is_enospc_and_nothing_is_left_there);
    tcase_add_test(disks, a_read_only_disk_is_erofs);
    tcase_add_test(disks, buckets_work_where_proc_is_missing);
    TCase *users = kit_case(suite, "users");
    tcase_add_test(users, permissions_decide_who_may_use_and_make_buckets);
    return suite;
}

KIT_MAIN(root)
