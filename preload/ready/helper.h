/* SPDX-License-Identifier: MIT */
/*
 * The helper thread. A thread that already sits in epoll_wait(-1) when another one's write is refused can
 * only be woken by an event, so somebody has to fire it when its time comes. There is none in a process with
 * one thread, which cannot be in two places, and none before it is needed.
 */
#ifndef TUNDISH_PRELOAD_READY_HELPER_H
#define TUNDISH_PRELOAD_READY_HELPER_H

#include <stdbool.h>

/* Starts it if the process has other threads and none runs yet. Not with the lock held. */
void tdi_helper_want(void);

/* Whether it runs in this process, so that nobody else needs to look after debts in time. */
bool tdi_helper_runs(void);

/* There is something new to look after. */
void tdi_helper_wake(void);

/* In a forked child: it is not there any more. */
void tdi_helper_after_fork(void);

#endif
