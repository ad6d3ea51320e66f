/* SPDX-License-Identifier: MIT */
/* A file that readers find whole, old or new: written under another name, then renamed. */
#ifndef TUNDISH_SIDECAR_TEXTFILE_H
#define TUNDISH_SIDECAR_TEXTFILE_H

#include <limits.h>
#include <stdio.h>

struct tdi_textfile {
    FILE *file; /* to write to */
    char path[PATH_MAX];
    char unfinished[PATH_MAX];
};

/* Begins DIRECTORY/NAME, and removes what writers of it that were killed have left: 0 or a negative errno. */
int tdi_textfile_begin(struct tdi_textfile *out, const char *directory, const char *name);

/* Gives it its name (mode 0644): 0, or a negative errno, and then the old one stays. */
int tdi_textfile_end(struct tdi_textfile *file);

#endif
