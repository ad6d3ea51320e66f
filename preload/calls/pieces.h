/* SPDX-License-Identifier: MIT */
/* A part of what the program wants to send, as a call of its own. */
#ifndef TUNDISH_PRELOAD_CALLS_PIECES_H
#define TUNDISH_PRELOAD_CALLS_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define TDI_IOV_MAX 1024 /* the kernel refuses more */

/* Whether the kernel would get as far as looking at its elements. */
bool tdi_pieces_sound(const struct iovec *iov, size_t count);

/* The bytes of a sound vector; stops at SIZE_MAX. */
size_t tdi_pieces_length(const struct iovec *iov, size_t count);

/*
 * Sends n bytes from `from` on to a connected stream socket; fewer only if the kernel takes fewer. Later
 * pieces (from > 0) raise no SIGPIPE: the call as a whole has succeeded in part.
 */
ssize_t tdi_pieces_send(int fd, const struct iovec *iov, size_t count, int flags, size_t from, size_t n);

#endif
