/* SPDX-License-Identifier: MIT */
/*
 * What the wrappers of epoll, poll and select need to know about sockets in debt. A socket is in debt from
 * the moment a call on it was refused, or cut short, for want of tokens, until it is granted them: a place in
 * the buckets' lines is held for it meanwhile, and an event is owed to whoever waits for it.
 *
 * All keep errno, allocate nothing and are signal-safe.
 */
#ifndef TUNDISH_PRELOAD_READY_READY_H
#define TUNDISH_PRELOAD_READY_READY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "inside.h"
#include "ready/helper.h"

#define TDI_NEVER_NS UINT64_MAX

extern _Atomic(uint32_t) tdi_ready_debts; /* sockets in debt */
extern _Atomic(uint32_t) tdi_ready_used;  /* 1: the program has used epoll, poll or select */

/* Whether any socket is in debt: if not, the wrappers pass everything on. */
static inline bool tdi_ready_any(void)
{
    return atomic_load_explicit(&tdi_ready_debts, memory_order_relaxed) != 0;
}

static inline bool tdi_ready_is_used(void)
{
    return atomic_load_explicit(&tdi_ready_used, memory_order_relaxed) != 0;
}

/* Every readiness wrapper notes that it was called: only a program that waits for events can be owed one. */
static inline void tdi_ready_note_use(void)
{
    if (!tdi_ready_is_used())
        atomic_store_explicit(&tdi_ready_used, 1, memory_order_relaxed);
}

/* Those that wait note that too: who is refused again and again without waiting has to be held. */
static inline void tdi_ready_note_wait(void)
{
    tdi_ready_note_use();
    tdi_helper_make_up();
    tdi_inside.waits++;
}

/*
 * Looks after all debts: whoever has been granted its tokens has its events shown again. Returns when the
 * next look is worth while (tundish_now_ns), TDI_NEVER_NS if nothing is owed or the helper thread looks.
 */
uint64_t tdi_ready_serve(void);

/*
 * For poll and select. Of `events` (POLLIN, POLLRDNORM, POLLOUT, POLLWRNORM ...), those that must not be
 * asked of the kernel now, because the socket is in debt for that direction; *due_ns is lowered to when this
 * one may be granted. A socket that has been granted hides nothing.
 */
short tdi_ready_hidden(int fd, short events, uint64_t *due_ns);

/* A descriptor is about to be closed, or another put in its place: debts end, everything is given back. */
void tdi_ready_before_close(int fd);

/*
 * All that was hidden is shown, so that an executed program that inherits an epoll finds it whole. Places in
 * line are left and grants given back: the process lives on, and would seem to hold them. After an exec that
 * failed, which the second is for, all wait anew.
 */
void tdi_ready_before_exec(void);
void tdi_ready_after_exec(void);

#endif
