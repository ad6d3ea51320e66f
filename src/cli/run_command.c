/* SPDX-License-Identifier: MIT */
/* The command of `tundish run`: found as execvp finds it, but before anything is made, and looked at. */
#include "cli/run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Whether the program names a dynamic linker; true when that cannot be told. */
static bool has_interpreter(int file, const Elf64_Ehdr *header)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        off_t offset = (off_t)(header->e_phoff + (uint64_t)i * header->e_phentsize);
        if (pread(file, &segment, sizeof(segment), offset) != sizeof(segment) || segment.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* Why a preloaded library will not be loaded into this program, or NULL. */
static const char *find_obstacle(int file)
{
    Elf64_Ehdr header;
    struct stat status;
    const unsigned char own_class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (fstat(file, &status) != 0)
        return NULL;
    if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
        return "is set-user-ID";
    if ((status.st_mode & S_ISGID) && status.st_gid != getgid())
        return "is set-group-ID";
    if (pread(file, &header, sizeof(header), 0) != sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (header.e_ident[EI_CLASS] != own_class)
        return own_class == ELFCLASS64 ? "is a 32-bit program" : "is a 64-bit program";
    if (own_class == ELFCLASS64 && !has_interpreter(file, &header))
        return "is statically linked";
    return NULL;
}

void run_command_warn(const char *name, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    const char *obstacle = find_obstacle(file);
    if (obstacle)
        cli_say(name, "%s, which no preloaded library can reach: it runs without the limit", obstacle);
    close(file);
}

int run_command_exec(char **command)
{
    execvp(command[0], command);
    if (errno == ENOENT) {
        cli_say(command[0], "cannot run: its interpreter is missing");
        return CLI_NOT_FOUND;
    }
    return complain(command[0], errno);
}
