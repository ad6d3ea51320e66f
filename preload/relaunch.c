/* SPDX-License-Identifier: MIT */
#include "relaunch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy/env.h"
#include "policy/policy.h"
#include "say.h"

#define OWN_WORDS 7 /* of the launcher's command line, before the program's */

/*
 * TUNDISH_PROGRAM_NAME is the launcher's file name, TUNDISH_BIN_FROM_LIB the way to its directory from that of
 * this library once installed; both come from the build.
 */
static const char *const places[] = {"", TUNDISH_BIN_FROM_LIB "/"};

static size_t count(char *const *words)
{
    size_t n = 0;
    while (words[n] != NULL)
        n++;
    return n;
}

/* "/usr/lib/x/" for a file in there. */
static void cut_to_directory(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[1] = '\0';
}

/* Whether the path still names what runs; an unnamed or deleted file has none. */
static bool is_file_of_program(const char *path)
{
    struct stat named, running;
    return stat(path, &named) == 0 && stat("/proc/self/exe", &running) == 0 &&
           named.st_dev == running.st_dev && named.st_ino == running.st_ino;
}

/* The program's own file, or why there is none: with ld.so's command line it is ld.so. */
static const char *find_program(char path[PATH_MAX])
{
    ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, PATH_MAX - 1);
    if (len <= 0)
        return "the launcher must read it, and /proc, which tells what to start, is not there; use 'tundish "
               "run'";
    path[len] = '\0';
    if (getauxval(AT_BASE) == 0)
        return "the launcher must read it, and cannot start what ld.so was told to run; use 'tundish run'";
    if (!is_file_of_program(path))
        return "the launcher must read it, and this program has no file to be started from; use 'tundish "
               "run'";
    return NULL;
}

static void try_places(char *const *arguments, char *const *words)
{
    Dl_info here = {.dli_fname = NULL};
    char path[2 * PATH_MAX];
    if (dladdr(&places, &here) == 0 || here.dli_fname == NULL)
        return;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct tdi_text text;
        tdi_text_start(&text, path, sizeof path);
        tdi_text_add(&text, here.dli_fname);
        cut_to_directory(path);
        text.at = path + strlen(path);
        text.left = sizeof path - strlen(path);
        tdi_text_add(&text, places[i]);
        tdi_text_add(&text, TUNDISH_PROGRAM_NAME);
        (void)syscall(SYS_execve, path, arguments, words);
    }
}

/* One that somebody else has set must not stand in the way. How many there are. */
static size_t copy_but_mark(char **to, char *const *words)
{
    size_t kept = 0;
    for (; *words != NULL; words++)
        if (strncmp(*words, TDI_RELAUNCHED, strlen(TDI_RELAUNCHED)) != 0)
            to[kept++] = *words;
    return kept;
}

const char *tdi_relaunch(const char *path, int argc, char *const *argv, char *const *words)
{
    char program[PATH_MAX];
    char mark[sizeof TDI_RELAUNCHED + TDI_DECIMAL] = TDI_RELAUNCHED;
    const size_t settings = count(words);
    const size_t size = (OWN_WORDS + (size_t)argc + 1 + settings + 2) * sizeof(char *);
    const char *why = find_program(program);
    if (why != NULL)
        return why;
    char **room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return "there is no memory to start the launcher, which must read it";
    const char *const own[OWN_WORDS] = {TUNDISH_PROGRAM_NAME, "run",   "--config", path,
                                        "--relaunched",       program, "--"};
    memcpy(room, own, sizeof own);
    memcpy(room + OWN_WORDS, argv, (size_t)argc * sizeof *argv);
    char **environment = room + OWN_WORDS + argc + 1;
    size_t kept = copy_but_mark(environment, words);
    (void)tdi_decimal(mark + strlen(mark), (uint64_t)getpid());
    environment[kept] = mark;
    try_places(room, environment);
    (void)munmap(room, size);
    return "the launcher, which must read it, cannot be executed from where this library expects it; use "
           "'tundish run'";
}
