/* SPDX-License-Identifier: MIT */
/* A bucket's file as a whole: made complete, recognised, mapped. */
#ifndef TUNDISH_SHM_STORE_H
#define TUNDISH_SHM_STORE_H

#include "plat/file.h"
#include "shm/layout.h"

enum tdi_store_fault {
    TDI_STORE_FINE,
    TDI_STORE_NOT_REGULAR,
    TDI_STORE_WRONG_SIZE,
    TDI_STORE_NO_MAGIC,
    TDI_STORE_OTHER_VERSION,
    TDI_STORE_OTHER_LAYOUT,
};

/* Writes the identity of a file that nobody else sees yet. */
void tdi_store_init(struct tdi_layout *file);

/* Makes the file; `fill` gets it with its identity written. Errors of tdi_file_make. */
int tdi_store_make(const char *path, mode_t mode, tdi_file_fill *fill, void *context,
                   struct tdi_layout **file, struct tdi_file_facts *facts);

/* Maps the file if it is a bucket of this layout; -EPROTO with *fault if not. Other errors of tdi_file_map.
 */
int tdi_store_map(const char *path, struct tdi_layout **file, struct tdi_file_facts *facts,
                  enum tdi_store_fault *fault);

/* 0 if the file is a bucket of any version; else as tdi_store_map. */
int tdi_store_recognise(const char *path, enum tdi_store_fault *fault);

void tdi_store_unmap(struct tdi_layout *file);

#endif
