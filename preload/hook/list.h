/* SPDX-License-Identifier: MIT */
/* libc's own dl_iterate_phdr(), whoever else has one. */
#ifndef TUNDISH_PRELOAD_LIST_H
#define TUNDISH_PRELOAD_LIST_H

#include <link.h>
#include <stddef.h>

typedef int tdi_list_fn(struct dl_phdr_info *info, size_t size, void *argument);

/* Looks for it, once, while there is one thread. */
void tdi_list_begin(void);

int tdi_list_iterate(tdi_list_fn *visit, void *argument);

#endif
