/* SPDX-License-Identifier: MIT */
/*
 * The exec family, and the two that spawn. A successful call does not come back, so each is made in a child,
 * forked by a raw system call; it runs a shell, not the guest, whose library would make the same call again.
 * The shell ends with a number that it is given as an argument, or in the environment where the call takes
 * one: 7 says that all of it arrived.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snippets.h"

#define SHELL "/bin/sh"
#define BY_ARGUMENT "exit 7"
#define BY_ENVIRONMENT "exit $SNIPPET_STATUS"

static char shell[] = "sh", option[] = "-c", by_argument[] = BY_ARGUMENT, by_environment[] = BY_ENVIRONMENT;
static char status_word[] = "SNIPPET_STATUS=7", path_word[] = "PATH=/usr/bin:/bin";
static char *const plain[] = {shell, option, by_argument, NULL};
static char *const asking[] = {shell, option, by_environment, NULL};
static char *const words[] = {status_word, path_word, NULL};

static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* 7 if all went well. */
static int in_child(void (*execute)(void))
{
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        execute();
        _exit(1);
    }
    return child < 0 ? -1 : status_of(child);
}

/* Fails first, which is to say why. */
static void execve_body(void)
{
    errno = EDOM;
    if (execve("/nowhere/at/all", asking, words) == -1 && errno == ENOENT)
        execve(SHELL, asking, words);
}

static void execv_body(void)
{
    execv(SHELL, plain);
}

static void execvp_body(void)
{
    execvp("sh", plain);
}

static void execvpe_body(void)
{
    execvpe("sh", asking, words);
}

static void execl_body(void)
{
    execl(SHELL, "sh", "-c", BY_ARGUMENT, (char *)NULL);
}

static void execlp_body(void)
{
    execlp("sh", "sh", "-c", BY_ARGUMENT, (char *)NULL);
}

static void execle_body(void)
{
    execle(SHELL, "sh", "-c", BY_ENVIRONMENT, (char *)NULL, words);
}

static void fexecve_body(void)
{
    fexecve(open(SHELL, O_RDONLY | O_CLOEXEC), asking, words);
}

static void execveat_body(void)
{
    execveat(open("/bin", O_PATH | O_DIRECTORY | O_CLOEXEC), "sh", asking, words, 0);
}

#define EXEC_SNIPPET(name)                                                                                   \
    static int run_##name(void)                                                                              \
    {                                                                                                        \
        CHECK(in_child(name##_body) == 7);                                                                   \
        return 0;                                                                                            \
    }                                                                                                        \
    const struct snippet snippet_##name = {#name, SNIPPET_FREE, run_##name}

EXEC_SNIPPET(execve);
EXEC_SNIPPET(execv);
EXEC_SNIPPET(execvp);
EXEC_SNIPPET(execvpe);
EXEC_SNIPPET(execl);
EXEC_SNIPPET(execlp);
EXEC_SNIPPET(execle);
EXEC_SNIPPET(fexecve);
EXEC_SNIPPET(execveat);

static int run_posix_spawn(void)
{
    pid_t child;
    CHECK(posix_spawn(&child, "/nowhere/at/all", NULL, NULL, asking, words) == ENOENT);
    CHECK(posix_spawn(&child, SHELL, NULL, NULL, asking, words) == 0);
    CHECK(status_of(child) == 7);
    return 0;
}

const struct snippet snippet_posix_spawn = {"posix_spawn", SNIPPET_FREE, run_posix_spawn};

static int run_posix_spawnp(void)
{
    pid_t child;
    CHECK(posix_spawnp(&child, "sh", NULL, NULL, asking, words) == 0);
    CHECK(status_of(child) == 7);
    return 0;
}

const struct snippet snippet_posix_spawnp = {"posix_spawnp", SNIPPET_FREE, run_posix_spawnp};
