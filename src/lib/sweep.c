/* SPDX-License-Identifier: MIT */
/*
 * A run's bucket is entered by its launcher before it has a name, and the launcher's entry lives as long as
 * the command it becomes. So a bucket all of whose entries are dead is over. The directory is locked
 * meanwhile, so that two sweepers do not do the same work; a name that was given to another file since it was
 * looked at stays.
 */
#include "lib/sweep.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <tundish/tundish.h>

#include "lib/handle.h"
#include "lib/name.h"
#include "plat/file.h"
#include "shm/store.h"

static bool is_over(const char *path, struct tdi_file_facts *facts)
{
    struct tdi_layout *file;
    enum tdi_store_fault fault;
    if (tdi_store_map(path, &file, facts, &fault) != 0)
        return false;
    bool over = tdi_instance_unlisted(file) == 0 && tdi_handle_count_live(file) == 0;
    tdi_store_unmap(file);
    return over;
}

static int sweep_one(const char *directory, const char *name, void *context)
{
    char path[PATH_MAX];
    struct tdi_file_facts facts;
    int *removed = context;
    if (strncmp(name, TDI_SWEEP_PREFIX, strlen(TDI_SWEEP_PREFIX)) != 0)
        return 0;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return 0;
    if (is_over(path, &facts) && tdi_file_unlink_this(path, &facts) == 0)
        ++*removed;
    return 0;
}

int tdi_sweep(void)
{
    char directory[PATH_MAX];
    int removed = 0;
    int error = tdi_name_directory(TDI_NAME_CHECK, directory, sizeof directory);
    if (!error)
        error = tdi_file_each_locked(directory, sweep_one, &removed);
    return error == 0 || error == -EWOULDBLOCK || error == -ENOENT ? removed : error;
}
