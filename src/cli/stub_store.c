/* SPDX-License-Identifier: MIT */
/*
 * A file is written whole under a hidden name of its own and then renamed, so that whoever finds it finds all
 * of it, and writers may race: they bring the same bytes. What lies there already is believed only after it
 * was read. A directory that somebody else may write to is none: between our look and the command's the file
 * could become another, and it is code.
 */
#include "cli/stub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "lib/name.h"

#define UNUSED_SECONDS (30 * 24 * 60 * 60)

enum {
    TRIES = 100,
};

struct file {
    char name[NAME_MAX + 1];
    const char *prefix;
    const unsigned char *bytes;
    size_t size;
    bool executable;
};

static mode_t mode_of(const struct file *file)
{
    return file->executable ? 0755 : 0644;
}

static uint64_t fnv1a(uint64_t hash, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Files of one digest need not be equal: they are compared. */
static int name_file(struct file *file, const char *suffix)
{
    const uint64_t first = fnv1a(UINT64_C(0xcbf29ce484222325), file->bytes, file->size);
    const uint64_t second = fnv1a(~first, file->bytes, file->size);
    int len = snprintf(file->name, sizeof(file->name), "%s%016llx%016llx%s", file->prefix,
                       (unsigned long long)first, (unsigned long long)second, suffix);
    return len < (int)sizeof(file->name) ? 0 : -ENAMETOOLONG;
}

/* What is there already. */

static bool has_content(int fd, const struct file *file)
{
    unsigned char chunk[4096];
    size_t done = 0;
    ssize_t got;
    while ((got = read(fd, chunk, sizeof(chunk))) > 0) {
        if ((size_t)got > file->size - done || memcmp(chunk, file->bytes + done, (size_t)got) != 0)
            return false;
        done += (size_t)got;
    }
    return got == 0 && done == file->size;
}

/* Whether the file is there and good; it is young again then. */
static bool is_kept(int directory, const struct file *file)
{
    struct stat st;
    /* O_NONBLOCK: a FIFO in its place must not hold us up. */
    int fd = openat(directory, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool good = fstat(fd, &st) == 0 && st.st_mode == (S_IFREG | mode_of(file)) &&
                      st.st_uid == geteuid() && has_content(fd, file);
    if (good)
        futimens(fd, NULL);
    close(fd);
    return good;
}

/* Programs that live long start others all the time, and each reads the file; that shows in the access time. */
static bool is_unused(int directory, const char *name, time_t now)
{
    struct stat st;
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return false;
    const time_t used = st.st_atim.tv_sec > st.st_mtim.tv_sec ? st.st_atim.tv_sec : st.st_mtim.tv_sec;
    return now - used > UNUSED_SECONDS;
}

/* Also removes what a killed writer has left. */
static void sweep(int directory, const char *prefix)
{
    const time_t now = time(NULL);
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
    if (!names) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(names));)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && is_unused(directory, entry->d_name, now))
            unlinkat(directory, entry->d_name, 0);
    closedir(names);
}

/* A new one. */

/* The prefix stays in front, so that a sweep finds it. */
static int open_hidden(int directory, const struct file *file, char hidden[NAME_MAX + 1])
{
    for (int tries = 0; tries < TRIES; tries++) {
        unsigned random = 0;
        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
            random = (unsigned)getpid() + (unsigned)tries;
        if (snprintf(hidden, NAME_MAX + 1, "%s.%08x", file->name, random) > NAME_MAX)
            return -ENAMETOOLONG;
        int fd = openat(directory, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

static int write_all(int fd, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno != EINTR)
            return -errno;
        if (done > 0) {
            bytes += done;
            size -= (size_t)done;
        }
    }
    return 0;
}

/* A limit on the size of files is an error and no death. */
static int write_quietly(int fd, const unsigned char *bytes, size_t size)
{
    struct sigaction old, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGXFSZ, &ignore, &old);
    int error = write_all(fd, bytes, size);
    sigaction(SIGXFSZ, &old, NULL);
    return error;
}

static int write_file(int directory, const struct file *file)
{
    char hidden[NAME_MAX + 1];
    int fd = open_hidden(directory, file, hidden);
    if (fd < 0)
        return fd;
    int error = write_quietly(fd, file->bytes, file->size);
    if (!error && fchmod(fd, mode_of(file)) != 0)
        error = -errno;
    if (close(fd) != 0 && !error)
        error = -errno;
    if (!error && renameat(directory, hidden, directory, file->name) != 0)
        error = -errno;
    if (error)
        unlinkat(directory, hidden, 0);
    return error;
}

/* Directories. */

/* Why no file may be in this directory, or NULL. */
static const char *find_obstacle(int fd, const char *directory, const struct file *file)
{
    struct stat st;
    struct statvfs system;
    if (fstat(fd, &st) != 0)
        return "cannot be looked at";
    if (st.st_uid != geteuid())
        return "belongs to somebody else";
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return "can be written to by others";
    if (!file->executable)
        return NULL;
    if (strpbrk(directory, " \t\n\v\f\r:$"))
        return "has a character that LD_PRELOAD cannot express";
    if (fstatvfs(fd, &system) == 0 && (system.f_flag & ST_NOEXEC))
        return "is mounted noexec";
    return NULL;
}

static int store_in_directory(const char *directory, const struct file *file, const char **obstacle)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *obstacle = find_obstacle(fd, directory, file);
    int error = *obstacle ? -EACCES : 0;
    if (!error && !is_kept(fd, file)) {
        sweep(fd, file->prefix);
        error = write_file(fd, file);
    }
    close(fd);
    return error;
}

/* Under sudo, HOME may be somebody else's: nothing of ours is to lie around there. */
static void make_in_own(const char *parent, const char *directory)
{
    struct stat st;
    if (stat(parent, &st) == 0 && st.st_uid == geteuid())
        mkdir(directory, 0700);
}

/* These find a directory, and make it if it is missing: false if there is none. */

static bool find_names(char directory[STUB_PATH])
{
    return tdi_name_directory(TDI_NAME_MAKE, directory, STUB_PATH) != -ENAMETOOLONG; /* we look ourselves */
}

static bool find_in_cache(char directory[STUB_PATH])
{
    const char *cache = getenv("XDG_CACHE_HOME");
    if (!cache || *cache != '/' || snprintf(directory, STUB_PATH, "%s/tundish", cache) >= STUB_PATH)
        return false;
    make_in_own(cache, directory);
    return true;
}

static bool find_in_home(char directory[STUB_PATH])
{
    char cache[STUB_PATH];
    const char *home = getenv("HOME");
    if (!home || *home != '/' || snprintf(cache, sizeof(cache), "%s/.cache", home) >= STUB_PATH ||
        snprintf(directory, STUB_PATH, "%s/tundish", cache) >= STUB_PATH)
        return false;
    make_in_own(home, cache);
    make_in_own(cache, directory);
    return true;
}

static bool find_temporary(char directory[STUB_PATH])
{
    snprintf(directory, STUB_PATH, "/tmp/tundish-%lu", (unsigned long)geteuid());
    mkdir(directory, 0700);
    return true;
}

/* The command may go to another directory before it reads the path; and a slash behind it follows a link. */
static int make_absolute(char directory[STUB_PATH])
{
    char here[STUB_PATH], joined[2 * STUB_PATH];
    size_t len = strlen(directory);
    while (len > 1 && directory[len - 1] == '/')
        directory[--len] = '\0';
    if (*directory == '/')
        return 0;
    if (!getcwd(here, sizeof(here)))
        return -errno;
    if (snprintf(joined, sizeof(joined), "%s/%s", here, directory) >= STUB_PATH)
        return -ENAMETOOLONG;
    strcpy(directory, joined);
    return 0;
}

/* Stores the file there, and completes the path. */
static int store_in(char path[STUB_PATH], const struct file *file, const char **obstacle)
{
    int error = make_absolute(path);
    const size_t len = strlen(path);
    if (!error && len + 1 + strlen(file->name) >= STUB_PATH)
        error = -ENAMETOOLONG;
    if (!error)
        error = store_in_directory(path, file, obstacle);
    if (!error)
        snprintf(path + len, STUB_PATH - len, "/%s", file->name);
    return error;
}

static void add_complaint(char complaints[STUB_PATH], const char *where, const char *obstacle, int error)
{
    const size_t used = strlen(complaints);
    snprintf(complaints + used, STUB_PATH - used, "%s%s%s%s", used > 0 ? ", " : "", where,
             obstacle ? " " : ": ", obstacle ? obstacle : strerror(-error));
}

int stub_store(const void *bytes, size_t size, const char *prefix, const char *suffix, bool executable,
               char path[STUB_PATH])
{
    static bool (*const find[])(char directory[STUB_PATH]) = {find_names, find_in_cache, find_in_home,
                                                              find_temporary};
    struct file file = {.prefix = prefix, .bytes = bytes, .size = size, .executable = executable};
    char complaints[STUB_PATH] = "";
    int error = name_file(&file, suffix);
    bool named = !error;
    if (!named)
        add_complaint(complaints, prefix, NULL, error);
    for (size_t i = 0; named && i < sizeof(find) / sizeof(find[0]); i++) {
        const char *obstacle = NULL;
        if (!find[i](path))
            continue;
        error = store_in(path, &file, &obstacle);
        if (!error)
            return 0;
        add_complaint(complaints, path, obstacle, error);
    }
    memcpy(path, complaints, STUB_PATH);
    return error;
}
