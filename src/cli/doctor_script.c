/* SPDX-License-Identifier: MIT */
/* Scripts: what is limited is the interpreter that their first line names. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/run.h"

_Static_assert((int)DOCTOR_PATH == (int)RUN_PATH, "a path found is a path followed");

enum {
    DEPTH = 5,      /* as the kernel follows */
    HEAD = 256 + 1, /* as much as the kernel reads, and a NUL */
};

static const char blanks[] = " \t";

/* The first bytes of a file as a string. */
static int read_head(const char *path, char head[HEAD])
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0)
        return -errno;
    ssize_t len = pread(file, head, HEAD - 1, 0);
    int error = len < 0 ? -errno : 0;
    close(file);
    head[len < 0 ? 0 : len] = '\0';
    return error;
}

/*
 * `env [-S] [NAME=VALUE]... COMMAND ...`: the command, or NULL. Options that take values are not understood.
 */
static const char *command_of_env(char *words)
{
    char *rest;
    for (char *word = strtok_r(words, blanks, &rest); word; word = strtok_r(NULL, blanks, &rest)) {
        if (strncmp(word, "-S", 2) == 0 && word[2])
            return word + 2;
        if (word[0] != '-' && !strchr(word, '='))
            return word;
    }
    return NULL;
}

/* Splits what follows "#!". The interpreter, with *rest behind it, or NULL if there is none. */
static char *split(char *line, char **rest)
{
    line[strcspn(line, "\n")] = '\0';
    line += strspn(line, blanks);
    size_t len = strcspn(line, blanks);
    *rest = line + len + (line[len] != '\0');
    line[len] = '\0';
    return len ? line : NULL;
}

/* The program that runs a script, from its first bytes. */
static int find_interpreter(const char *script, char *head, char path[DOCTOR_PATH])
{
    char *rest = NULL;
    const char *interpreter = "/bin/sh"; /* as execvp has it for files that the kernel does not know */
    if (strncmp(head, "#!", 2) == 0)
        interpreter = split(head + 2, &rest);
    if (!interpreter) {
        cli_say(script, "cannot run: its first line names no interpreter");
        return CLI_NOT_EXECUTABLE;
    }
    const char *slash = strrchr(interpreter, '/'), *command = interpreter;
    doctor_say("script", "%s: run by %s%s%s", script, interpreter, rest && *rest ? " " : "",
               rest ? rest : "");
    if (rest && slash && strcmp(slash, "/env") == 0)
        command = command_of_env(rest);
    return run_command_find(command ? command : interpreter, path);
}

int doctor_script(char path[DOCTOR_PATH])
{
    char head[HEAD], script[DOCTOR_PATH];
    for (int depth = 0; depth < DEPTH; depth++) {
        int error = read_head(path, head);
        if (error == -EACCES)
            return CLI_OK; /* may be executed and not read; whoever opens it as a program will say so */
        if (error) {
            cli_say(path, "%s", strerror(-error));
            return CLI_NOT_EXECUTABLE;
        }
        if (strncmp(head, ELFMAG, SELFMAG) == 0)
            return CLI_OK;
        memcpy(script, path, sizeof(script));
        int status = find_interpreter(script, head, path);
        if (status)
            return status;
    }
    cli_say(path, "scripts that run scripts: too many of them");
    return CLI_NOT_EXECUTABLE;
}
