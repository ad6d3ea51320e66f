/* SPDX-License-Identifier: MIT */
/*
 * Names of buckets as a command is to have them: absolute, so that a descendant with another TUNDISH_DIR or
 * another working directory finds the same files. A name with a key that each process or each destination
 * fills in for itself (%p, %n, %h, %P) keeps it; only its directory becomes absolute.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/name.h"

static int fail(const char *name, int error)
{
    cli_bucket_error(name, error);
    return CLI_RUN_FAILED;
}

static int print_directory(FILE *out, const char *path)
{
    char directory[RUN_PATH];
    if (path[0] == '/')
        return 0;
    if (!getcwd(directory, sizeof(directory)))
        return -errno;
    for (const char *p = directory; *p; p++)
        fputs(*p == '%' ? "%%" : (char[]){*p, '\0'}, out);
    fputc('/', out);
    return 0;
}

/* Both parts behind the working directory, if they are relative: the first as it is, the second escaped. */
static int join(const char *path, const char *tail, char **out)
{
    size_t len;
    FILE *stream = open_memstream(out, &len);
    if (!stream)
        return fail(tail, -ENOMEM);
    int error = print_directory(stream, *path ? path : tail);
    for (; *path; path++)
        fputs(*path == '%' ? "%%" : (char[]){*path, '\0'}, stream);
    fputs(tail, stream);
    if (fclose(stream) != 0 && error == 0)
        error = -ENOMEM;
    if (error == 0 && strchr(*out, ',')) {
        cli_say(*out, "a path with a comma cannot be handed to a command");
        free(*out);
        *out = NULL;
        return CLI_RUN_FAILED;
    }
    return error ? fail(tail, error) : CLI_OK;
}

int run_name_of_path(const char *path, char **out)
{
    return join(path, "", out);
}

int run_name_make(const char *name, bool makes, char **out, bool *keyed)
{
    char path[RUN_PATH];
    int error = 0;
    if (strchr(name, ',')) {
        cli_say(name, "a name with a comma cannot be handed to a command; give -b once for each bucket");
        return CLI_RUN_FAILED;
    }
    if (!tdi_policy_name_has(name, "hPpn")) {
        error = tundish_path(name, path, sizeof(path));
        return error ? fail(name, error) : run_name_of_path(path, out);
    }
    *keyed = true;
    if (strchr(name, '/'))
        return join("", name, out);
    /* A process that makes a bucket by its path makes no directory. */
    error = tdi_name_directory(makes ? TDI_NAME_MAKE : TDI_NAME_CHECK, path, sizeof(path) - 1);
    if (error)
        return fail(name, error);
    strcat(path, "/");
    return join(path, name, out);
}
