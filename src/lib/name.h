/* SPDX-License-Identifier: MIT */
/* Where a bucket's name lives. */
#ifndef TUNDISH_LIB_NAME_H
#define TUNDISH_LIB_NAME_H

#include <stddef.h>

/* What to do about the default directory, which must be the caller's own. */
enum tdi_name_care {
    TDI_NAME_ONLY,  /* nothing: the text is wanted */
    TDI_NAME_CHECK, /* -EACCES if it is not ours, -ENOENT if it is missing */
    TDI_NAME_MAKE,  /* the same, but made if it is missing */
};

/* The path of a name. Errors as tundish_path. */
int tdi_name_resolve(const char *name, enum tdi_name_care care, char *buf, size_t len);

/* The directory of names without '/'. */
int tdi_name_directory(enum tdi_name_care care, char *buf, size_t len);

#endif
