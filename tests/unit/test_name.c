/* SPDX-License-Identifier: MIT */
/* Where names live, and the sentences for people: explanations, errors, version. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tundish/tundish.h>
#include <unistd.h>

#include "lib/explain.h"
#include "lib/name.h"
#include "shm/layout.h"
#include "unit.h"

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];
    int error = tundish_path(name, path, sizeof path);
    ck_assert_msg(error == 0, "'%s' gives %d", name, error);
    return path;
}

/* What the program is called; NULL: what it is. */
static const char *program;
const char *__real_tdi_proc_program(void);
const char *__wrap_tdi_proc_program(void);

const char *__wrap_tdi_proc_program(void)
{
    return program ? program : __real_tdi_proc_program();
}

static int error_of(const char *name)
{
    char path[PATH_MAX];
    return tundish_path(name, path, sizeof path);
}

START_TEST(a_plain_name_lives_in_the_chosen_directory)
{
    char expected[PATH_MAX];
    setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
    setenv("TUNDISH_DIR", "/chosen", 1);
    ck_assert_str_eq(path_of("api"), "/chosen/api");
    unsetenv("TUNDISH_DIR");
    ck_assert_str_eq(path_of("api"), "/run/user/0/tundish/api");
    setenv("TUNDISH_DIR", "", 1);
    ck_assert_str_eq(path_of("api"), "/run/user/0/tundish/api");
    snprintf(expected, sizeof expected, "/dev/shm/tundish-%u/api", (unsigned)geteuid());
    setenv("XDG_RUNTIME_DIR", "", 1);
    ck_assert_str_eq(path_of("api"), expected);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    ck_assert_str_eq(path_of("api"), expected);
    unsetenv("XDG_RUNTIME_DIR");
    ck_assert_str_eq(path_of("api"), expected);
}
END_TEST

START_TEST(a_name_with_a_slash_is_a_path)
{
    setenv("TUNDISH_DIR", "/chosen", 1);
    ck_assert_str_eq(path_of("/a/b"), "/a/b");
    ck_assert_str_eq(path_of("./b"), "./b");
    ck_assert_str_eq(path_of("../b"), "../b");
    ck_assert_str_eq(path_of("b/"), "b/");
}
END_TEST

START_TEST(percent_signs_stand_for_process_user_and_program)
{
    char expected[PATH_MAX];
    setenv("TUNDISH_DIR", "/d", 1);
    snprintf(expected, sizeof expected, "/d/x-%u-%u-%s-%%-y", (unsigned)getpid(), (unsigned)geteuid(),
             program_invocation_short_name);
    ck_assert_str_eq(path_of("x-%p-%u-%n-%%-y"), expected);
    snprintf(expected, sizeof expected, "/e/%u", (unsigned)getpid());
    ck_assert_str_eq(path_of("/e/%p"), expected);
    ck_assert_str_eq(path_of("%%p"), "/d/%p");
}
END_TEST

START_TEST(malformed_names_are_refused)
{
    ck_assert_int_eq(error_of(""), -EINVAL);
    ck_assert_int_eq(error_of(NULL), -EINVAL);
    ck_assert_int_eq(error_of("."), -EINVAL);
    ck_assert_int_eq(error_of(".."), -EINVAL);
    ck_assert_int_eq(error_of(".hidden"), -EINVAL);
    ck_assert_int_eq(error_of("a%"), -EINVAL);
    ck_assert_int_eq(error_of("%x"), -EINVAL);
    ck_assert_int_eq(error_of("%h"), -EINVAL);
    ck_assert_int_eq(error_of("/a/%"), -EINVAL);
}
END_TEST

START_TEST(a_programs_name_cannot_lead_out_of_the_directory)
{
    static const char *const wrong[] = {"a/b", "..", ".x", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        program = wrong[i];
        ck_assert_int_eq(error_of("%n"), -EINVAL);
    }
    program = NULL;
}
END_TEST

START_TEST(a_path_fits_exactly_or_is_too_long)
{
    char buf[32];
    setenv("TUNDISH_DIR", "/dir", 1);
    memset(buf, 'x', sizeof buf);
    ck_assert_int_eq(tundish_path("name", buf, sizeof "/dir/name"), 0);
    ck_assert_str_eq(buf, "/dir/name");
    for (size_t len = 1; len < sizeof "/dir/name"; len++) {
        memset(buf, 'x', sizeof buf);
        ck_assert_int_eq(tundish_path("name", buf, len), -ENAMETOOLONG);
        ck_assert_msg(memchr(buf, '\0', len), "not terminated within %zu", len);
        ck_assert_int_eq(buf[len], 'x');
        memset(buf, 'x', sizeof buf);
        ck_assert_int_eq(tundish_path("/dir/%%ame", buf, len), -ENAMETOOLONG);
        ck_assert_msg(memchr(buf, '\0', len), "not terminated within %zu", len);
        ck_assert_int_eq(buf[len], 'x');
    }
    buf[0] = 'x';
    ck_assert_int_eq(tundish_path("name", buf, 0), -ENAMETOOLONG);
    ck_assert_int_eq(tundish_path("/dir/name", buf, 0), -ENAMETOOLONG);
    ck_assert_int_eq(buf[0], 'x');
}
END_TEST

START_TEST(names_too_long_for_the_system_are_refused_by_all)
{
    static char name[PATH_MAX + 10];
    struct tundish_options options = TUNDISH_OPTIONS_INIT(1, 1);
    struct tundish *bucket;
    memset(name, 'n', sizeof name - 1);
    ck_assert_int_eq(tundish_open(&bucket, name), -ENAMETOOLONG);
    ck_assert_int_eq(tundish_create(&bucket, name, &options), -ENAMETOOLONG);
    ck_assert_int_eq(tundish_unlink(name), -ENAMETOOLONG);
    name[NAME_MAX + 1] = '\0';
    ck_assert_int_eq(tundish_open(&bucket, name), -ENAMETOOLONG);
    ck_assert_int_eq(tundish_create(&bucket, name, &options), -ENAMETOOLONG);
    ck_assert_int_eq(tundish_unlink(name), -ENAMETOOLONG);
    ck_assert_ptr_null(bucket);
}
END_TEST

START_TEST(the_default_directory_is_made_for_its_owner_alone)
{
    char buf[PATH_MAX], expected[PATH_MAX];
    struct stat status;
    unsetenv("TUNDISH_DIR");
    setenv("XDG_RUNTIME_DIR", kit_tmpdir(), 1);
    snprintf(expected, sizeof expected, "%s/tundish", kit_tmpdir());
    mode_t mask = umask(0);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_ONLY, buf, sizeof buf), 0);
    ck_assert_str_eq(buf, expected);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_CHECK, buf, sizeof buf), -ENOENT);
    ck_assert_int_eq(access(expected, F_OK), -1);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_MAKE, buf, sizeof buf), 0);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_MAKE, buf, sizeof buf), 0);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_CHECK, buf, sizeof buf), 0);
    ck_assert_int_eq(stat(expected, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0700);
    umask(mask);
}
END_TEST

START_TEST(a_default_directory_that_others_may_write_to_is_refused)
{
    char buf[PATH_MAX], directory[PATH_MAX], elsewhere[PATH_MAX];
    unsetenv("TUNDISH_DIR");
    setenv("XDG_RUNTIME_DIR", kit_tmpdir(), 1);
    snprintf(directory, sizeof directory, "%s/tundish", kit_tmpdir());
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", kit_tmpdir());
    ck_assert_int_eq(mkdir(directory, 0700), 0);
    ck_assert_int_eq(chmod(directory, 0770), 0);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_CHECK, buf, sizeof buf), -EACCES);
    ck_assert_int_eq(chmod(directory, 0707), 0);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_MAKE, buf, sizeof buf), -EACCES);
    ck_assert_int_eq(chmod(directory, 0755), 0);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_CHECK, buf, sizeof buf), 0);
    ck_assert_int_eq(rename(directory, elsewhere), 0);
    ck_assert_int_eq(symlink(elsewhere, directory), 0);
    ck_assert_int_ne(tdi_name_directory(TDI_NAME_CHECK, buf, sizeof buf), 0);
    ck_assert_int_ne(tdi_name_directory(TDI_NAME_MAKE, buf, sizeof buf), 0);
}
END_TEST

START_TEST(naming_keeps_errno)
{
    char buf[8];
    errno = EXDEV;
    error_of("x");
    error_of("%");
    tundish_path("much-too-long", buf, sizeof buf);
    ck_assert_int_eq(errno, EXDEV);
}
END_TEST

/* Explanations. */

static const char *explained(const char *name, int error)
{
    static char text[300];
    tdi_explain(name, error, text, sizeof text);
    return text;
}

#define expect_in(part, text)                                                                                \
    do {                                                                                                     \
        const char *said = (text);                                                                           \
        ck_assert_msg(strstr(said, part), "'%s' does not say '%s'", said, part);                             \
    } while (0)

static void write_file(const char *name, const void *bytes, size_t len)
{
    int fd = open(kit_tmpfile(name), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

static void overwrite(const char *name, off_t at, const void *bytes, size_t len)
{
    int fd = open(kit_tmpfile(name), O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, len, at), (ssize_t)len);
    close(fd);
}

/* A bucket that is then spoilt at one place; what opening says, and why. */
static const char *spoilt(const char *name, off_t at, const void *bytes, size_t len)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(1, 1);
    struct tundish *bucket;
    ck_assert_int_eq(tundish_create(&bucket, name, &options), 0);
    tundish_close(bucket);
    overwrite(name, at, bytes, len);
    ck_assert_int_eq(tundish_open(&bucket, name), -EPROTO);
    ck_assert_ptr_null(bucket);
    return explained(name, -EPROTO);
}

START_TEST(what_is_no_bucket_is_told_apart)
{
    struct tundish *bucket;
    static const char text[] =
        "this is a letter, long enough for a bucket's head but for nothing else at all\n";
    const uint64_t bad = 12345;
    const uint32_t version = 77;
    write_file("letter", text, sizeof text);
    ck_assert_int_eq(tundish_open(&bucket, "letter"), -EPROTO);
    expect_in("something else", explained("letter", -EPROTO));
    write_file("short", "x", 1);
    ck_assert_int_eq(tundish_open(&bucket, "short"), -EPROTO);
    expect_in("too short: 1 bytes", explained("short", -EPROTO));
    write_file("empty", "", 0);
    ck_assert_int_eq(tundish_open(&bucket, "empty"), -EPROTO);
    expect_in("too short: 0 bytes", explained("empty", -EPROTO));
    ck_assert_int_eq(mkdir(kit_tmpfile("directory"), 0700), 0);
    ck_assert_int_eq(tundish_open(&bucket, "directory"), -EPROTO);
    expect_in("not a regular file", explained("directory", -EPROTO));
    ck_assert_int_eq(mkfifo(kit_tmpfile("pipe"), 0600), 0);
    ck_assert_int_eq(tundish_open(&bucket, "pipe"), -EPROTO);
    expect_in("not a regular file", explained("pipe", -EPROTO));
    ck_assert_int_eq(symlink("letter", kit_tmpfile("link")), 0);
    ck_assert_int_eq(tundish_open(&bucket, "link"), -ELOOP);
    expect_in("symbolic link", explained("link", -ELOOP));

    expect_in("something else",
              spoilt("magic", offsetof(struct tdi_layout_identity, magic), &bad, sizeof bad));
    expect_in("another version",
              spoilt("version", offsetof(struct tdi_layout_identity, version), &version, sizeof version));
    expect_in("another layout",
              spoilt("fingerprint", offsetof(struct tdi_layout_identity, fingerprint), &bad, sizeof bad));
    off_t interval = offsetof(struct tdi_layout, record) + TDI_FIELD_INTERVAL_US * sizeof(uint64_t);
    const uint64_t nothing = 0;
    expect_in("damaged", spoilt("interval", interval, &nothing, sizeof nothing));
}
END_TEST

START_TEST(a_bucket_of_another_size_says_so_or_was_made_so)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(1, 1);
    struct tundish *bucket;
    ck_assert_int_eq(tundish_create(&bucket, "longer", &options), 0);
    tundish_close(bucket);
    ck_assert_int_eq(truncate(kit_tmpfile("longer"), sizeof(struct tdi_layout) + 64), 0);
    ck_assert_int_eq(tundish_open(&bucket, "longer"), -EPROTO);
    expect_in("too long: ", explained("longer", -EPROTO));
    const uint64_t longer = sizeof(struct tdi_layout) + 64; /* that is what its maker calls a bucket */
    int fd = open(kit_tmpfile("longer"), O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, &longer, sizeof longer, offsetof(struct tdi_layout_identity, size)),
                     sizeof longer);
    close(fd);
    expect_in("another layout", explained("longer", -EPROTO));
    ck_assert_int_eq(tundish_unlink("longer"), 0);
}
END_TEST

START_TEST(what_is_missing_or_forbidden_is_said_with_the_place)
{
    char buf[PATH_MAX];
    expect_in(kit_tmpdir(), explained("nowhere", -ENOENT));
    expect_in("tundish create nowhere", explained("nowhere", -ENOENT));
    expect_in("no such bucket", explained("/nowhere/x", -ENOENT));
    expect_in("permission", explained("/nowhere/x", -EACCES));
    expect_in(kit_tmpdir(), explained("forbidden", -EACCES));
    unsetenv("TUNDISH_DIR");
    setenv("XDG_RUNTIME_DIR", kit_tmpdir(), 1);
    ck_assert_int_eq(tdi_name_directory(TDI_NAME_MAKE, buf, sizeof buf), 0);
    ck_assert_int_eq(chmod(buf, 0777), 0);
    expect_in("not a directory of your own", explained("api", -EACCES));
    expect_in("not a name", explained(".x", -EINVAL));
    expect_in("not a name", explained("%y", -EINVAL));
    expect_in("read-only", explained("api", -EROFS));
    expect_in("no space", explained("api", -ENOSPC));
    expect_in(tundish_strerror(-EEXIST), explained("api", -EEXIST));
    expect_in(tundish_strerror(-ENOTSUP), explained("api", -ENOTSUP));
}
END_TEST

START_TEST(an_explanation_is_cut_to_its_buffer)
{
    char buf[20];
    memset(buf, 'x', sizeof buf);
    tdi_explain("nowhere", -ENOENT, buf, 10);
    ck_assert_uint_eq(strlen(buf), 9);
    ck_assert_int_eq(buf[10], 'x');
}
END_TEST

/* Errors and version. */

START_TEST(every_error_of_the_header_has_its_words)
{
    static const int errors[] = {EINVAL, ENAMETOOLONG, EACCES, ENOTDIR, ENOENT, EEXIST, ENOSPC,
                                 ENOMEM, EPROTO,       ELOOP,  ENOTSUP, EAGAIN, E2BIG,  ETIMEDOUT};
    const size_t count = sizeof errors / sizeof errors[0];
    ck_assert_str_eq(tundish_strerror(0), "success");
    for (size_t i = 0; i < count; i++) {
        const char *words = tundish_strerror(-errors[i]);
        ck_assert_ptr_nonnull(words);
        ck_assert_uint_gt(strlen(words), 3);
        ck_assert_str_eq(tundish_strerror(errors[i]), words);
        ck_assert_msg(!strstr(words, "nknown"), "%d is unknown", errors[i]);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(tundish_strerror(-errors[j]), words);
    }
}
END_TEST

START_TEST(words_for_any_number_are_there_and_stay)
{
    char kept[200];
    errno = EXDEV;
    const char *first = tundish_strerror(-987654);
    ck_assert_ptr_nonnull(first);
    snprintf(kept, sizeof kept, "%s", first);
    ck_assert_ptr_nonnull(tundish_strerror(123456));
    ck_assert_ptr_nonnull(tundish_strerror(INT_MAX));
    ck_assert_ptr_nonnull(tundish_strerror(INT_MIN));
    ck_assert_str_eq(first, kept);
    ck_assert_int_eq(errno, EXDEV);
}
END_TEST

START_TEST(the_version_is_three_numbers)
{
    int major, minor, patch, len = 0;
    ck_assert_int_eq(sscanf(tundish_version(), "%d.%d.%d%n", &major, &minor, &patch, &len), 3);
    ck_assert_uint_eq((size_t)len, strlen(tundish_version()));
}
END_TEST

static Suite *name(void)
{
    Suite *suite = suite_create("name");
    TCase *paths = unit_case(suite, "paths");
    tcase_add_test(paths, a_plain_name_lives_in_the_chosen_directory);
    tcase_add_test(paths, a_name_with_a_slash_is_a_path);
    tcase_add_test(paths, percent_signs_stand_for_process_user_and_program);
    tcase_add_test(paths, malformed_names_are_refused);
    tcase_add_test(paths, a_programs_name_cannot_lead_out_of_the_directory);
    tcase_add_test(paths, a_path_fits_exactly_or_is_too_long);
    tcase_add_test(paths, names_too_long_for_the_system_are_refused_by_all);
    tcase_add_test(paths, the_default_directory_is_made_for_its_owner_alone);
    tcase_add_test(paths, a_default_directory_that_others_may_write_to_is_refused);
    tcase_add_test(paths, naming_keeps_errno);
    TCase *sentences = unit_case(suite, "sentences");
    tcase_add_test(sentences, what_is_no_bucket_is_told_apart);
    tcase_add_test(sentences, a_bucket_of_another_size_says_so_or_was_made_so);
    tcase_add_test(sentences, what_is_missing_or_forbidden_is_said_with_the_place);
    tcase_add_test(sentences, an_explanation_is_cut_to_its_buffer);
    tcase_add_test(sentences, every_error_of_the_header_has_its_words);
    tcase_add_test(sentences, words_for_any_number_are_there_and_stay);
    tcase_add_test(sentences, the_version_is_three_numbers);
    return suite;
}

KIT_MAIN(name)
