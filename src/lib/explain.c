/* SPDX-License-Identifier: MIT */
/* The functions of the public header give numbers; who talks to people asks here for the rest. */
#include "lib/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <tundish/tundish.h>

#include "lib/name.h"
#include "plat/file.h"
#include "shm/store.h"

/* A file of another size may be somebody else's, or another version's, whose buckets have that size. */
static enum tdi_store_fault judge_by_head(const char *path)
{
    struct tdi_layout_identity identity;
    struct tdi_file_facts facts;
    if (tdi_file_read_head(path, &identity, sizeof identity, &facts) != 0)
        return TDI_STORE_WRONG_SIZE;
    if (identity.magic != TDI_LAYOUT_MAGIC)
        return TDI_STORE_NO_MAGIC;
    if (identity.version != TDI_LAYOUT_VERSION)
        return TDI_STORE_OTHER_VERSION;
    return identity.size == sizeof(struct tdi_layout) ? TDI_STORE_WRONG_SIZE : TDI_STORE_OTHER_LAYOUT;
}

static void explain_file(const char *path, char *buf, size_t len)
{
    struct tdi_file_facts facts = {0};
    struct tdi_layout *file = NULL;
    enum tdi_store_fault fault = TDI_STORE_FINE;
    const char *what = "damaged";

    tdi_store_map(path, &file, &facts, &fault);
    if (file)
        tdi_store_unmap(file);
    if (fault == TDI_STORE_WRONG_SIZE)
        fault = judge_by_head(path);
    switch (fault) {
    case TDI_STORE_WRONG_SIZE:
        snprintf(buf, len, "not a bucket (too %s: %" PRIu64 " bytes, a bucket has %zu)",
                 facts.size < sizeof *file ? "short" : "long", facts.size, sizeof *file);
        return;
    case TDI_STORE_NOT_REGULAR:
        what = "not a regular file";
        break;
    case TDI_STORE_NO_MAGIC:
        what = "a file of something else";
        break;
    case TDI_STORE_OTHER_VERSION:
        what = "made by another version of tundish; remove it with 'tundish rm' once nobody uses it";
        break;
    case TDI_STORE_OTHER_LAYOUT:
        what = "made by a tundish of another layout; remove it with 'tundish rm' once nobody uses it";
        break;
    case TDI_STORE_FINE:
        break;
    }
    snprintf(buf, len, "not a bucket (%s)", what);
}

static void explain_directory(const char *name, int error, char *buf, size_t len)
{
    char directory[PATH_MAX];
    if (strchr(name, '/')) {
        snprintf(buf, len, error == -ENOENT ? "no such bucket or directory" : "no permission");
        return;
    }
    if (tdi_name_directory(TDI_NAME_ONLY, directory, sizeof directory) != 0)
        directory[0] = '\0';
    if (error == -ENOENT)
        snprintf(buf, len, "no such bucket in %s; make it with 'tundish create %s --rate R'", directory,
                 name);
    else if (tdi_name_directory(TDI_NAME_CHECK, directory, sizeof directory) == -EACCES)
        snprintf(buf, len, "%s is not a directory of your own that only you may write to; set TUNDISH_DIR",
                 directory);
    else
        snprintf(buf, len, "no permission in %s", directory);
}

void tdi_explain(const char *name, int error, char *buf, size_t len)
{
    char path[PATH_MAX];
    int resolved = tdi_name_resolve(name, TDI_NAME_ONLY, path, sizeof path);

    if (error == -EINVAL && resolved == -EINVAL)
        snprintf(buf, len,
                 "not a name for a bucket (it is empty, starts with '.', or has a '%%' that is not one "
                 "of %%p %%u %%n %%%%)");
    else if (error == -EPROTO && resolved == 0)
        explain_file(path, buf, len);
    else if ((error == -ENOENT || error == -EACCES) && resolved == 0)
        explain_directory(name, error, buf, len);
    else if (error == -ELOOP)
        snprintf(buf, len, "not a bucket (a symbolic link; name the file itself)");
    else if (error == -EROFS)
        snprintf(buf, len, "on a read-only file system; set TUNDISH_DIR to a directory you may write to");
    else if (error == -ENOSPC)
        snprintf(buf, len, "no space left for the bucket's %zu bytes", sizeof(struct tdi_layout));
    else
        snprintf(buf, len, "%s", tundish_strerror(error));
}
