/* SPDX-License-Identifier: MIT */
/* See directory.h. What the events say does not matter: the names are read anew after any. */
#include "sidecar/directory.h"

#include <stdalign.h>
#include <sys/inotify.h>
#include <unistd.h>

#define EVENTS                                                                                               \
    (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

static bool watch(struct tdi_directory *directory)
{
    if (directory->fd < 0 || directory->watch >= 0)
        return false;
    directory->watch = inotify_add_watch(directory->fd, directory->path, EVENTS);
    return directory->watch >= 0;
}

void tdi_directory_open(struct tdi_directory *directory, const char *path)
{
    *directory = (struct tdi_directory){path, inotify_init1(IN_CLOEXEC | IN_NONBLOCK), -1};
    watch(directory);
}

void tdi_directory_close(struct tdi_directory *directory)
{
    if (directory->fd >= 0)
        close(directory->fd);
    directory->fd = -1;
}

/* The directory itself is gone, or has another name. */
static void note(struct tdi_directory *directory, const struct inotify_event *event)
{
    if (event->wd != directory->watch || !(event->mask & (IN_MOVE_SELF | IN_IGNORED)))
        return;
    if (event->mask & IN_MOVE_SELF)
        inotify_rm_watch(directory->fd, directory->watch);
    directory->watch = -1;
}

bool tdi_directory_changed(struct tdi_directory *directory)
{
    alignas(struct inotify_event) char events[4096];
    bool changed = false;
    ssize_t got;
    while (directory->fd >= 0 && (got = read(directory->fd, events, sizeof(events))) > 0) {
        changed = true;
        for (char *at = events; at < events + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            note(directory, event);
            at += sizeof(*event) + event->len;
        }
    }
    return watch(directory) || changed;
}
