/* SPDX-License-Identifier: MIT */
/*
 * Files as buckets need them: made complete and unseen, opened without being fooled, mapped, no descriptor
 * kept. All functions return 0 or a negative errno and keep errno; none allocates memory.
 */
#ifndef TUNDISH_PLAT_FILE_H
#define TUNDISH_PLAT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tdi_file_facts {
    uint64_t size;
    uint64_t device;
    uint64_t inode;
    bool regular;
};

/* Fills a mapping before anybody else can see it. */
typedef void tdi_file_fill(void *map, void *context);

/*
 * Makes a file of `size` bytes, the first `allocated` of them with memory behind them, with exactly `mode`, lets `fill` write it, and only then gives it
 * its name, which must be free (-EEXIST). *map is the mapping. -ENOSPC instead of a SIGBUS later.
 */
int tdi_file_make(const char *path, size_t size, size_t allocated, mode_t mode, tdi_file_fill *fill,
                  void *context, void **map, struct tdi_file_facts *facts);

/* Maps a regular file of exactly `size` bytes, following no link; else -EPROTO, with the facts filled in. */
int tdi_file_map(const char *path, size_t size, void **map, struct tdi_file_facts *facts);

enum tdi_file_sharing {
    TDI_FILE_WITH_CHILDREN, /* forked children see the same memory */
    TDI_FILE_COPIED,        /* they get a copy */
    TDI_FILE_WIPED,         /* they find zeros, whatever kind of fork it was (Linux >= 4.14, else a copy) */
};

/* Zeroed memory without a file. */
int tdi_file_map_nameless(size_t size, enum tdi_file_sharing sharing, void **map);

/*
 * Gives memory to a part of a mapping that may have none yet, from the start of a page on, and keeps what is in
 * it: 0, or -ENOSPC instead of a SIGBUS later. Signal-safe.
 */
int tdi_file_populate(void *at, size_t size);

void tdi_file_unmap(void *map, size_t size);
int tdi_file_sync(void *map, size_t size);
int tdi_file_unlink(const char *path);

/* Gives the file another name. -EEXIST if there is something at `to`, which then stays. */
int tdi_file_move(const char *from, const char *to);

/* 0 for a directory of our own that nobody else may write to, else -EACCES; made (0700) if asked and missing.
 */
int tdi_file_own_directory(const char *path, bool make);

/* Called for each name in a directory; not 0 ends the walk. */
typedef int tdi_file_visit(const char *directory, const char *name, void *context);

/* Visits all names under an exclusive lock of the directory; -EWOULDBLOCK if somebody else has it. */
int tdi_file_each_locked(const char *directory, tdi_file_visit *visit, void *context);

/* The first len bytes of a regular file, following no link; -EPROTO if it is shorter or not regular. */
int tdi_file_read_head(const char *path, void *buf, size_t len, struct tdi_file_facts *facts);

/* A whole small file as a string; its length or a negative errno. */
ssize_t tdi_file_read_text(const char *path, char *buf, size_t len);

#endif
