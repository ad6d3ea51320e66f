/* SPDX-License-Identifier: MIT */
/* Finds the preload library and appends it to LD_PRELOAD, after whatever else is there. */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* TUNDISH_PRELOAD_NAME is the library's file name, TUNDISH_PRELOAD_FROM_BIN the way to its directory from
 * that of the program once installed; both come from the build. */
static const char library[] = TUNDISH_PRELOAD_NAME;

/* The directory of this program. */
static int find_own_directory(char path[RUN_PATH])
{
    ssize_t len = readlink("/proc/self/exe", path, RUN_PATH - 1);
    if (len < 0) {
        cli_say("/proc/self/exe", "%s; it is needed to find %s", strerror(errno), library);
        return CLI_RUN_FAILED;
    }
    path[len] = '\0';
    *strrchr(path, '/') = '\0';
    return CLI_OK;
}

/* Beside the program, as in the build tree, or where it is installed. malloc'ed, or NULL with a line said. */
static char *find_library(void)
{
    char directory[RUN_PATH], beside[RUN_PATH + 64], installed[RUN_PATH + 256];
    if (find_own_directory(directory) != CLI_OK)
        return NULL;
    snprintf(beside, sizeof(beside), "%s/%s", directory, library);
    snprintf(installed, sizeof(installed), "%s/%s/%s", directory, TUNDISH_PRELOAD_FROM_BIN, library);
    char *path = realpath(beside, NULL);
    if (!path)
        path = realpath(installed, NULL);
    if (!path)
        cli_say(library, "is neither at %s nor at %s; reinstall tundish", beside, installed);
    return path;
}

/* LD_PRELOAD is split at spaces and colons, and nothing in it can be quoted. */
static bool can_be_listed(const char *path)
{
    if (!strpbrk(path, " :"))
        return true;
    cli_say(path, "its path holds a %s, which LD_PRELOAD cannot express; move tundish elsewhere",
            strchr(path, ' ') ? "space" : "colon");
    return false;
}

/* Whether the list names the library already, also another copy of it: two would charge each call twice. */
static bool is_listed(const char *list)
{
    size_t len;
    for (const char *at = list; *at; at += len + (at[len] != '\0')) {
        char entry[RUN_PATH];
        len = strcspn(at, " :");
        if (len >= sizeof(entry))
            continue;
        memcpy(entry, at, len);
        entry[len] = '\0';
        const char *slash = strrchr(entry, '/');
        if (slash && strcmp(slash + 1, library) == 0 && access(entry, R_OK) == 0)
            return true;
    }
    return false;
}

static int append(const char *path)
{
    const char *list = getenv("LD_PRELOAD");
    char *joined;
    if (!list || !*list)
        return setenv("LD_PRELOAD", path, 1);
    if (is_listed(list))
        return 0;
    if (asprintf(&joined, "%s:%s", list, path) < 0)
        return -1;
    int result = setenv("LD_PRELOAD", joined, 1);
    free(joined);
    return result;
}

int run_preload_set(void)
{
    char *path = find_library();
    int status = CLI_RUN_FAILED;
    if (path && can_be_listed(path)) {
        if (append(path) == 0)
            status = CLI_OK;
        else
            cli_say("LD_PRELOAD", "%s", strerror(errno));
    }
    free(path);
    return status;
}
