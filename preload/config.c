/* SPDX-License-Identifier: MIT */
/*
 * The frozen file is read, not mapped: whoever cuts it short meanwhile could end the program by that. It goes
 * into memory of our own that is only touched if there is one, by system calls of our own, for open() may be
 * hooked.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy/env.h"
#include "relaunch.h"

static struct tdi_frozen frozen;

static const char *find_word(char *const *words, const char *start)
{
    for (; words != NULL && *words != NULL; words++)
        if (strncmp(*words, start, strlen(start)) == 0)
            return *words + strlen(start);
    return NULL;
}

static pid_t read_process(const char *at)
{
    pid_t process = 0;
    for (; at != NULL && *at >= '0' && *at <= '9' && process < INT_MAX / 10; at++)
        process = process * 10 + (*at - '0');
    return process;
}

bool tdi_config_is_launcher(char *const *words)
{
    return read_process(find_word(words, TDI_RELAUNCHED)) == getpid();
}

pid_t tdi_config_command(char *const *words)
{
    return read_process(find_word(words, "TUNDISH_RUN="));
}

static int complain(char *why, size_t len, const char *path, const char *reason)
{
    struct tdi_text line;
    tdi_text_start(&line, why, len);
    tdi_text_add(&line, TDI_CONFIG_WORD);
    tdi_text_add(&line, path);
    tdi_text_add(&line, ": ");
    tdi_text_add(&line, reason);
    return -EINVAL;
}

static const char *reason_of(int error)
{
    return error == ENOENT   ? "no such file"
           : error == EACCES ? "this user may not read it"
           : error == EISDIR ? "is no regular file"
                             : "cannot be read";
}

/* As much of the file as there is room for. Its bytes, or a negative errno. */
static ssize_t read_all(const char *path)
{
    struct stat status;
    size_t size = 0;
    long got = 1;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)syscall(SYS_close, fd);
        return -EISDIR;
    }
    while (got > 0 && size < sizeof frozen) {
        got = syscall(SYS_read, fd, (char *)&frozen + size, sizeof frozen - size);
        size += got > 0 ? (size_t)got : 0;
    }
    int error = got < 0 ? errno : 0;
    (void)syscall(SYS_close, fd);
    return error != 0 ? -error : (ssize_t)size;
}

int tdi_config_read(const struct tdi_frozen **out, int argc, char *const *argv, char *const *words, char *why,
                    size_t len)
{
    const char *path = find_word(words, TDI_CONFIG_WORD);
    const char *reason;
    *out = NULL;
    if (path == NULL || *path == '\0')
        return 0;
    if (strcmp(path, TDI_CONFIG_SAID) == 0) {
        *why = '\0';
        return -EINVAL;
    }
    ssize_t size = read_all(path);
    if (size < 0)
        return complain(why, len, path, reason_of((int)-size));
    if (size < (ssize_t)sizeof frozen.magic || frozen.magic != TDI_FROZEN_MAGIC) {
        reason = tdi_relaunch(path, argc, argv, words);
        return complain(why, len, path, reason);
    }
    if (tdi_frozen_check(&frozen, (size_t)size, &reason) < 0)
        return complain(why, len, path, reason);
    *out = &frozen;
    return 0;
}
