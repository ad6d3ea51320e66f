/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of a descriptor. Nothing is remembered: numbers are reused behind our back (libuv
 * closes by syscall()), so each call asks again. All keep errno and are signal-safe.
 */
#ifndef TUNDISH_PRELOAD_FD_H
#define TUNDISH_PRELOAD_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the kernel could read there: a bad pointer of the program's is to be its EFAULT, not our death. */
bool tdi_fd_readable(const void *at, size_t len);

/* An AF_INET or AF_INET6 socket: the only descriptors in reach. */
bool tdi_fd_in_reach(int fd);

/* SOCK_STREAM and the like, -1 for no socket. */
int tdi_fd_type(int fd);

/* Whether O_NONBLOCK is set. */
bool tdi_fd_nonblocking(int fd);

/* SO_SNDTIMEO, 0 if there is none. */
uint64_t tdi_fd_send_timeout_ns(int fd);

/* A number that no other socket has or had since boot; 0 if it cannot be told. */
uint64_t tdi_fd_cookie(int fd);

/* Both directions are shut: reset, or timed out. POLLERR alone says no such thing, see MSG_ERRQUEUE. */
bool tdi_fd_broken(int fd);

/* A connect on this TCP socket would go on with a connection that was begun before, or end in its error. */
bool tdi_fd_connect_begun(int fd);

#endif
