/* SPDX-License-Identifier: MIT */
/*
 * The exec family. The search along PATH, scripts and errors are libc's. A variadic call cannot be passed on:
 * its arguments are laid on the stack, as libc does, and it goes on as the one that takes a vector.
 *
 * libc's own system(), popen() and wordexp() execute from inside and are not seen here.
 */
#include <alloca.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "gate.h"
#include "heritage.h"
#include "ready/ready.h"
#include "real.h"

struct program {
    int fd; /* or a directory's */
    const char *path;
    char *const *argv;
    int flags;
};

static int real_execve(const void *arguments, char *const *envp)
{
    const struct program *program = arguments;
    return tdi_real()->execve(program->path, program->argv, envp);
}

static int real_execv(const void *arguments, char *const *envp)
{
    const struct program *program = arguments;
    return envp == environ ? tdi_real()->execv(program->path, program->argv) : real_execve(arguments, envp);
}

static int real_execvpe(const void *arguments, char *const *envp)
{
    const struct program *program = arguments;
    return tdi_real()->execvpe(program->path, program->argv, envp);
}

static int real_execvp(const void *arguments, char *const *envp)
{
    const struct program *program = arguments;
    return envp == environ ? tdi_real()->execvp(program->path, program->argv) : real_execvpe(arguments, envp);
}

static int real_fexecve(const void *arguments, char *const *envp)
{
    const struct program *program = arguments;
    return tdi_real()->fexecve(program->fd, program->argv, envp);
}

static int real_execveat(const void *arguments, char *const *envp)
{
    const struct program *program = arguments;
    return tdi_real()->execveat(program->fd, program->path, program->argv, envp, program->flags);
}

/* The one way out of this process; or it fails. */
static int leave(const struct program *program, char *const *envp, tdi_heritage_fn *real)
{
    tdi_ready_before_exec();
    if (!tdi_known_is_ours()) /* of vfork: not listed before its program begins, when its parent may be gone */
        tdi_rules_forking();
    int result = tdi_heritage_hand_on(envp, real, program);
    tdi_ready_after_exec();
    return result;
}

TDI_WRAPPER int execve(const char *path, char *const *argv, char *const *envp)
{
    struct program program = {.path = path, .argv = argv};
    return leave(&program, envp, real_execve);
}

TDI_WRAPPER int execv(const char *path, char *const *argv)
{
    struct program program = {.path = path, .argv = argv};
    return leave(&program, environ, real_execv);
}

TDI_WRAPPER int execvpe(const char *file, char *const *argv, char *const *envp)
{
    struct program program = {.path = file, .argv = argv};
    return leave(&program, envp, real_execvpe);
}

TDI_WRAPPER int execvp(const char *file, char *const *argv)
{
    struct program program = {.path = file, .argv = argv};
    return leave(&program, environ, real_execvp);
}

TDI_WRAPPER int fexecve(int fd, char *const *argv, char *const *envp)
{
    struct program program = {.fd = fd, .argv = argv};
    return envp != NULL ? leave(&program, envp, real_fexecve) : real_fexecve(&program, envp); /* an error */
}

TDI_WRAPPER int execveat(int fd, const char *path, char *const *argv, char *const *envp, int flags)
{
    struct program program = {.fd = fd, .path = path, .argv = argv, .flags = flags};
    return leave(&program, envp, real_execveat);
}

/* How many arguments there are, the NULL included. */
static size_t count(const char *argument, va_list rest)
{
    size_t n = 1;
    for (; argument != NULL; argument = va_arg(rest, const char *))
        n++;
    return n;
}

/* Lays them into argv, NULL included; what follows is left in `rest`. */
static char **collect(char **argv, const char *argument, va_list *rest)
{
    for (size_t i = 0;; i++) {
        argv[i] = (char *)(uintptr_t)argument;
        if (argument == NULL)
            return argv;
        argument = va_arg(*rest, const char *);
    }
}

TDI_WRAPPER int execl(const char *path, const char *argument, ...)
{
    va_list rest;
    va_start(rest, argument);
    size_t n = count(argument, rest);
    va_end(rest);
    va_start(rest, argument);
    struct program program = {.path = path, .argv = collect(alloca(n * sizeof(char *)), argument, &rest)};
    va_end(rest);
    return leave(&program, environ, real_execv);
}

TDI_WRAPPER int execlp(const char *file, const char *argument, ...)
{
    va_list rest;
    va_start(rest, argument);
    size_t n = count(argument, rest);
    va_end(rest);
    va_start(rest, argument);
    struct program program = {.path = file, .argv = collect(alloca(n * sizeof(char *)), argument, &rest)};
    va_end(rest);
    return leave(&program, environ, real_execvp);
}

TDI_WRAPPER int execle(const char *path, const char *argument, ...)
{
    va_list rest;
    va_start(rest, argument);
    size_t n = count(argument, rest);
    va_end(rest);
    va_start(rest, argument);
    struct program program = {.path = path, .argv = collect(alloca(n * sizeof(char *)), argument, &rest)};
    char *const *envp = va_arg(rest, char *const *);
    va_end(rest);
    return leave(&program, envp, real_execve);
}
