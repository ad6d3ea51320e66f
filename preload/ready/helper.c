/* SPDX-License-Identifier: MIT */
/*
 * The thread sleeps until the next debt may be granted, or until the bell. It blocks all signals, so none of
 * the program's handlers ever runs on it, and it lives as long as the process.
 *
 * Making a thread allocates. In a signal handler that may have interrupted malloc that would be the end, so
 * it is put off where a signal is blocked that the program has a handler for: that is so in every handler,
 * and in few other places. Until it is made up for, calls that would need the thread wait themselves.
 */
#include "ready/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>

#include "inside.h"
#include "lib/sleep.h"
#include "ready/service.h"
#include "real.h"
#include "signals.h"
#include "tundish/tundish.h"

#define STACK_BYTES ((size_t)256 * 1024) /* room for the static TLS of a large program */
#define NS_PER_MS UINT64_C(1000000)
#define PATIENCE_MS 1000
#define LONGEST_NS UINT64_C(3600000000000)

enum {
    ABSENT,
    STARTING,
    RUNNING
};

static _Atomic(uint32_t) state;
_Atomic(uint32_t) tdi_helper_put_off;
static _Atomic(uint32_t) bell;

static void *look_after(void *unused)
{
    (void)unused;
    tdi_inside.house++;
    (void)tdi_real()->prctl(PR_SET_NAME, (unsigned long)(uintptr_t) "tundish", 0, 0, 0);
    tdi_futex_set_slack(1);
    for (;;) {
        uint32_t rung =
            atomic_load_explicit(&bell, memory_order_acquire); /* before looking: no ring is lost */
        uint64_t due_ns = tdi_service(), last_ns = tundish_now_ns() + LONGEST_NS;
        struct timespec until = tdi_futex_until(due_ns < last_ns ? due_ns : last_ns);
        (void)tdi_futex_wait(&bell, rung, &until);
    }
    return NULL;
}

static bool start(size_t stack_bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_bytes > 0)
        (void)pthread_attr_setstacksize(&attributes, stack_bytes);
    bool started = pthread_create(&thread, &attributes, look_after, NULL) == 0;
    (void)pthread_attr_destroy(&attributes);
    return started;
}

/* Makes the thread if nobody else is at it; else waits for whoever is, which is soon. */
static bool make(void)
{
    uint32_t absent = ABSENT;
    sigset_t all, mask;
    if (!atomic_compare_exchange_strong(&state, &absent, STARTING)) {
        for (int patience = PATIENCE_MS; patience > 0 && atomic_load(&state) == STARTING; patience--) {
            struct timespec until = tdi_futex_until(tundish_now_ns() + NS_PER_MS);
            (void)tdi_futex_wait(&state, STARTING, &until);
        }
        return tdi_helper_runs();
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    tdi_inside.house++;
    bool started = start(STACK_BYTES) || start(0);
    tdi_inside.house--;
    atomic_store(&state, started ? RUNNING : ABSENT);
    tdi_futex_wake_all(&state);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return started;
}

static bool may_be_a_handler(void)
{
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&mask, number) == 1 && tdi_signals_is_caught(number))
            return true;
    return false;
}

bool tdi_helper_ensure(void)
{
    if (__libc_single_threaded || tdi_helper_runs())
        return true;
    if (may_be_a_handler()) {
        atomic_store_explicit(&tdi_helper_put_off, 1, memory_order_relaxed);
        return false;
    }
    return make();
}

void tdi_helper_make_up_now(void)
{
    atomic_store_explicit(&tdi_helper_put_off, 0, memory_order_relaxed);
    (void)make();
}

bool tdi_helper_runs(void)
{
    return atomic_load_explicit(&state, memory_order_relaxed) == RUNNING;
}

void tdi_helper_wake(void)
{
    if (atomic_load_explicit(&state, memory_order_relaxed) == ABSENT)
        return;
    atomic_fetch_add_explicit(&bell, 1, memory_order_release); /* pairs with the acquire in look_after */
    tdi_futex_wake_one(&bell);
}

void tdi_helper_after_fork(void)
{
    atomic_store(&state, ABSENT);
}
