/* SPDX-License-Identifier: MIT */
/* Files of /proc/PID, whose sizes nobody knows before they have been read. */
#include "cli/doctor_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    STEP = 1 << 16,
    NAME = 512,
};

static void find_path(pid_t pid, const char *name, char path[NAME])
{
    snprintf(path, NAME, "/proc/%d/%s", (int)pid, name);
}

/* All of a file. */
static char *read_all(int file, size_t *len)
{
    char *text = NULL;
    *len = 0;
    for (;;) {
        char *more = realloc(text, *len + STEP + 1);
        ssize_t got = more ? read(file, more + *len, STEP) : -1;
        if (more)
            text = more;
        if (got < 0) {
            free(text);
            return NULL;
        }
        *len += (size_t)got;
        text[*len] = '\0';
        if (got == 0)
            return text;
    }
}

char *doctor_proc_read(pid_t pid, const char *name, size_t *len)
{
    char path[NAME];
    find_path(pid, name, path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    char *text = read_all(file, len);
    int error = errno;
    close(file);
    errno = error;
    return text;
}

bool doctor_proc_link(const char *path, char *target, size_t len)
{
    ssize_t got = readlink(path, target, len - 1);
    if (got >= 0)
        target[got] = '\0';
    return got >= 0;
}

bool doctor_proc_link_of(pid_t pid, const char *name, char *target, size_t len)
{
    char path[NAME];
    find_path(pid, name, path);
    return doctor_proc_link(path, target, len);
}
