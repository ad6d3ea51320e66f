/* SPDX-License-Identifier: MIT */
/*
 * Told when names in a directory change. The directory may come and go; where the kernel does not tell (it ran out
 * of watches), whoever asks looks once a second anyway.
 */
#ifndef TUNDISH_SIDECAR_DIRECTORY_H
#define TUNDISH_SIDECAR_DIRECTORY_H

#include <stdbool.h>

struct tdi_directory {
    const char *path;
    int fd; /* readable when something changed; -1: it cannot be told */
    int watch;
};

void tdi_directory_open(struct tdi_directory *directory, const char *path);
void tdi_directory_close(struct tdi_directory *directory);

/* Takes what has been told, and watches the directory if it is there by now; whether anything may have changed. */
bool tdi_directory_changed(struct tdi_directory *directory);

#endif
