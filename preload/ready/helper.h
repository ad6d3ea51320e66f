/* SPDX-License-Identifier: MIT */
/*
 * The helper thread. A thread that already sits in epoll_wait(-1) when another one's write is refused can
 * only be woken by an event, so somebody has to fire it when its time comes. There is none in a process with
 * one thread, which cannot be in two places, and none before it is needed.
 */
#ifndef TUNDISH_PRELOAD_READY_HELPER_H
#define TUNDISH_PRELOAD_READY_HELPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Sees to it that events will be fired, whatever the program's threads do: false if they may not, and then
 * nobody must be owed one. Starts the thread if the process has others and none runs yet, but not where the
 * caller may be a signal handler. Not with the lock held.
 */
bool tdi_helper_ensure(void);

extern _Atomic(uint32_t) tdi_helper_put_off;

/* The slow part of tdi_helper_make_up. */
void tdi_helper_make_up_now(void);

/* The same for a wait for events, which is no place for a signal handler: makes up for what was put off. */
static inline void tdi_helper_make_up(void)
{
    if (atomic_load_explicit(&tdi_helper_put_off, memory_order_relaxed) != 0)
        tdi_helper_make_up_now();
}

/* Whether it runs in this process, so that nobody else needs to look after debts in time. */
bool tdi_helper_runs(void);

/* There is something new to look after. */
void tdi_helper_wake(void);

/* In a forked child: it is not there any more. */
void tdi_helper_after_fork(void);

#endif
