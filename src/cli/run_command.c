/* SPDX-License-Identifier: MIT */
/* The command of `tundish run`: found as execvp finds it, but before anything is made, and looked at. */
#include "cli/run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor.h"

/* 0, or the errno for which exec would refuse the file, as far as its permissions tell. */
static int check_executable(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? EISDIR : EACCES;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* The first in $PATH that can be executed. ENOENT, or why the first that is there cannot. */
static int search_path(const char *name, char path[RUN_PATH])
{
    const char *at = getenv("PATH");
    int worst = ENOENT;
    if (!at)
        at = "/bin:/usr/bin";
    for (;;) {
        size_t len = strcspn(at, ":");
        int written = snprintf(path, RUN_PATH, "%.*s/%s", len ? (int)len : 1, len ? at : ".", name);
        if (written > 0 && written < RUN_PATH) {
            int error = check_executable(path);
            if (error == 0)
                return 0;
            if (error == EACCES)
                worst = EACCES;
        }
        if (at[len] == '\0')
            return worst;
        at += len + 1;
    }
}

static int complain(const char *name, int error)
{
    bool missing = error == ENOENT || error == ENOTDIR;
    if (missing && !strchr(name, '/'))
        cli_say(name, "command not found");
    else
        cli_say(name, "%s", strerror(error));
    return missing ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

int run_command_find(const char *name, char path[RUN_PATH])
{
    int error;
    if (name[0] == '\0') {
        error = ENOENT;
    } else if (strchr(name, '/')) {
        error = snprintf(path, RUN_PATH, "%s", name) < RUN_PATH ? check_executable(path) : ENAMETOOLONG;
    } else {
        error = search_path(name, path);
    }
    return error ? complain(name, error) : CLI_OK;
}

/* Why a preloaded library will not be loaded into this program, or not see its calls; NULL if it will. */
static const char *find_obstacle(const char *path)
{
    struct elf elf;
    const char *obstacle = doctor_privilege(path);
    int error = elf_open(&elf, path);
    if (error)
        return error == -EACCES ? obstacle : NULL; /* privileges of a script are of no account */
    if (!obstacle)
        obstacle = doctor_format(&elf);
    if (!obstacle && elf_is_go(&elf))
        obstacle = "is a Go program";
    elf_close(&elf);
    return obstacle;
}

void run_command_warn(const char *name, const char *path)
{
    const char *obstacle = find_obstacle(path);
    if (obstacle)
        cli_say(name, "%s, which no preloaded library can reach: it runs without the limit", obstacle);
}

static int complain_of_exec(const char *name)
{
    if (errno == ENOENT) {
        cli_say(name, "cannot run: its interpreter is missing");
        return CLI_NOT_FOUND;
    }
    return complain(name, errno);
}

int run_command_exec(char **command)
{
    execvp(command[0], command);
    return complain_of_exec(command[0]);
}

int run_command_exec_file(const char *path, char **command)
{
    execv(path, command);
    return complain_of_exec(path);
}
