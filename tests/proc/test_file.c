/* SPDX-License-Identifier: MIT */
/* What may lie in the place of a bucket, and what a bucket's file costs the process: no descriptor, no errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/config.h"
#include "lib/explain.h"
#include "lib/handle.h"
#include "proc/proc.h"
#include "shm/store.h"

#define QUICKLY_NS (2 * KIT_SECOND)

static void write_file(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    kit_expect(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0, "%s: %s", path,
               strerror(errno));
}

/* Opening `name` gives `error`, explained with `words`. */
static void expect_refused(const char *name, int error, const char *words)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket = (struct tundish *)&options;
    char text[512];
    uint64_t start_ns = kit_now_ns();
    int got = tundish_open(&bucket, name);
    kit_expect(got == error, "open gives %d (%s), expected %d", got, tundish_strerror(got), error);
    kit_expect(bucket == NULL, "a handle in spite of the error");
    tdi_explain(name, error, text, sizeof text);
    kit_expect(strstr(text, words), "explained as '%s', which lacks '%s'", text, words);
    if (error != -ENOENT) {
        got = tundish_open_or_create(&bucket, name, &options);
        kit_expect(got == error, "open_or_create gives %d (%s)", got, tundish_strerror(got));
    }
    kit_expect(kit_now_ns() - start_ns < QUICKLY_NS, "that took too long");
    kit_expect(strlen(tundish_strerror(error)) > 0, "no words for %d", error);
}

static void expect_unlink(const char *name, int error)
{
    struct stat st;
    int got = tundish_unlink(name);
    kit_expect(got == error, "unlink gives %d (%s), expected %d", got, tundish_strerror(got), error);
    kit_expect(error == 0 || lstat(kit_tmpfile(name), &st) == 0, "unlink removed it all the same");
}

START_TEST(a_missing_bucket_is_enoent)
{
    expect_refused("nothing", -ENOENT, "no such bucket in");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/missing/nothing", kit_tmpdir());
    expect_refused(path, -ENOENT, "no such bucket");
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket;
    ck_assert_int_eq(tundish_create(&bucket, path, &options), -ENOENT);
    ck_assert_int_eq(tundish_open_or_create(&bucket, path, &options), -ENOENT);
    ck_assert_int_eq(tundish_unlink("nothing"), -ENOENT);
}
END_TEST

START_TEST(a_directory_that_is_a_file_is_enotdir)
{
    char path[PATH_MAX];
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket;
    write_file(kit_tmpfile("file"), "x", 1);
    snprintf(path, sizeof path, "%s/file/bucket", kit_tmpdir());
    ck_assert_int_eq(tundish_open(&bucket, path), -ENOTDIR);
    ck_assert_int_eq(tundish_create(&bucket, path, &options), -ENOTDIR);
    ck_assert_int_eq(tundish_open_or_create(&bucket, path, &options), -ENOTDIR);
}
END_TEST

START_TEST(short_empty_long_and_foreign_files_are_no_buckets)
{
    static char foreign[sizeof(struct tdi_layout)];
    static char longer[3 * sizeof(struct tdi_layout)];
    memset(foreign, 'x', sizeof foreign);
    memset(longer, 'x', sizeof longer);
    write_file(kit_tmpfile("empty"), "", 0);
    write_file(kit_tmpfile("short"), "tundish", 7);
    write_file(kit_tmpfile("shorter"), foreign, sizeof foreign - 1);
    write_file(kit_tmpfile("foreign"), foreign, sizeof foreign);
    write_file(kit_tmpfile("long"), longer, sizeof longer);
    expect_refused("empty", -EPROTO, "too short: 0 bytes");
    expect_refused("short", -EPROTO, "too short: 7 bytes");
    expect_refused("shorter", -EPROTO, "not a bucket");
    expect_refused("foreign", -EPROTO, "something else");
    expect_refused("long", -EPROTO, "something else");
    static const char *const names[] = {"empty", "short", "shorter", "foreign", "long"};
    for (size_t i = 0; i < PROC_LEN(names); i++)
        expect_unlink(names[i], -EPROTO);
}
END_TEST

/* A good bucket's file with some bytes changed. */
static void make_spoilt(const char *name, size_t offset, const void *bytes, size_t len)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    tundish_close(proc_create(name, &options));
    int fd = open(kit_tmpfile(name), O_WRONLY);
    kit_expect(fd >= 0 && pwrite(fd, bytes, len, (off_t)offset) == (ssize_t)len && close(fd) == 0, "%s: %s",
               name, strerror(errno));
}

START_TEST(other_versions_and_layouts_are_refused_but_can_be_removed)
{
    uint32_t version = TDI_LAYOUT_VERSION + 1;
    uint64_t fingerprint = ~tdi_layout_fingerprint();
    uint32_t size = 1;
    make_spoilt("version", offsetof(struct tdi_layout, identity.version), &version, sizeof version);
    make_spoilt("fingerprint", offsetof(struct tdi_layout, identity.fingerprint), &fingerprint,
                sizeof fingerprint);
    make_spoilt("size", offsetof(struct tdi_layout, identity.size), &size, sizeof size);
    make_spoilt("cut", 0, "", 0);
    ck_assert_int_eq(truncate(kit_tmpfile("cut"), 512), 0);
    make_spoilt("grown", 0, "", 0);
    ck_assert_int_eq(truncate(kit_tmpfile("grown"), sizeof(struct tdi_layout) + 4096), 0);
    expect_refused("version", -EPROTO, "another version");
    expect_refused("fingerprint", -EPROTO, "another layout");
    expect_refused("size", -EPROTO, "another layout");
    expect_refused("cut", -EPROTO, "too short");
    expect_refused("grown", -EPROTO, "too long");
    static const char *const names[] = {"version", "fingerprint", "size", "cut", "grown"};
    for (size_t i = 0; i < PROC_LEN(names); i++)
        expect_unlink(names[i], 0);
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 0);
}
END_TEST

static size_t field_offset(enum tdi_layout_field field)
{
    return offsetof(struct tdi_layout, record) + field * sizeof(uint64_t);
}

START_TEST(a_damaged_configuration_is_refused)
{
    static const struct {
        enum tdi_layout_field field;
        uint64_t value;
    } damage[] = {
        {TDI_FIELD_INTERVAL_US, 0},
        {TDI_FIELD_INTERVAL_US, TUNDISH_INTERVAL_US_MAX + 1},
        {TDI_FIELD_REFILL, 0},
        {TDI_FIELD_REFILL, UINT64_C(1) << 40 | 10},
        {TDI_FIELD_CAPACITY, 0},
        {TDI_FIELD_CAPACITY, TUNDISH_CAPACITY_MAX},
        {TDI_FIELD_CARRY, 1000000},
        {TDI_FIELD_RATE_FRACTION, 12345},
        {TDI_FIELD_RATE_WHOLE, 12345678},
        {TDI_FIELD_EXTRA, 1000},
    };
    char name[32];
    for (size_t i = 0; i < PROC_LEN(damage); i++) {
        uint64_t bits = damage[i].value << TDI_FIELD_TAG_BITS;
        snprintf(name, sizeof name, "damaged-%zu", i);
        make_spoilt(name, field_offset(damage[i].field), &bits, sizeof bits);
        expect_refused(name, -EPROTO, "damaged");
        expect_unlink(name, 0);
    }
    uint32_t current = 3; /* a record that nobody wrote */
    make_spoilt("lost", offsetof(struct tdi_layout, head.current), &current, sizeof current);
    expect_refused("lost", -EPROTO, "damaged");
}
END_TEST

/* Noise in everything but the identity: whatever comes out, it comes soon and without a crash. */
static int use_noise(unsigned index, void *shared)
{
    uint32_t random = index * 977 + 1;
    (void)shared;
    for (unsigned round = 0; round < 150; round++) {
        static unsigned char noise[sizeof(struct tdi_layout)];
        struct tundish_options options = proc_options(10, 10, 1000000);
        struct tundish *bucket;
        char name[32];
        int with_config = round % 2;
        size_t from = sizeof(struct tdi_layout_identity);
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)proc_random(&random, 256);
        snprintf(name, sizeof name, "noise-%u-%u", index, round);
        make_spoilt(name, from, noise,
                    with_config ? sizeof noise - from : offsetof(struct tdi_layout, record) - from);
        uint64_t start_ns = kit_now_ns();
        int error = tundish_open(&bucket, name);
        kit_expect(error == 0 || error == -EPROTO, "%s", tundish_strerror(error));
        if (error == 0) {
            tundish_try_acquire(bucket, 1);
            tundish_release(bucket, 3);
            tundish_available(bucket);
            tundish_wait_time_ns(bucket, 20);
            tundish_acquire_for(bucket, 20, 1000);
            tundish_configure(bucket, &options);
            tundish_reset(bucket);
            proc_info(bucket);
            tundish_close(bucket);
        }
        kit_expect(kit_now_ns() - start_ns < 10 * KIT_SECOND, "round %u took too long", round);
        kit_expect(unlink(kit_tmpfile(name)) == 0, "%s", strerror(errno));
    }
    return 0;
}

START_TEST(noise_in_the_file_crashes_nobody)
{
    kit_collect(kit_spawn(2, use_noise, NULL), 40 * KIT_SECOND);
}
END_TEST

START_TEST(directories_pipes_devices_links_and_sockets_are_no_buckets)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    tundish_close(proc_create("bucket", &options));
    ck_assert_int_eq(mkdir(kit_tmpfile("directory"), 0700), 0);
    ck_assert_int_eq(mkfifo(kit_tmpfile("pipe"), 0600), 0);
    ck_assert_int_eq(symlink("bucket", kit_tmpfile("link")), 0);
    ck_assert_int_eq(symlink("nowhere", kit_tmpfile("dangling")), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_int_eq(chdir(kit_tmpdir()), 0);
    strcpy(address.sun_path, "socket");
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    expect_refused("directory", -EPROTO, "not a regular file");
    expect_refused("pipe", -EPROTO, "not a regular file");
    expect_refused("socket", -EPROTO, "not a regular file");
    expect_refused("/dev/null", -EPROTO, "not a regular file");
    expect_refused("link", -ELOOP, "symbolic link");
    expect_refused("dangling", -ELOOP, "symbolic link");
    expect_unlink("directory", -EPROTO);
    expect_unlink("pipe", -EPROTO);
    expect_unlink("socket", -EPROTO);
    expect_unlink("link", -ELOOP);
    struct tundish *bucket;
    ck_assert_int_eq(tundish_create(&bucket, "dangling", &options), -EEXIST);
    ck_assert_int_eq(access(kit_tmpfile("nowhere"), F_OK), -1);
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(malformed_names_are_einval)
{
    static const char *const names[] = {"", ".", "..", ".hidden", "a%", "a%z", "%h"};
    for (size_t i = 0; i < PROC_LEN(names); i++)
        expect_refused(names[i], -EINVAL, "not a name for a bucket");
    char name[PATH_MAX + 10];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect_refused(name, -ENAMETOOLONG, "");
    name[300] = '\0';
    expect_refused(name, -ENAMETOOLONG, "");
}
END_TEST

START_TEST(the_mode_is_exact_under_any_umask)
{
    static const mode_t modes[] = {0600, 0666, 0640, 0400, 0777, 0};
    static const mode_t masks[] = {0, 022, 077, 0777};
    char name[32];
    for (size_t m = 0; m < PROC_LEN(modes); m++) {
        for (size_t k = 0; k < PROC_LEN(masks); k++) {
            struct tundish_options options = proc_options(10, 10, 1000000);
            struct stat st;
            options.mode = modes[m];
            snprintf(name, sizeof name, "mode-%zu-%zu", m, k);
            mode_t old = umask(masks[k]);
            struct tundish *bucket = proc_create(name, &options);
            umask(old);
            ck_assert_int_eq(stat(kit_tmpfile(name), &st), 0);
            ck_assert_uint_eq(st.st_mode & 07777, modes[m]);
            ck_assert_uint_eq(st.st_nlink, 1);
            ck_assert_int_eq(tundish_try_acquire(bucket, 1), 0);
            tundish_close(bucket);
        }
    }
    umask(022);
}
END_TEST

START_TEST(default_directories_are_made_and_must_be_our_own)
{
    char directory[PATH_MAX], path[PATH_MAX];
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket;
    struct stat st;
    unsetenv("TUNDISH_DIR");
    setenv("XDG_RUNTIME_DIR", kit_tmpdir(), 1);
    snprintf(directory, sizeof directory, "%s/tundish", kit_tmpdir());
    ck_assert_int_eq(tundish_open(&bucket, "bucket"), -ENOENT);
    ck_assert_int_eq(stat(directory, &st), -1);
    ck_assert_int_eq(tundish_open_or_create(&bucket, "bucket", &options), 0);
    tundish_close(bucket);
    ck_assert_int_eq(tundish_path("bucket", path, sizeof path), 0);
    ck_assert_int_eq(strncmp(path, directory, strlen(directory)), 0);
    ck_assert_int_eq(stat(directory, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(chmod(directory, 0770), 0);
    ck_assert_int_eq(tundish_open(&bucket, "bucket"), -EACCES);
    ck_assert_int_eq(tundish_create(&bucket, "other", &options), -EACCES);
    ck_assert_int_eq(tundish_unlink("bucket"), -EACCES);
    ck_assert_int_eq(chmod(directory, 0700), 0);
    ck_assert_int_eq(tundish_unlink("bucket"), 0);
    ck_assert_int_eq(rmdir(directory), 0);
    ck_assert_int_eq(symlink(".", directory), 0);
    ck_assert_int_eq(tundish_create(&bucket, "other", &options), -ENOTDIR);
}
END_TEST

START_TEST(no_descriptor_is_kept)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket, *private_bucket = proc_create_private(&options);
    unsigned before = proc_count_descriptors();
    for (int round = 0; round < 20; round++) {
        bucket = proc_create("bucket", &options);
        ck_assert_uint_eq(proc_count_descriptors(), before);
        struct tundish *again = proc_open("bucket");
        ck_assert_int_eq(tundish_create(&again, "bucket", &options), -EEXIST);
        ck_assert_int_eq(tundish_open(&again, "/dev/null"), -EPROTO);
        tundish_try_acquire(bucket, 1);
        tundish_reset(bucket);
        tundish_configure(bucket, &options);
        tundish_flush(bucket);
        proc_info(bucket);
        ck_assert_uint_eq(proc_count_descriptors(), before);
        tundish_close(bucket);
        ck_assert_int_eq(tundish_unlink("bucket"), 0);
    }
    tundish_close(private_bucket);
    ck_assert_uint_eq(proc_count_descriptors(), before);
}
END_TEST

static int use_without_descriptors(unsigned index, void *shared)
{
    struct tundish *bucket = shared;
    (void)index;
    kit_expect(close_range(3, ~0u, 0) == 0, "close_range: %s", strerror(errno));
    close(0);
    kit_expect(tundish_try_acquire(bucket, 1) == 0, "acquire");
    tundish_release(bucket, 1);
    kit_expect(tundish_acquire_for(bucket, 12, 10 * KIT_SECOND) == 0, "gather");
    struct tundish_options options = proc_options(20, 10, 1000000);
    kit_expect(tundish_configure(bucket, &options) == 0, "configure");
    kit_expect(tundish_reset(bucket) == 0 && tundish_available(bucket) == 20, "reset");
    kit_expect(tundish_flush(bucket) == 0, "flush");
    kit_expect(proc_info(bucket).instances == 2, "info");
    struct tundish *again = proc_open("bucket");
    tundish_close(again);
    tundish_close(bucket);
    return 0;
}

START_TEST(everything_works_after_all_descriptors_were_closed)
{
    struct tundish_options options = proc_options(10, 10, 1000000);
    struct tundish *bucket = proc_create("bucket", &options);
    kit_collect(kit_spawn(1, use_without_descriptors, bucket), 30 * KIT_SECOND);
    tundish_close(bucket);
}
END_TEST

/* Evaluates a call with errno set, and finds it as it was. */
#define KEEPS_ERRNO(call)                                                                                    \
    do {                                                                                                     \
        errno = 1234;                                                                                        \
        (void)(call);                                                                                        \
        int left = errno;                                                                                    \
        kit_expect(left == 1234, "errno is %d after %s", left, #call);                                       \
    } while (0)

START_TEST(errno_is_left_alone)
{
    struct tundish_options options = proc_still_options(10, 10), bad = {.size = 1};
    struct tundish_info info = TUNDISH_INFO_INIT, bad_info = {.size = 1};
    struct tundish *bucket, *other, *none;
    char buf[PATH_MAX];
    KEEPS_ERRNO(tundish_now_ns());
    KEEPS_ERRNO(tundish_create(&bucket, "bucket", &options));
    KEEPS_ERRNO(tundish_open(&other, "bucket"));
    ck_assert_ptr_nonnull(bucket);
    ck_assert_ptr_nonnull(other);
    KEEPS_ERRNO(tundish_create(&none, "bucket", &options));
    KEEPS_ERRNO(tundish_create(&none, "/nowhere/at/all", &options));
    KEEPS_ERRNO(tundish_create(&none, "/proc/bucket", &options));
    KEEPS_ERRNO(tundish_create(&none, "bad", &bad));
    KEEPS_ERRNO(tundish_create(&none, "", &options));
    KEEPS_ERRNO(tundish_create_private(&none, &options));
    KEEPS_ERRNO(tundish_close(none));
    KEEPS_ERRNO(tundish_close(NULL));
    KEEPS_ERRNO(tundish_create_private(&none, &bad));
    KEEPS_ERRNO(tundish_open(&none, "missing"));
    KEEPS_ERRNO(tundish_open(&none, "/dev/null"));
    KEEPS_ERRNO(tundish_open(&none, kit_tmpdir()));
    KEEPS_ERRNO(tundish_open_or_create(&none, "/nowhere/at/all", &options));
    KEEPS_ERRNO(tundish_path("bucket", buf, sizeof buf));
    KEEPS_ERRNO(tundish_path("bucket", buf, 3));
    KEEPS_ERRNO(tundish_try_acquire(bucket, 1));
    KEEPS_ERRNO(tundish_try_acquire(bucket, 10));
    KEEPS_ERRNO(tundish_try_acquire(bucket, 11));
    KEEPS_ERRNO(tundish_acquire(bucket, 1));
    KEEPS_ERRNO(tundish_acquire_for(bucket, 20, KIT_MILLISECOND));
    KEEPS_ERRNO(tundish_acquire_until(bucket, 20, 0));
    struct tundish_demand demands[] = {{bucket, 1}, {other, 1}};
    KEEPS_ERRNO(tundish_try_acquire_all(demands, 2));
    demands[0].n = 9;
    KEEPS_ERRNO(tundish_try_acquire_all(demands, 2));
    KEEPS_ERRNO(tundish_acquire_all(demands, 2, tundish_now_ns() + KIT_MILLISECOND));
    KEEPS_ERRNO(tundish_release(bucket, 1));
    KEEPS_ERRNO(tundish_available(bucket));
    KEEPS_ERRNO(tundish_wait_time_ns(bucket, 10));
    KEEPS_ERRNO(tundish_reset(bucket));
    KEEPS_ERRNO(tundish_configure(bucket, &options));
    KEEPS_ERRNO(tundish_configure(bucket, &bad));
    KEEPS_ERRNO(tundish_flush(bucket));
    KEEPS_ERRNO(tundish_info(bucket, &info));
    KEEPS_ERRNO(tundish_info(bucket, &bad_info));
    for (int error = -200; error < 200; error++)
        KEEPS_ERRNO(tundish_strerror(error));
    KEEPS_ERRNO(tundish_version());
    KEEPS_ERRNO(tundish_close(other));
    KEEPS_ERRNO(tundish_unlink("bucket"));
    KEEPS_ERRNO(tundish_unlink("bucket"));
    KEEPS_ERRNO(tundish_unlink("/dev/null"));
    KEEPS_ERRNO(tundish_close(bucket));
}
END_TEST

START_TEST(a_removed_bucket_goes_on_for_those_who_have_it)
{
    struct tundish_options options = proc_still_options(10, 10);
    struct tundish *one = proc_create("bucket", &options), *other = proc_open("bucket");
    ck_assert_int_eq(tundish_unlink("bucket"), 0);
    struct tundish *newer = proc_create("bucket", &options);
    ck_assert_int_eq(tundish_try_acquire(one, 4), 0);
    ck_assert_uint_eq(tundish_available(other), 6);
    ck_assert_uint_eq(tundish_available(newer), 10);
    tundish_close(one);
    tundish_close(other);
    tundish_close(newer);
}
END_TEST

static Suite *file(void)
{
    Suite *suite = suite_create("file");
    TCase *places = kit_case(suite, "places");
    tcase_set_timeout(places, 60);
    tcase_add_test(places, a_missing_bucket_is_enoent);
    tcase_add_test(places, a_directory_that_is_a_file_is_enotdir);
    tcase_add_test(places, short_empty_long_and_foreign_files_are_no_buckets);
    tcase_add_test(places, other_versions_and_layouts_are_refused_but_can_be_removed);
    tcase_add_test(places, a_damaged_configuration_is_refused);
    tcase_add_test(places, noise_in_the_file_crashes_nobody);
    tcase_add_test(places, directories_pipes_devices_links_and_sockets_are_no_buckets);
    tcase_add_test(places, malformed_names_are_einval);
    tcase_add_test(places, the_mode_is_exact_under_any_umask);
    tcase_add_test(places, default_directories_are_made_and_must_be_our_own);
    tcase_add_test(places, a_removed_bucket_goes_on_for_those_who_have_it);
    TCase *guest = kit_case(suite, "guest");
    tcase_add_test(guest, no_descriptor_is_kept);
    tcase_add_test(guest, everything_works_after_all_descriptors_were_closed);
    tcase_add_test(guest, errno_is_left_alone);
    return suite;
}

KIT_MAIN(file)
