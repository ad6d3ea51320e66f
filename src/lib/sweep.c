/* SPDX-License-Identifier: MIT */
/*
 * A run's bucket is entered by its launcher before it has a name, and the launcher's entry lives as long as
 * the command it becomes. So a bucket all of whose entries are dead is over, unless somebody forked a moment
 * ago, whose child may not be listed yet.
 *
 * A name cannot be removed on condition, and may have been given to another file since it was looked at. So
 * the file is moved aside, where nobody else can open it any more, and looked at again: what is over then
 * goes, and all else gets its name back. The directory is locked meanwhile: only one sweeper is at work, and
 * what lies aside when it comes was left there by one that was killed.
 */
#include "lib/sweep.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tundish/tundish.h>

#include "lib/handle.h"
#include "lib/name.h"
#include "plat/file.h"
#include "shm/store.h"

#define ASIDE ".swept-" /* before the name; no bucket's name begins with a dot */

static bool starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_over(const char *path)
{
    struct tdi_layout *file;
    struct tdi_file_facts facts;
    enum tdi_store_fault fault;
    if (tdi_store_map(path, &file, &facts, &fault) != 0)
        return false;
    /* In this order: who was gone when the living were counted had told before that it would fork. */
    bool over = tdi_instance_unlisted(file) == 0 && tdi_handle_count_live(file) == 0 &&
                !tdi_handle_forked_lately(file);
    tdi_store_unmap(file);
    return over;
}

/* Whether it is removed. If its name was given away it stays aside for those who have it, until they end. */
static bool settle(const char *aside, const char *path)
{
    if (is_over(aside))
        return tdi_file_unlink(aside) == 0;
    (void)tdi_file_move(aside, path);
    return false;
}

static int sweep_one(const char *directory, const char *name, void *context)
{
    char path[PATH_MAX], aside[PATH_MAX];
    int *removed = context;
    bool is_aside = starts_with(name, ASIDE);
    if (is_aside)
        name += strlen(ASIDE);
    if (!starts_with(name, TDI_SWEEP_PREFIX))
        return 0;
    if (snprintf(aside, sizeof aside, "%s/" ASIDE "%s", directory, name) >= (int)sizeof aside)
        return 0;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name); /* shorter */
    if ((is_aside || (is_over(path) && tdi_file_move(path, aside) == 0)) && settle(aside, path))
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
