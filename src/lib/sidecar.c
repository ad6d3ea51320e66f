/* SPDX-License-Identifier: MIT */
/*
 * The process's own sidecar: registered handles in a table, one thread that looks at them, one lock. The lock is
 * held while a scan is under way, callbacks included, so whoever has it knows that none is; a scanner is known by
 * its thread, so that a callback that comes back here is told instead of waiting for itself.
 *
 * The thread sleeps on a word: 5 ms where tokens are out on lease, which are to come back when they lie idle;
 * longer the longer nothing has happened. Registering wakes it, and so does who takes a lease meanwhile.
 *
 * A forked child has the table but no thread. It finds another process id than the table's, or is told by the
 * fork handler, and begins with an empty table; whatever the parent's threads were doing with it is gone.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tundish/tundish.h>

#include "lib/cancel.h"
#include "lib/lease.h"
#include "lib/observe.h"
#include "lib/registered.h"
#include "lib/sleep.h"
#include "plat/clock.h"
#include "plat/proc.h"
#include "plat/thread.h"

#define HANDLES_MAX 256

#define NS_PER_MS UINT64_C(1000000)
#define TENDING_NS (5 * NS_PER_MS)   /* leases are out */
#define BUSY_NS (20 * NS_PER_MS)     /* something happened since the last look */
#define QUIET_NS (250 * NS_PER_MS)   /* nothing did */
#define ASLEEP_NS (1000 * NS_PER_MS) /* for a while */
#define QUIET_LOOKS 20
#define PATIENCE_AT_EXIT_NS (50 * NS_PER_MS)
#define PATIENCE_TO_UNLOAD_NS TDI_NS_PER_S /* with threads in the middle of an operation */

static struct sidecar {
    pthread_mutex_t lock;
    _Atomic(uint32_t) scanner; /* thread that has it, in a scan */
    _Atomic(uint32_t) pid;     /* whose table this is; 0 nobody's yet */
    _Atomic(bool) stop;
    _Atomic(bool) exits; /* the process does */
    bool has_thread;
    bool has_exit;
    pthread_t thread;
    struct tdi_drainer drainer;
    size_t count; /* registered */
    size_t used;  /* entries from here on were never touched */
    struct tdi_registered entry[HANDLES_MAX];
} sidecar = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&sidecar.lock, &fresh, sizeof fresh);
    memset(sidecar.entry, 0, sidecar.used * sizeof sidecar.entry[0]);
    sidecar.count = sidecar.used = 0;
    sidecar.has_thread = false;
    atomic_store_explicit(&sidecar.scanner, 0, memory_order_relaxed);
    atomic_store_explicit(&sidecar.stop, false, memory_order_relaxed);
    atomic_store_explicit(&sidecar.pid, 0, memory_order_relaxed);
}

/* 0 with the lock held, or -EDEADLK for a callback. */
static int enter(void)
{
    if (atomic_load_explicit(&sidecar.scanner, memory_order_relaxed) == tdi_proc_thread())
        return -EDEADLK;
    uint32_t pid = atomic_load_explicit(&sidecar.pid, memory_order_relaxed);
    if (pid != 0 && pid != tdi_proc_pid()) /* forked in a way that no handler was called for */
        forget();
    pthread_mutex_lock(&sidecar.lock);
    return 0;
}

static struct tdi_registered *find(const struct tundish *bucket)
{
    for (size_t i = 0; i < sidecar.used; i++)
        if (sidecar.entry[i].bucket == bucket)
            return &sidecar.entry[i];
    return NULL;
}

static struct tdi_registered *find_free(void)
{
    struct tdi_registered *entry = find(NULL);
    if (entry || sidecar.used == HANDLES_MAX)
        return entry;
    return &sidecar.entry[sidecar.used++];
}

/* The last records are handed over here: a callback that comes back is told so, as in any scan. */
static void remove_entry(struct tdi_registered *entry)
{
    struct tundish *bucket = entry->bucket;
    atomic_store_explicit(&sidecar.scanner, tdi_proc_thread(), memory_order_relaxed);
    tdi_registered_end(entry);
    atomic_store_explicit(&sidecar.scanner, 0, memory_order_relaxed);
    atomic_store_explicit(&bucket->unregister, NULL, memory_order_relaxed);
    bool closing = entry->closing;
    memset(entry, 0, sizeof *entry);
    sidecar.count--;
    if (closing)
        tundish_close(bucket);
}

/* Before it gives the lock back, whoever had it does what callbacks could not. */
static void leave(void)
{
    for (size_t i = 0; i < sidecar.used; i++)
        if (sidecar.entry[i].closing)
            remove_entry(&sidecar.entry[i]);
    pthread_mutex_unlock(&sidecar.lock);
}

/* With the lock. */
static struct tdi_registered_scan scan(void)
{
    struct tdi_registered_scan found = {0, false, false};
    bool may_switch =
        !atomic_load_explicit(&sidecar.stop, memory_order_relaxed); /* else nobody tends leases */
    atomic_store_explicit(&sidecar.scanner, tdi_proc_thread(), memory_order_relaxed);
    for (size_t i = 0; i < sidecar.used; i++)
        if (sidecar.entry[i].bucket && !sidecar.entry[i].closing)
            tdi_registered_scan(&sidecar.entry[i], may_switch, &found);
    atomic_store_explicit(&sidecar.scanner, 0, memory_order_relaxed);
    return found;
}

static void wake(void)
{
    atomic_fetch_add_explicit(&tdi_lease_bell, 1, memory_order_relaxed);
    tdi_futex_wake_all(&tdi_lease_bell);
}

static void sleep_for(uint32_t bell, uint64_t ns)
{
    struct timespec until = tdi_futex_until(tdi_clock_now_ns() + ns);
    tdi_futex_wait(&tdi_lease_bell, bell, &until);
}

/* Before a long sleep: whoever takes a lease from now on wakes the thread. Whether somebody just did. */
static bool lie_down(void)
{
    bool leased = false;
    tdi_lease_ask_to_be_woken();
    for (size_t i = 0; i < sidecar.used; i++)
        leased |= sidecar.entry[i].bucket && tdi_lease_is_out(sidecar.entry[i].bucket);
    return leased;
}

static uint64_t sleep_after(const struct tdi_registered_scan *found, uint32_t quiet)
{
    if (found->leased || lie_down())
        return TENDING_NS;
    if (found->busy)
        return BUSY_NS;
    if (sidecar.count == 0)
        return UINT64_MAX / 2;
    return quiet < QUIET_LOOKS ? QUIET_NS : ASLEEP_NS;
}

static void *run(void *unused)
{
    uint32_t quiet = 0;
    bool stops;
    (void)unused;
    do {
        uint32_t bell = atomic_load_explicit(&tdi_lease_bell, memory_order_relaxed);
        uint64_t ns = 0;
        pthread_mutex_lock(&sidecar.lock);
        /* With the lock, and after the bell: who stops the thread rings after it had the lock. */
        stops = atomic_load_explicit(&sidecar.stop, memory_order_relaxed);
        if (!stops) {
            struct tdi_registered_scan found = scan();
            quiet = found.busy ? 0 : quiet + 1;
            ns = sleep_after(&found, quiet);
        }
        leave();
        if (!stops)
            sleep_for(bell, ns);
    } while (!stops);
    return NULL;
}

/* ---- registering ---- */

/* A callback may hold the lock for as long as it likes, and the process wants to end. */
static bool try_enter_until(uint64_t until_ns)
{
    if (atomic_load_explicit(&sidecar.scanner, memory_order_relaxed) == tdi_proc_thread())
        return false;
    while (pthread_mutex_trylock(&sidecar.lock) != 0) {
        if (tdi_clock_now_ns() >= until_ns)
            return false;
        tdi_proc_yield();
    }
    return true;
}

static bool is_ours(void)
{
    return atomic_load_explicit(&sidecar.pid, memory_order_relaxed) == tdi_proc_pid();
}

/* The thread ends, tokens go back. With the lock, which it gives back. */
static void stop(uint64_t until_ns)
{
    for (size_t i = 0; i < sidecar.used; i++)
        if (sidecar.entry[i].bucket)
            tdi_registered_return_leases(&sidecar.entry[i], until_ns);
    bool joins = sidecar.has_thread && !pthread_equal(sidecar.thread, pthread_self());
    sidecar.has_thread = false;
    atomic_store_explicit(&sidecar.stop, true, memory_order_relaxed);
    leave();
    wake();
    if (joins)
        pthread_join(sidecar.thread, NULL);
}

static void stop_at_exit(void)
{
    atomic_store_explicit(&sidecar.exits, true, memory_order_relaxed);
    uint64_t until_ns = tdi_clock_now_ns() + PATIENCE_AT_EXIT_NS;
    if (is_ours() && try_enter_until(until_ns))
        stop(until_ns);
}

/*
 * At exit this comes after stop_at_exit; else the library is unloaded, and its code must not be in use: a callback
 * is waited for as long as it takes.
 */
static __attribute__((destructor)) void stop_when_unloaded(void)
{
    if (atomic_load_explicit(&sidecar.exits, memory_order_relaxed) || !is_ours() || enter() != 0)
        return;
    stop(tdi_clock_now_ns() + PATIENCE_TO_UNLOAD_NS);
}

static int start(void)
{
    if (sidecar.has_thread)
        return 0;
    atomic_store_explicit(&sidecar.pid, tdi_proc_pid(), memory_order_relaxed);
    tdi_drainer_init(&sidecar.drainer);
    if (!sidecar.has_exit) {
        pthread_atfork(NULL, NULL, forget);
        atexit(stop_at_exit);
        sidecar.has_exit = true;
    }
    int error = tdi_thread_start(&sidecar.thread, "tundish-sidecar", run);
    sidecar.has_thread = error == 0;
    return error ? -EAGAIN : 0;
}

/* For tundish_close. In a callback the handle is in use: it is closed once the scan is over. */
static int let_go(struct tundish *bucket)
{
    if (atomic_load_explicit(&sidecar.scanner, memory_order_relaxed) != tdi_proc_thread())
        return tundish_sidecar_unregister(bucket);
    struct tdi_registered *entry = find(bucket);
    if (!entry)
        return -ENOENT;
    entry->closing = true;
    entry->policy.decide = NULL;
    entry->policy.observe = NULL;
    return -EINPROGRESS;
}

static int add(struct tundish *bucket, const struct tundish_sidecar_policy *policy)
{
    if (find(bucket))
        return -EALREADY;
    struct tdi_registered *entry = find_free();
    if (!entry)
        return -ENOSPC;
    int error = start(); /* first: it says who takes the records out */
    if (error)
        return error;
    error = tdi_registered_begin(entry, bucket, policy, &sidecar.drainer);
    sidecar.count++;
    if (error) {
        remove_entry(entry);
        return error;
    }
    atomic_store_explicit(&bucket->unregister, let_go, memory_order_relaxed);
    wake();
    return 0;
}

int tundish_sidecar_register(struct tundish *bucket, const struct tundish_sidecar_policy *policy)
{
    if (policy && policy->size != sizeof *policy)
        return -EINVAL;
    int state = tdi_cancel_disable();
    int error = enter();
    if (!error) {
        error = add(bucket, policy);
        leave();
    }
    tdi_cancel_restore(state);
    return error;
}

int tundish_sidecar_unregister(struct tundish *bucket)
{
    int state = tdi_cancel_disable();
    int error = enter();
    if (!error) {
        struct tdi_registered *entry = find(bucket);
        if (entry)
            remove_entry(entry);
        error = entry ? 0 : -ENOENT;
        leave();
    }
    tdi_cancel_restore(state);
    return error;
}

int tundish_sidecar_stats(struct tundish *bucket, struct tundish_sidecar_stats *out)
{
    if (!out || out->size != sizeof *out)
        return -EINVAL;
    int error = enter();
    if (error)
        return error;
    const struct tdi_registered *entry = find(bucket);
    if (entry)
        tdi_registered_stats(entry, out);
    leave();
    return entry ? 0 : -ENOENT;
}

int tundish_sidecar_scan(void)
{
    int state = tdi_cancel_disable();
    int error = enter();
    size_t records = 0;
    if (!error) {
        records = scan().records;
        leave();
    }
    tdi_cancel_restore(state);
    return error ? error : (int)records;
}
