/* SPDX-License-Identifier: MIT */
/* A part of what the program wants to send, as a call of its own. */
#ifndef TUNDISH_PRELOAD_CALLS_PIECES_H
#define TUNDISH_PRELOAD_CALLS_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "gate.h"

#define TDI_IOV_MAX 1024 /* the kernel refuses more */

/* Whether the kernel would get as far as looking at its elements. */
bool tdi_pieces_sound(const struct iovec *iov, size_t count);

/* The bytes of a sound vector; stops at SIZE_MAX. */
size_t tdi_pieces_length(const struct iovec *iov, size_t count);

/* Whether this many bytes written to the descriptor are one record: to a terminal, or few to a pipe. */
bool tdi_pieces_record(int fd, size_t length);

/* Makes one real call for a few elements of the vector, before which `done` bytes of it went out. */
typedef ssize_t tdi_pieces_fn(const struct tdi_call *call, const struct iovec *iov, int count, size_t done);

/* The n bytes from `from` on, in as many calls as it takes; fewer only if the kernel takes fewer. */
ssize_t tdi_pieces_each(const struct tdi_call *call, const struct iovec *iov, size_t count, size_t from,
                        size_t n, tdi_pieces_fn *put);

/*
 * Two of these calls. Both are for stream sockets, where later pieces raise no SIGPIPE: the call as a whole
 * has succeeded in part. The second knows all else that can be written to as well.
 */
tdi_pieces_fn tdi_pieces_send, tdi_pieces_write;

#endif
