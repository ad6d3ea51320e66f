/* SPDX-License-Identifier: MIT */
/*
 * Finds the preload library and appends it to LD_PRELOAD, after whatever else is there. The hook library, which
 * is of no use without it, goes right before it.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/stub.h"

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

/* An entry of the list. */
struct entry {
    const char *text;
    size_t len;
};

static bool next_entry(const char **rest, struct entry *entry)
{
    *rest += strspn(*rest, " :");
    *entry = (struct entry){*rest, strcspn(*rest, " :")};
    *rest += entry->len;
    return entry->len > 0;
}

/* What stands behind the last slash, up to the entry's end. */
static struct entry base(const struct entry *entry)
{
    struct entry last = *entry;
    const char *slash;
    while ((slash = memchr(last.text, '/', last.len)) != NULL) {
        last.len -= (size_t)(slash + 1 - last.text);
        last.text = slash + 1;
    }
    return last;
}

/* Whether it is the library, also another copy of it: two would charge each call twice. */
static bool is_library(const struct entry *entry, bool is_there)
{
    const struct entry name = base(entry);
    char path[RUN_PATH];
    if (name.len != strlen(library) || memcmp(name.text, library, name.len) != 0)
        return false;
    if (is_there)
        return true;
    if (name.text == entry->text || entry->len >= sizeof(path))
        return false;
    memcpy(path, entry->text, entry->len);
    path[entry->len] = '\0';
    return access(path, R_OK) == 0;
}

/* A hook library, whoever's: there is one configuration, and so there is one of them. */
static bool is_hooks(const struct entry *entry)
{
    const struct entry name = base(entry);
    return name.len > strlen(TDI_STUB_FILE) && memcmp(name.text, TDI_STUB_FILE, strlen(TDI_STUB_FILE)) == 0;
}

static void put_entry(FILE *out, bool *first, char separator, const char *text, size_t len)
{
    if (!*first)
        fputc(separator, out);
    fwrite(text, 1, len, out);
    *first = false;
}

/*
 * The list with the library, and the hooks right before it. They cannot be without the library, which therefore
 * is to be found from everywhere, as they are. malloc'ed; NULL without memory.
 */
static char *make_list(const char *list, const char *path, const char *hooks, bool is_there)
{
    char *made = NULL;
    size_t size;
    bool first = true, listed = false;
    struct entry entry;
    FILE *out = open_memstream(&made, &size);
    if (!out)
        return NULL;
    for (const char *rest = list; next_entry(&rest, &entry);) {
        const char separator = entry.text > list ? entry.text[-1] : ':';
        const bool is_ours = !listed && is_library(&entry, is_there);
        if (is_ours && hooks)
            put_entry(out, &first, separator, hooks, strlen(hooks));
        if (is_ours && hooks && entry.text[0] != '/')
            put_entry(out, &first, separator, path, strlen(path));
        else if (!is_hooks(&entry))
            put_entry(out, &first, separator, entry.text, entry.len);
        listed = listed || is_ours;
    }
    if (!listed && hooks)
        put_entry(out, &first, ':', hooks, strlen(hooks));
    if (!listed)
        put_entry(out, &first, ':', path, strlen(path));
    if (fclose(out) == 0)
        return made;
    free(made);
    return NULL;
}

static int put_list(const char *path, const char *hooks, bool is_there)
{
    const char *list = getenv("LD_PRELOAD");
    char *made = make_list(list ? list : "", path, hooks, is_there);
    int result = made ? setenv("LD_PRELOAD", made, 1) : -1;
    free(made);
    return result;
}

int run_preload_set(const char *hooks, bool is_there)
{
    char *path = find_library();
    int status = CLI_RUN_FAILED;
    if (path && can_be_listed(path)) {
        if (put_list(path, hooks, is_there) == 0)
            status = CLI_OK;
        else
            cli_say("LD_PRELOAD", "%s", strerror(errno));
    }
    free(path);
    return status;
}
