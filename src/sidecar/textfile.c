/* SPDX-License-Identifier: MIT */
/* See textfile.h. The other name is .NAME.PID, so it is known whose it is and whether that one lives. */
#include "sidecar/textfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int join(char path[PATH_MAX], const char *directory, const char *name)
{
    return snprintf(path, PATH_MAX, "%s/%s", directory, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void remove_leftovers(const char *directory, const char *stem)
{
    struct dirent *entry;
    DIR *names = opendir(directory);
    while (names && (entry = readdir(names))) {
        char path[PATH_MAX], *end;
        if (strncmp(entry->d_name, stem, strlen(stem)) != 0)
            continue;
        long pid = strtol(entry->d_name + strlen(stem), &end, 10);
        bool is_left = *end == '\0' && pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
        if (is_left && join(path, directory, entry->d_name) == 0)
            unlink(path);
    }
    if (names)
        closedir(names);
}

int tdi_textfile_begin(struct tdi_textfile *out, const char *directory, const char *name)
{
    char stem[NAME_MAX], unfinished[NAME_MAX];
    snprintf(stem, sizeof(stem), ".%s.", name);
    snprintf(unfinished, sizeof(unfinished), "%.200s%ld", stem, (long)getpid());
    if (join(out->path, directory, name) != 0 || join(out->unfinished, directory, unfinished) != 0)
        return -ENAMETOOLONG;
    remove_leftovers(directory, stem);
    unlink(out->unfinished); /* of a process that had our number */
    int fd = open(out->unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return -errno;
    out->file = fdopen(fd, "w");
    if (!out->file || fchmod(fd, 0644) != 0) {
        int error = -errno;
        if (out->file)
            fclose(out->file);
        else
            close(fd);
        unlink(out->unfinished);
        return error;
    }
    return 0;
}

int tdi_textfile_end(struct tdi_textfile *file)
{
    bool failed = ferror(file->file) != 0;
    int error = fclose(file->file) != 0 ? -errno : failed ? -EIO : 0;
    if (!error && rename(file->unfinished, file->path) != 0)
        error = -errno;
    if (error)
        unlink(file->unfinished);
    return error;
}
