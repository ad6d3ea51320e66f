/* SPDX-License-Identifier: MIT */
/*
 * The program's epoll registrations of sockets in reach, as the program made them: what has to be known to
 * owe one of them an event. epoll_ctl(EPOLL_CTL_MOD) with the recorded mask fires one if the socket is ready,
 * for level-triggered, edge-triggered and one-shot registrations, from any thread.
 *
 * How each kind is treated while its socket is in debt for a direction (the bit is EPOLLOUT or EPOLLIN):
 *   level-triggered  the bit is taken out of the kernel's mask, or it would fire for ever, and put back when
 *                    the tokens are there
 *   edge-triggered   is left alone, and modified to the same mask when the tokens are there
 *   one-shot         what was armed before the debt is left alone (one event too many at most)
 *   exclusive        cannot be modified: such a socket is never put in debt
 * What the program adds, modifies or arms during the debt goes without the bit, whatever its kind, and gets
 * it when the tokens are there; but a one-shot that has fired meanwhile is the program's to arm.
 *
 * All functions but tdi_watch_ctl, tdi_watch_fired, tdi_watch_made and tdi_watch_duplicated are called with
 * the lock of ready/lock.h held. Sockets are known by their key (tdi_fd_key): a registration may be under
 * another number than the one that was written to.
 */
#ifndef TUNDISH_PRELOAD_READY_WATCH_H
#define TUNDISH_PRELOAD_READY_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

enum tdi_direction {
    TDI_OUT,
    TDI_IN,
};

/* The program's epoll_ctl: makes the real call, hides what must be hidden, remembers. */
int tdi_watch_ctl(int epfd, int op, int fd, struct epoll_event *event);

/* What an epoll_wait has returned: one-shot registrations among them are spent. Cheap if there are none. */
void tdi_watch_fired(int epfd, const struct epoll_event *events, int count);

/* Registrations of this socket. */
bool tdi_watch_any(uint64_t key);

/* Whether all its registrations can be modified. */
bool tdi_watch_can_owe(uint64_t key);

/* The socket goes into debt, and out of it: the owed event is fired. */
void tdi_watch_hide(uint64_t key, enum tdi_direction direction);
void tdi_watch_show(uint64_t key, enum tdi_direction direction);

/*
 * Before an exec all that is hidden of this socket is told to the kernel, for the program that may inherit
 * the epoll; after one that failed it is hidden again.
 */
void tdi_watch_uncover(uint64_t key);
void tdi_watch_cover(uint64_t key);

/* In a forked child: shows what its parent hid and ended without showing. Whether to ask again. */
bool tdi_watch_adopt(void);

/*
 * The descriptor, a socket or an epoll, is closed in this process: its registrations are gone, or another's.
 */
void tdi_watch_forget(int fd);

/* An epoll was made, and a descriptor duplicated. These two take the lock themselves. */
void tdi_watch_made(int epfd);
void tdi_watch_duplicated(int from, int to);

#endif
