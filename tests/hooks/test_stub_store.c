/* SPDX-License-Identifier: MIT */
/* Where the launcher keeps files for its command, and what it does not believe. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/stub.h"
#include "kit/kit.h"

#define DAY (24 * 60 * 60)
#define WRITERS 6

static const char content[] = "what the command needs";

/* Makes a directory in the test's own, which a variable names. A test has a few. */
static const char *directory_at(const char *variable, const char *name)
{
    static char paths[8][STUB_PATH];
    static unsigned used;
    char *path = strcpy(paths[used++ % 8], kit_tmpfile(name));
    kit_expect(mkdir(path, 0700) == 0 && chmod(path, 0700) == 0, "%s: %s", path, strerror(errno));
    kit_expect(setenv(variable, path, 1) == 0, "%s", strerror(errno));
    return path;
}

static const char *names_at(const char *name)
{
    directory_at("HOME", "home");
    directory_at("XDG_CACHE_HOME", "cache");
    return directory_at("TUNDISH_DIR", name);
}

static void store(bool executable, char path[STUB_PATH])
{
    int error = stub_store(content, sizeof content, TDI_STUB_FILE, ".so", executable, path);
    kit_expect(error == 0, "%s: %s", path, strerror(-error));
}

static bool is_under(const char *path, const char *directory)
{
    return strncmp(path, directory, strlen(directory)) == 0 && path[strlen(directory)] == '/';
}

static bool is_good(const char *path, mode_t mode)
{
    char got[sizeof content + 8];
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0)
        return false;
    const bool regular = fstat(fd, &st) == 0 && st.st_mode == (S_IFREG | mode);
    const ssize_t len = read(fd, got, sizeof got);
    close(fd);
    errno = 0; /* it is there */
    return regular && len == sizeof content && memcmp(got, content, sizeof content) == 0;
}

static bool is_good_or_gone(const char *path)
{
    return is_good(path, 0755) || errno == ENOENT;
}

static ino_t inode_of(const char *path)
{
    struct stat st;
    kit_expect(lstat(path, &st) == 0, "%s: %s", path, strerror(errno));
    return st.st_ino;
}

static void write_at(const char *path, const void *bytes, size_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    kit_expect(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && fchmod(fd, mode) == 0, "%s: %s", path,
               strerror(errno));
    close(fd);
}

static void set_age(const char *path, time_t read_days, time_t written_days)
{
    const time_t now = time(NULL);
    const struct timespec times[2] = {{now - read_days * DAY, 0}, {now - written_days * DAY, 0}};
    kit_expect(utimensat(AT_FDCWD, path, times, 0) == 0, "%s: %s", path, strerror(errno));
}

static unsigned count_files(const char *directory)
{
    unsigned count = 0;
    DIR *names = opendir(directory);
    kit_expect(names, "%s: %s", directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(names));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(names);
    return count;
}

START_TEST(a_file_is_named_after_its_content)
{
    char path[STUB_PATH], other[STUB_PATH];
    const char *names = names_at("names");
    store(true, path);
    ck_assert(is_under(path, names) && is_good(path, 0755));
    ck_assert_ptr_nonnull(strstr(path, "/" TDI_STUB_FILE));
    ck_assert_str_eq(path + strlen(path) - 3, ".so");
    ck_assert_int_eq(stub_store("x", 1, ".tundish-policy-", "", false, other), 0);
    ck_assert_ptr_nonnull(strstr(other, "/.tundish-policy-"));
    ck_assert_int_eq(stub_store("y", 1, ".tundish-policy-", "", false, path), 0);
    ck_assert_str_ne(path, other);
    ck_assert_uint_eq(count_files(names), 3);
}
END_TEST

START_TEST(a_good_file_stays_and_is_young_again)
{
    char path[STUB_PATH], again[STUB_PATH];
    struct stat st;
    names_at("names");
    store(true, path);
    const ino_t inode = inode_of(path);
    set_age(path, 20, 20);
    store(true, again);
    ck_assert_str_eq(path, again);
    ck_assert_uint_eq(inode_of(again), inode);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_gt(st.st_mtim.tv_sec, time(NULL) - DAY);
}
END_TEST

static void make_other_content(const char *path)
{
    char wrong[sizeof content];
    memcpy(wrong, content, sizeof content);
    wrong[3] ^= 1;
    write_at(path, wrong, sizeof wrong, 0755);
}

static void make_too_short(const char *path)
{
    write_at(path, content, 5, 0755);
}

static void make_empty(const char *path)
{
    write_at(path, content, 0, 0755);
}

static void make_too_long(const char *path)
{
    char longer[sizeof content + 1] = "";
    memcpy(longer, content, sizeof content);
    write_at(path, longer, sizeof longer, 0755);
}

static void make_writable_by_all(const char *path)
{
    write_at(path, content, sizeof content, 0757);
}

static void make_writable_by_group(const char *path)
{
    write_at(path, content, sizeof content, 0775);
}

static void make_link(const char *path)
{
    char target[STUB_PATH];
    snprintf(target, sizeof target, "%s-target", getenv("TUNDISH_DIR"));
    write_at(target, content, sizeof content, 0755);
    ck_assert_int_eq(symlink(target, path), 0);
}

static void make_fifo(const char *path)
{
    ck_assert_int_eq(mkfifo(path, 0755), 0);
}

START_TEST(a_file_that_is_not_as_it_should_be_is_replaced)
{
    static void (*const make[])(const char *path) = {
        make_other_content,   make_too_short,         make_empty, make_too_long,
        make_writable_by_all, make_writable_by_group, make_link,  make_fifo,
    };
    char path[STUB_PATH];
    const char *names = names_at("names");
    store(true, path);
    for (size_t i = 0; i < sizeof make / sizeof make[0]; i++) {
        unlink(path);
        make[i](path);
        const ino_t inode = inode_of(path);
        store(true, path);
        ck_assert_msg(is_good(path, 0755), "fault %zu", i);
        ck_assert_uint_ne(inode_of(path), inode);
        ck_assert_uint_eq(count_files(names), 1);
    }
}
END_TEST

START_TEST(a_directory_in_its_place_is_an_obstacle)
{
    char path[STUB_PATH];
    names_at("names");
    store(true, path);
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    store(true, path);
    ck_assert(is_under(path, getenv("XDG_CACHE_HOME")));
}
END_TEST

START_TEST(a_directory_that_is_not_our_own_is_left_alone)
{
    char path[STUB_PATH], link[STUB_PATH];
    const char *names = names_at("names"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    snprintf(link, sizeof link, "%s-link/", names);
    ck_assert_int_eq(chmod(names, 0770), 0);
    store(false, path);
    ck_assert(is_under(path, cache) && is_good(path, 0644));
    ck_assert_int_eq(chmod(names, 0700), 0);
    store(false, path);
    ck_assert(is_under(path, names));
    link[strlen(link) - 1] = '\0';
    ck_assert_int_eq(symlink(names, link), 0);
    strcat(link, "/");
    setenv("TUNDISH_DIR", link, 1);
    store(false, path);
    ck_assert(is_under(path, cache));
    setenv("XDG_CACHE_HOME", "relative", 1);
    store(true, path);
    ck_assert(is_under(path, home) && strstr(path, "/.cache/tundish/" TDI_STUB_FILE));
}
END_TEST

START_TEST(an_executable_lies_where_ld_preload_can_name_it)
{
    static const char *const odd[] = {"a b", "a:b", "$LIB", "a\tb"};
    char path[STUB_PATH];
    names_at("names");
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        const char *names = directory_at("TUNDISH_DIR", odd[i]);
        store(true, path);
        ck_assert(is_under(path, getenv("XDG_CACHE_HOME")));
        store(false, path);
        ck_assert(is_under(path, names));
    }
}
END_TEST

START_TEST(the_path_is_absolute)
{
    char path[STUB_PATH];
    const char *names = names_at("names");
    ck_assert_int_eq(chdir(kit_tmpdir()), 0);
    setenv("TUNDISH_DIR", "names//", 1);
    store(true, path);
    ck_assert(is_under(path, names) && is_good(path, 0755));
}
END_TEST

START_TEST(what_nobody_has_used_for_a_month_goes_when_a_file_is_made)
{
    static const struct {
        const char *name;
        time_t read_days, written_days;
        bool stays;
    } files[] = {
        {TDI_STUB_FILE "old.so", 31, 31, false},     {TDI_STUB_FILE "old.so.0badcafe", 40, 40, false},
        {TDI_STUB_FILE "executed.so", 2, 31, true},  {TDI_STUB_FILE "young.so", 31, 29, true},
        {".tundish-policy-of-others", 40, 40, true}, {"run-1", 40, 40, true},
    };
    char path[STUB_PATH], old[STUB_PATH];
    const char *names = names_at("names");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(old, sizeof old, "%s/%s", names, files[i].name);
        write_at(old, "x", 1, 0755);
        set_age(old, files[i].read_days, files[i].written_days);
    }
    store(true, path);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(old, sizeof old, "%s/%s", names, files[i].name);
        ck_assert_msg((access(old, F_OK) == 0) == files[i].stays, "%s", files[i].name);
    }
}
END_TEST

START_TEST(where_nothing_will_do_each_directory_is_named_with_its_fault)
{
    char path[STUB_PATH], temporary[64];
    const char *names = names_at("names");
    snprintf(temporary, sizeof temporary, "/tmp/tundish-%u", (unsigned)geteuid());
    const bool was_there = access(temporary, F_OK) == 0;
    ck_assert_int_eq(chmod(names, 0777), 0);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t old = limit.rlim_cur;
    limit.rlim_cur = 4;
    setrlimit(RLIMIT_FSIZE, &limit);
    const int error = stub_store(content, sizeof content, TDI_STUB_FILE, ".so", true, path);
    limit.rlim_cur = old;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (!was_there)
        rmdir(temporary);
    ck_assert_int_eq(error, -EFBIG);
    ck_assert_ptr_nonnull(strstr(path, "/names can be written to by others, "));
    ck_assert_ptr_nonnull(strstr(path, "/cache/tundish: File too large, "));
    ck_assert_ptr_nonnull(strstr(path, "/home/.cache/tundish: File too large, /tmp/tundish-"));
    ck_assert_uint_eq(count_files(names), 0);
}
END_TEST

static int use_a_noexec_disk(unsigned index, void *shared)
{
    char path[STUB_PATH];
    (void)index, (void)shared;
    kit_expect(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount("tmpfs", getenv("TUNDISH_DIR"), "tmpfs", MS_NOEXEC, "mode=700") == 0,
               "mount: %s", strerror(errno));
    store(true, path);
    kit_expect(is_under(path, getenv("XDG_CACHE_HOME")), "%s", path);
    store(false, path);
    kit_expect(is_under(path, getenv("TUNDISH_DIR")), "%s", path);
    return 0;
}

static int use_namespace(unsigned index, void *shared)
{
    if (unshare(CLONE_NEWNS) == 0)
        return use_a_noexec_disk(index, shared);
    printf("not tested, since file systems cannot be mounted here: noexec\n");
    return 0;
}

START_TEST(no_executable_lies_where_none_can_run)
{
    names_at("names");
    kit_collect(kit_spawn(1, use_namespace, NULL), 30 * KIT_SECOND);
}
END_TEST

/* One removes what the others make. */
static int write_at_once(unsigned index, void *shared)
{
    char path[STUB_PATH];
    kit_barrier_wait(shared);
    for (unsigned round = 0; round < 300; round++) {
        store(true, path);
        if (index == 0)
            unlink(path);
        else
            kit_expect(is_good_or_gone(path), "half a file");
    }
    return 0;
}

START_TEST(writers_at_once_leave_one_whole_file)
{
    char path[STUB_PATH];
    const char *names = names_at("names");
    struct kit_barrier *start = kit_shared_new(sizeof *start);
    kit_barrier_init(start, WRITERS);
    kit_collect(kit_spawn(WRITERS, write_at_once, start), 60 * KIT_SECOND);
    store(true, path);
    ck_assert(is_good(path, 0755));
    ck_assert_uint_eq(count_files(names), 1);
}
END_TEST

static int write_for_long(unsigned index, void *shared)
{
    char path[STUB_PATH];
    (void)index, (void)shared;
    for (unsigned round = 0; round < 100000000; round++) {
        store(true, path);
        unlink(path);
    }
    return 0;
}

START_TEST(a_killed_writer_leaves_nothing_that_is_half_there)
{
    char path[STUB_PATH];
    const char *names = names_at("names");
    store(true, path);
    for (unsigned round = 0; round < 50; round++) {
        struct kit_children *writers = kit_spawn(1, write_for_long, NULL);
        kit_sleep_ns(KIT_MILLISECOND + round * KIT_MILLISECOND / 50);
        kit_child_kill(writers, 0);
        kit_collect(writers, KIT_SECOND);
        ck_assert(is_good_or_gone(path));
        store(true, path);
        ck_assert(is_good(path, 0755));
    }
    DIR *files = opendir(names);
    for (struct dirent *entry; (entry = readdir(files));)
        ck_assert_msg(entry->d_name[0] == '.', "%s can be seen", entry->d_name);
    closedir(files);
}
END_TEST

static Suite *stub_store_suite(void)
{
    Suite *suite = suite_create("stub_store");
    TCase *file = kit_case(suite, "file");
    tcase_add_test(file, a_file_is_named_after_its_content);
    tcase_add_test(file, a_good_file_stays_and_is_young_again);
    tcase_add_test(file, a_file_that_is_not_as_it_should_be_is_replaced);
    tcase_add_test(file, a_directory_in_its_place_is_an_obstacle);
    tcase_add_test(file, what_nobody_has_used_for_a_month_goes_when_a_file_is_made);
    TCase *place = kit_case(suite, "place");
    tcase_add_test(place, a_directory_that_is_not_our_own_is_left_alone);
    tcase_add_test(place, an_executable_lies_where_ld_preload_can_name_it);
    tcase_add_test(place, the_path_is_absolute);
    tcase_add_test(place, where_nothing_will_do_each_directory_is_named_with_its_fault);
    tcase_add_test(place, no_executable_lies_where_none_can_run);
    TCase *others = kit_case(suite, "others");
    tcase_add_test(others, writers_at_once_leave_one_whole_file);
    tcase_add_test(others, a_killed_writer_leaves_nothing_that_is_half_there);
    return suite;
}

KIT_MAIN(stub_store_suite)
