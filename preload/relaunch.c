/* SPDX-License-Identifier: MIT */
#include "relaunch.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy/env.h"
#include "policy/policy.h"

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

/* The program's own file; ld.so's when it was told to run the program. */
static const char *find_program(char path[PATH_MAX])
{
    ssize_t len = syscall(SYS_readlinkat, -100 /* AT_FDCWD */, "/proc/self/exe", path, PATH_MAX - 1);
    if (len <= 0)
        return "the launcher must read it, and /proc, which tells it what to start, is not there; use "
               "'tundish run'";
    path[len] = '\0';
    if (getauxval(AT_BASE) == 0)
        return "the launcher must read it, and cannot start what ld.so was told to run; use 'tundish run'";
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

const char *tdi_relaunch(const char *path, int argc, char *const *argv, char *const *words)
{
    char program[PATH_MAX];
    char mark[] = TDI_RELAUNCHED "1";
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
    memcpy(environment, words, settings * sizeof *words);
    environment[settings] = mark;
    try_places(room, environment);
    (void)munmap(room, size);
    return "the launcher, which must read it, is not where this library expects it; use 'tundish run'";
}
