/* SPDX-License-Identifier: MIT */
#include "ready/lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "inside.h"
#include "lib/cancel.h"
#include "lib/sleep.h"
#include "tundish/tundish.h"

enum {
    FREE,
    HELD,
    WANTED
};

#define PATIENCE_NS 10000000UL /* who sleeps here is woken; should that fail, it looks again */

static _Atomic(uint32_t) word;

void tdi_ready_lock(struct tdi_ready_lock *lock)
{
    sigset_t all;
    uint32_t expected = FREE;
    lock->saved_errno = errno;
    lock->cancel_state = tdi_cancel_disable();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &lock->mask);
    tdi_inside.house++;
    if (atomic_compare_exchange_strong_explicit(&word, &expected, HELD, memory_order_acquire,
                                                memory_order_relaxed))
        return;
    /* Pairs with the release in unlock. Marked as wanted, so that the holder wakes somebody. */
    while (atomic_exchange_explicit(&word, WANTED, memory_order_acquire) != FREE) {
        struct timespec until = tdi_futex_until(tundish_now_ns() + PATIENCE_NS);
        (void)tdi_futex_wait(&word, WANTED, &until);
    }
}

void tdi_ready_unlock(struct tdi_ready_lock *lock)
{
    if (atomic_exchange_explicit(&word, FREE, memory_order_release) == WANTED)
        tdi_futex_wake_one(&word);
    tdi_inside.house--;
    pthread_sigmask(SIG_SETMASK, &lock->mask, NULL);
    tdi_cancel_restore(lock->cancel_state);
    errno = lock->saved_errno;
}

static struct tdi_ready_lock forking; /* of whoever holds the lock */

void tdi_ready_lock_before_fork(void)
{
    struct tdi_ready_lock lock;
    tdi_ready_lock(&lock);
    forking = lock;
}

void tdi_ready_unlock_after_fork(void)
{
    struct tdi_ready_lock lock = forking;
    tdi_ready_unlock(&lock);
}
