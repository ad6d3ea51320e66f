/* SPDX-License-Identifier: MIT */
/*
 * A bucket's file must never be seen half made. O_TMPFILE gives a file without a name and linkat refuses a
 * name that is taken, so creators may race as they like and a killed one leaves nothing behind. File systems
 * without O_TMPFILE get a hidden temporary name and renameat2(RENAME_NOREPLACE), or link and unlink.
 */
#include "plat/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plat/cancel.h"
#include "plat/proc.h"
#include "plat/quiet.h"

static int last_error(void)
{
    return -errno;
}

static int open_retrying(const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static void append_number(char *at, uint64_t number)
{
    char digits[24];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n > 0)
        *at++ = digits[--n];
    *at = '\0';
}

/* The directory part of path, "." if there is none. */
static int directory_of(const char *path, char *buf, size_t len)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    if (n + 2 > len)
        return -ENAMETOOLONG;
    memcpy(buf, slash ? path : ".", slash ? n : 1);
    buf[slash ? n : 1] = '\0';
    return 0;
}

/* Opens a file beside `path`; `hidden` is its name, empty if it has none. */
static int open_unseen(const char *path, char hidden[PATH_MAX], int *fd)
{
    static _Atomic(uint32_t) serial;
    char directory[PATH_MAX];
    int error = directory_of(path, directory, sizeof directory);
    if (error)
        return error;
    hidden[0] = '\0';
    *fd = open_retrying(directory, O_TMPFILE | O_RDWR, 0600);
    if (*fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
        return last_error();
    static const char stem[] = "/.tundish-";
    size_t len = strlen(directory);
    if (len + sizeof stem + 48 > PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(hidden, directory, len);
    memcpy(hidden + len, stem, sizeof stem);
    append_number(hidden + strlen(hidden), tdi_proc_pid());
    size_t end = strlen(hidden);
    hidden[end++] = '-';
    for (int tries = 0; tries < 100; tries++) { /* a killed process with our pid may have left some */
        append_number(hidden + end, atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
        *fd = open_retrying(hidden, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, 0600);
        if (*fd >= 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    hidden[0] = '\0';
    return last_error();
}

static int publish(int fd, const char *hidden, const char *path)
{
    if (hidden[0] == '\0') {
        char by_descriptor[48] = "/proc/self/fd/";
        append_number(by_descriptor + strlen(by_descriptor), (uint64_t)fd);
        if (linkat(AT_FDCWD, by_descriptor, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno == ENOENT && linkat(fd, "", AT_FDCWD, path, AT_EMPTY_PATH) == 0)
            return 0; /* no /proc here */
        return last_error();
    }
    if (syscall(SYS_renameat2, AT_FDCWD, hidden, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return last_error();
    if (link(hidden, path) != 0)
        return last_error();
    unlink(hidden);
    return 0;
}

static void take_facts(const struct stat *st, struct tdi_file_facts *facts)
{
    facts->size = (uint64_t)st->st_size;
    facts->device = (uint64_t)st->st_dev;
    facts->inode = (uint64_t)st->st_ino;
    facts->regular = S_ISREG(st->st_mode);
}

static int map_descriptor(int fd, size_t size, void **map)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return last_error();
    *map = at;
    return 0;
}

static int make_and_publish(int fd, const char *hidden, const char *path, size_t size, size_t allocated,
                            mode_t mode, tdi_file_fill *fill, void *context, void **map,
                            struct tdi_file_facts *facts)
{
    struct stat st;
    struct tdi_quiet quiet;
    tdi_quiet_begin(&quiet, SIGXFSZ); /* a limit on file sizes is -EFBIG and no death */
    int error = -posix_fallocate(fd, 0, (off_t)allocated);
    if (!error && ftruncate(fd, (off_t)size) != 0)
        error = last_error();
    tdi_quiet_end(&quiet, SIGXFSZ);
    if (error)
        return error;
    if (fchmod(fd, mode) != 0 || fstat(fd, &st) != 0)
        return last_error();
    take_facts(&st, facts);
    error = map_descriptor(fd, size, map);
    if (error)
        return error;
    fill(*map, context);
    error = publish(fd, hidden, path);
    if (error) {
        munmap(*map, size);
        *map = NULL;
    }
    return error;
}

int tdi_file_make(const char *path, size_t size, size_t allocated, mode_t mode, tdi_file_fill *fill,
                  void *context, void **map, struct tdi_file_facts *facts)
{
    char hidden[PATH_MAX];
    int saved = errno;
    int fd = -1;
    *map = NULL;
    int error = open_unseen(path, hidden, &fd);
    if (!error) {
        error = make_and_publish(fd, hidden, path, size, allocated, mode, fill, context, map, facts);
        if (error && hidden[0] != '\0')
            unlink(hidden);
        close(fd);
    }
    errno = saved;
    return error;
}

/* Opens a regular file and nothing else; -EPROTO says what it is instead in *facts. */
static int open_regular(const char *path, int mode, struct tdi_file_facts *facts, int *out)
{
    struct stat st;
    memset(facts, 0, sizeof *facts);
    /* O_NONBLOCK: a FIFO or a device in the place of a bucket must not hold us up. */
    int fd = open_retrying(path, mode | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return errno == EISDIR || errno == ENXIO || errno == ETXTBSY ? -EPROTO : last_error();
    int error = fstat(fd, &st) == 0 ? 0 : last_error();
    if (!error)
        take_facts(&st, facts);
    if (!error && !facts->regular)
        error = -EPROTO;
    if (error)
        close(fd);
    *out = fd;
    return error;
}

int tdi_file_map(const char *path, size_t size, void **map, struct tdi_file_facts *facts)
{
    int saved = errno;
    int fd;
    *map = NULL;
    int error = open_regular(path, O_RDWR, facts, &fd);
    if (!error) {
        error = facts->size == size ? map_descriptor(fd, size, map) : -EPROTO;
        close(fd);
    }
    errno = saved;
    return error;
}

int tdi_file_read_head(const char *path, void *buf, size_t len, struct tdi_file_facts *facts)
{
    int saved = errno;
    int fd;
    int error = open_regular(path, O_RDONLY, facts, &fd);
    if (!error) {
        ssize_t got = pread(fd, buf, len, 0);
        error = got < 0 ? last_error() : (size_t)got < len ? -EPROTO : 0;
        close(fd);
    }
    errno = saved;
    return error;
}

int tdi_file_map_nameless(size_t size, enum tdi_file_sharing sharing, void **map)
{
    int saved = errno;
    int how = MAP_ANONYMOUS | (sharing == TDI_FILE_WITH_CHILDREN ? MAP_SHARED : MAP_PRIVATE);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, how, -1, 0);
    if (at != MAP_FAILED && sharing == TDI_FILE_WIPED)
        madvise(at, size, MADV_WIPEONFORK);
    errno = saved;
    *map = at == MAP_FAILED ? NULL : at;
    return at == MAP_FAILED ? -ENOMEM : 0;
}

/*
 * Where the kernel (before 5.14) has no call for it: a futex operation that adds 0 to a word writes to its page
 * as the program would, but for the signal.
 */
static int touch(char *at)
{
    const int add_0 = FUTEX_OP_ADD << 28 | FUTEX_OP_CMP_EQ << 24;
    return syscall(SYS_futex, at, FUTEX_WAKE_OP, 0, NULL, at, add_0) < 0 ? -ENOSPC : 0;
}

int tdi_file_populate(void *at, size_t size)
{
    int saved = errno;
    int error = madvise(at, size, MADV_POPULATE_WRITE) == 0 ? 0 : last_error();
    if (error == -EINVAL) {
        error = 0;
        for (size_t offset = 0; !error && offset < size; offset += 4096) /* the smallest page there is */
            error = touch((char *)at + offset);
    }
    errno = saved;
    return error ? -ENOSPC : 0;
}

void tdi_file_unmap(void *map, size_t size)
{
    int saved = errno;
    munmap(map, size);
    errno = saved;
}

int tdi_file_sync(void *map, size_t size)
{
    int saved = errno;
    int error = msync(map, size, MS_SYNC) == 0 ? 0 : last_error();
    errno = saved;
    return error;
}

int tdi_file_unlink(const char *path)
{
    int saved = errno;
    int error = unlink(path) == 0 ? 0 : last_error();
    errno = saved;
    return error;
}

int tdi_file_move(const char *from, const char *to)
{
    int saved = errno;
    int error =
        syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 ? 0 : last_error();
    errno = saved;
    return error;
}

int tdi_file_own_directory(const char *path, bool make)
{
    int saved = errno;
    struct stat st;
    int error = 0;
    if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
        error = last_error();
    else if (lstat(path, &st) != 0)
        error = last_error();
    else if (!S_ISDIR(st.st_mode))
        error = -ENOTDIR;
    else if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
        error = -EACCES;
    errno = saved;
    return error;
}

ssize_t tdi_file_read_text(const char *path, char *buf, size_t len)
{
    int saved = errno;
    int state = tdi_cancel_disable(); /* callers may hold tokens */
    ssize_t total = 0;
    int fd = open_retrying(path, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0) {
        total = last_error();
    } else {
        ssize_t got;
        while ((size_t)total < len - 1 && (got = read(fd, buf + total, len - 1 - (size_t)total)) > 0)
            total += got;
        close(fd);
    }
    buf[total > 0 ? total : 0] = '\0';
    tdi_cancel_restore(state);
    errno = saved;
    return total;
}

static int each_name(DIR *names, const char *directory, tdi_file_visit *visit, void *context)
{
    struct dirent *entry;
    int result = 0;
    while (result == 0 && (entry = readdir(names)))
        result = visit(directory, entry->d_name, context);
    return result;
}

int tdi_file_each_locked(const char *directory, tdi_file_visit *visit, void *context)
{
    int saved = errno;
    int result = 0;
    int fd = open_retrying(directory, O_RDONLY | O_DIRECTORY, 0);
    DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
    if (!names || flock(fd, LOCK_EX | LOCK_NB) != 0)
        result = last_error();
    else
        result = each_name(names, directory, visit, context);
    if (names)
        closedir(names);
    else if (fd >= 0)
        close(fd);
    errno = saved;
    return result;
}
