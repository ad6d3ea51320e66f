/* SPDX-License-Identifier: MIT */
/*
 * Which numbers are epolls, and which of them are one and the same (dup, fcntl). An epoll lives until the
 * last of them is closed, and so do its registrations. All with the lock of ready/lock.h held. errno kept.
 */
#ifndef TUNDISH_PRELOAD_READY_TWINS_H
#define TUNDISH_PRELOAD_READY_TWINS_H

#include <stdbool.h>

/* The number is an epoll's; a new one's. */
void tdi_twins_mark(int epfd);
void tdi_twins_made(int epfd);

/* Another number was made of one that may be an epoll's. */
void tdi_twins_add(int from, int to);

/* The number is closed. Whether it may have been an epoll's; *heir: another of its numbers, -1 for none. */
bool tdi_twins_leave(int fd, int *heir);

/* Those of one epoll as far as they are known: the next one, and in the end `epfd` itself again. */
int tdi_twins_next(int epfd);

/* Whether both numbers are one epoll's. The kernel is asked if it lets itself be asked. */
bool tdi_twins_same(int one, int other);

#endif
