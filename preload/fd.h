/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of a descriptor. Nothing is remembered here, see known.h for that. All keep errno and
 * are signal-safe.
 */
#ifndef TUNDISH_PRELOAD_FD_H
#define TUNDISH_PRELOAD_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "policy/policy.h"

/* Whether the kernel could read there: a bad pointer of the program's is to be its EFAULT, not our death. */
bool tdi_fd_readable(const void *at, size_t len);

/* Where something leads to, as rules see it. */
struct tdi_place {
    enum tdi_kind kind;
    uint16_t port; /* host byte order */
    uint8_t address[16];
};

/* What kind of descriptor; false if it is closed. Files are only told apart from others if `files`. */
bool tdi_fd_kind(int fd, bool files, enum tdi_kind *kind);

/* The place of an address the program gave; false if it is none that rules know. */
bool tdi_fd_place_of(const struct sockaddr *address, socklen_t len, struct tdi_place *out);

/* The place of the peer of a connected socket. */
bool tdi_fd_peer(int fd, struct tdi_place *out);

/* SOCK_STREAM and the like, -1 for no socket. */
int tdi_fd_type(int fd);

/* Whether O_NONBLOCK is set. */
bool tdi_fd_nonblocking(int fd);

/* SO_SNDTIMEO or SO_RCVTIMEO, 0 if there is none. */
uint64_t tdi_fd_timeout_ns(int fd, int option);

/* A number that no other socket has or had since boot, and no other open file has; 0 if it cannot be told. */
uint64_t tdi_fd_key(int fd);

/* Both directions are shut: reset, or timed out. POLLERR alone says no such thing, see MSG_ERRQUEUE. */
bool tdi_fd_broken(int fd);

/* Something is to be said of it at once, whatever it is in debt: an error, or a hang-up. */
bool tdi_fd_troubled(int fd);

/* A connect on this TCP socket would go on with a connection that was begun before, or end in its error. */
bool tdi_fd_connect_begun(int fd);

#endif
