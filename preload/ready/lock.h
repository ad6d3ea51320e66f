/* SPDX-License-Identifier: MIT */
/*
 * The lock of everything in ready/. Taken only where a socket is or goes into debt, or is registered. All
 * signals are kept out while it is held, so that a handler that writes does not meet its own thread holding
 * it; nothing sleeps while it is held; and the thread cannot be cancelled.
 */
#ifndef TUNDISH_PRELOAD_READY_LOCK_H
#define TUNDISH_PRELOAD_READY_LOCK_H

#include <signal.h>

struct tdi_ready_lock {
    sigset_t mask;
    int cancel_state;
    int saved_errno;
};

void tdi_ready_lock(struct tdi_ready_lock *lock);
void tdi_ready_unlock(struct tdi_ready_lock *lock);

/* Held over a fork, so that the child finds everything whole. */
void tdi_ready_lock_before_fork(void);
void tdi_ready_unlock_after_fork(void);

#endif
