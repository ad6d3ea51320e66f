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
#include "lib/sidecar.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/handshake.h"
#include "core/lease.h"
#include "core/stats.h"
#include "lib/cancel.h"
#include "lib/handle.h"
#include "lib/lease.h"
#include "lib/observe.h"
#include "lib/repair.h"
#include "lib/sleep.h"
#include "plat/clock.h"
#include "plat/proc.h"
#include "plat/thread.h"

#define HANDLES_MAX 256
#define RECORDS_MAX 256 /* taken out at a time */

#define NS_PER_MS UINT64_C(1000000)
#define TENDING_NS (5 * NS_PER_MS)   /* leases are out */
#define BUSY_NS (20 * NS_PER_MS)     /* something happened since the last look */
#define QUIET_NS (250 * NS_PER_MS)   /* nothing did */
#define ASLEEP_NS (1000 * NS_PER_MS) /* for a while */
#define QUIET_LOOKS 20
#define PATIENCE_NS TDI_NS_PER_S /* with a thread in the middle of an operation ... */
#define PATIENCE_AT_EXIT_NS (50 * NS_PER_MS)

struct entry {
    struct tundish *bucket; /* NULL: free */
    struct tundish_sidecar_policy policy;
    struct tdi_sidecar_mood mood;
    struct tdi_stats before; /* at the scan before */
    uint64_t before_ns;
    uint64_t observed, scans, switches;
    uint32_t wanted; /* strategy */
    bool ours;       /* the instance's records are taken out here */
    struct tundish_sidecar_stats stats;
};

static struct sidecar {
    pthread_mutex_t lock;
    _Atomic(uint32_t) scanner; /* thread that has it, in a scan */
    _Atomic(uint32_t) pid;     /* whose table this is; 0 nobody's yet */
    _Atomic(bool) stop;
    bool has_thread;
    bool has_exit;
    pthread_t thread;
    struct tdi_drainer drainer;
    size_t count; /* registered */
    size_t used;  /* entries from here on were never touched */
    struct entry entry[HANDLES_MAX];
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

static void leave(void)
{
    pthread_mutex_unlock(&sidecar.lock);
}

static struct entry *find(const struct tundish *bucket)
{
    for (size_t i = 0; i < sidecar.used; i++)
        if (sidecar.entry[i].bucket == bucket)
            return &sidecar.entry[i];
    return NULL;
}

static struct entry *find_free(void)
{
    struct entry *entry = find(NULL);
    if (entry || sidecar.used == HANDLES_MAX)
        return entry;
    return &sidecar.entry[sidecar.used++];
}

/* ---- one instance ---- */

static struct tdi_layout_account *account_of(const struct tundish *bucket)
{
    return atomic_load_explicit(&bucket->here->account, memory_order_relaxed);
}

/* What was counted since the handle was opened; a handle without a place counts for itself from 0. */
static void read_counts(struct tundish *bucket, struct tdi_stats *out)
{
    struct tdi_layout_account *account = account_of(bucket);
    memset(out, 0, sizeof *out);
    if (account == &bucket->here->own)
        tdi_stats_add_place(account, out);
    else if (account)
        tdi_stats_read_owner(account, bucket->here->instance.owner, out);
}

/* Stripes on which something was granted or refused since; the bell of who is at it. */
static uint32_t count_threads(struct tundish *bucket)
{
    struct tdi_layout_account *account = account_of(bucket);
    uint32_t threads = 0;
    for (uint32_t i = 0; account && i < TDI_LAYOUT_STRIPES; i++) {
        uint64_t operations = tdi_stats_stripe_operations(&account->stripe[i]);
        threads += operations != bucket->here->thread[i].operations;
        bucket->here->thread[i].operations = operations;
    }
    return threads;
}

static void fill_totals(const struct entry *entry, const struct tdi_stats *now,
                        struct tundish_sidecar_stats *out)
{
    struct tdi_layout_account *account = account_of(entry->bucket);
    out->size = sizeof *out;
    out->granted = tdi_stats_all(now, TDI_COUNT_GRANTED);
    out->refused = tdi_stats_all(now, TDI_COUNT_REFUSED);
    out->ended = tdi_stats_all(now, TDI_COUNT_ENDED);
    out->tokens = tdi_stats_all(now, TDI_COUNT_TOKENS);
    out->released = now->sum[TDI_SUM_RELEASED];
    out->waited_ns = now->sum[TDI_SUM_WAITED_NS] + now->sum[TDI_SUM_ENDED_NS];
    out->wait_p50_ns = tdi_stats_wait_quantile_ns(now->waits, 0.5);
    out->wait_p99_ns = tdi_stats_wait_quantile_ns(now->waits, 0.99);
    out->retries = now->sum[TDI_SUM_RETRIES];
    out->dropped = now->sum[TDI_SUM_DROPPED];
    out->observed = entry->observed;
    out->scans = entry->scans;
    out->switches = entry->switches;
    out->strategy = account ? tdi_handshake_strategy(account) : TUNDISH_DIRECT;
    out->generation = account ? tdi_handshake_generation(account) : 0;
    out->leased_tokens = tdi_lease_tokens(entry->bucket);
}

/* Looks at the counts; whether anything was done since the last time. */
static bool look(struct entry *entry)
{
    struct tdi_stats now, span;
    uint64_t now_ns = tdi_clock_now_ns();
    read_counts(entry->bucket, &now);
    span = now;
    tdi_stats_subtract(&span, &entry->before);
    entry->scans++;
    struct tundish_sidecar_stats *stats = &entry->stats;
    fill_totals(entry, &now, stats);
    stats->threads = count_threads(entry->bucket);
    stats->span_ns = now_ns - entry->before_ns;
    stats->span_granted = tdi_stats_all(&span, TDI_COUNT_GRANTED);
    stats->span_refused = tdi_stats_all(&span, TDI_COUNT_REFUSED);
    stats->span_retries = span.sum[TDI_SUM_RETRIES];
    entry->before = now;
    entry->before_ns = now_ns;
    return stats->span_granted + stats->span_refused + tdi_stats_all(&span, TDI_COUNT_ENDED) > 0;
}

int tdi_sidecar_decide(const struct tundish_sidecar_stats *stats, struct tdi_sidecar_mood *mood)
{
    uint64_t operations = stats->span_granted + stats->span_refused;
    bool fast = (double)operations * 1e9 > TDI_SIDECAR_BUSY_PER_S * (double)stats->span_ns;
    bool plenty = stats->span_refused < operations / 16;
    bool leased = stats->strategy == TUNDISH_LEASED;
    /* With leases nobody loses the word any more: what is left to tell a crowd by is the number of threads. */
    bool crowd = leased ? stats->threads > 1 : stats->span_retries * TDI_SIDECAR_CONTENDED > operations;
    bool wanted = fast && plenty && crowd;
    mood->crowded = wanted ? mood->crowded + 1 : 0;
    mood->calm = wanted ? 0 : mood->calm + 1;
    mood->calm_ns = wanted ? 0 : mood->calm_ns + stats->span_ns;
    if (!leased && mood->crowded >= TDI_SIDECAR_IN_A_ROW)
        return TUNDISH_LEASED;
    if (leased && mood->calm >= TDI_SIDECAR_IN_A_ROW && mood->calm_ns >= TDI_SIDECAR_CALM_NS)
        return TUNDISH_DIRECT;
    return -1;
}

static void put_in_force(struct entry *entry)
{
    bool ends = atomic_load_explicit(&sidecar.stop, memory_order_relaxed); /* nobody would tend the leases */
    if (ends || entry->wanted == entry->stats.strategy)
        return;
    int error = tdi_lease_switch(entry->bucket, entry->wanted);
    if (error == 0 || error == -EAGAIN) { /* in force; what could not be taken back yet is tended */
        entry->switches++;
        memset(&entry->mood, 0, sizeof entry->mood);
    }
}

static void decide(struct entry *entry)
{
    int wanted = entry->policy.decide
                     ? entry->policy.decide(entry->bucket, &entry->stats, entry->policy.context)
                     : tdi_sidecar_decide(&entry->stats, &entry->mood);
    if (wanted >= 0)
        entry->wanted = (uint32_t)wanted;
    put_in_force(entry);
}

static void hand_over(struct entry *entry, const struct tdi_observation *records, size_t count)
{
    struct tundish_observation out[RECORDS_MAX];
    for (size_t i = 0; i < count; i++)
        out[i] = (struct tundish_observation){
            .at_ns = tdi_handle_ns(entry->bucket, records[i].at_us),
            .wait_ns = records[i].wait_ns,
            .tokens = records[i].tokens,
            .thread = records[i].thread,
            .kind = records[i].kind,
            .error = records[i].error,
        };
    entry->policy.observe(entry->bucket, out, count, entry->policy.context);
}

/*
 * Takes charge of the records, if any are wanted. Each time: another drainer may have been at it, or have taken us,
 * who were stopped, for dead.
 */
static int attend(struct entry *entry)
{
    entry->ours = false;
    const struct tdi_layout_account *account = account_of(entry->bucket);
    if (entry->policy.every == 0 || !account || account == &entry->bucket->here->own)
        return 0;
    int error = tdi_drainer_attend(&sidecar.drainer, entry->bucket, entry->bucket->here->instance.index,
                                   entry->policy.every);
    entry->ours = error == 0;
    return error == -ENOSPC ? error : 0;
}

/* Takes the records out: how many. */
static size_t drain(struct entry *entry)
{
    struct tdi_observation records[RECORDS_MAX];
    uint32_t index = entry->bucket->here->instance.index;
    size_t count, all = 0;
    if (attend(entry) != 0 || !entry->ours)
        return 0;
    do {
        count = tdi_drainer_drain(&sidecar.drainer, entry->bucket, index, records, RECORDS_MAX);
        if (count > 0 && entry->policy.observe)
            hand_over(entry, records, count);
        all += count;
    } while (count == RECORDS_MAX && all < TDI_LAYOUT_STRIPES * TDI_LAYOUT_OBSERVATIONS);
    entry->observed += all;
    return all;
}

/* ---- all of them ---- */

struct finding {
    size_t records;
    bool busy;
    bool leased;
};

static void scan_entry(struct entry *entry, struct finding *out)
{
    size_t records = drain(entry);
    bool done = look(entry);
    out->records += records;
    out->busy |= done || records > 0;
    if (done)
        decide(entry);
    else if (entry->stats.strategy != TUNDISH_DIRECT && !entry->policy.decide)
        decide(entry); /* doing nothing speaks for going back */
    else
        put_in_force(entry); /* it may have been impossible the last time */
    out->leased |= tdi_lease_tend(entry->bucket);
    if (tdi_lease_any(entry->bucket->file))
        tdi_repair_lessees(entry->bucket, &sidecar.drainer.self);
}

/* With the lock. */
static struct finding scan(void)
{
    struct finding found = {0, false, false};
    atomic_store_explicit(&sidecar.scanner, tdi_proc_thread(), memory_order_relaxed);
    for (size_t i = 0; i < sidecar.used; i++)
        if (sidecar.entry[i].bucket)
            scan_entry(&sidecar.entry[i], &found);
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

static uint64_t sleep_after(const struct finding *found, uint32_t quiet)
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
            struct finding found = scan();
            quiet = found.busy ? 0 : quiet + 1;
            ns = sleep_after(&found, quiet);
        }
        pthread_mutex_unlock(&sidecar.lock);
        if (!stops)
            sleep_for(bell, ns);
    } while (!stops);
    return NULL;
}

/* ---- registering ---- */

/* Operations take nanoseconds; one that a signal handler jumped out of never ends, and its lease is lost. */
static void return_leases(struct tundish *bucket, uint64_t until_ns)
{
    while (tdi_lease_switch(bucket, TUNDISH_DIRECT) == -EAGAIN && tdi_clock_now_ns() < until_ns)
        tdi_proc_yield();
}

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

/* At exit, and when the library is unloaded: the thread ends, tokens go back. */
static void stop(void)
{
    uint64_t until_ns = tdi_clock_now_ns() + PATIENCE_AT_EXIT_NS;
    if (atomic_load_explicit(&sidecar.pid, memory_order_relaxed) != tdi_proc_pid() ||
        !try_enter_until(until_ns))
        return;
    for (size_t i = 0; i < sidecar.used; i++)
        if (sidecar.entry[i].bucket)
            return_leases(sidecar.entry[i].bucket, until_ns);
    bool joins = sidecar.has_thread && !pthread_equal(sidecar.thread, pthread_self());
    sidecar.has_thread = false;
    atomic_store_explicit(&sidecar.stop, true, memory_order_relaxed);
    leave();
    wake();
    if (joins)
        pthread_join(sidecar.thread, NULL);
}

static int start(void)
{
    if (sidecar.has_thread)
        return 0;
    atomic_store_explicit(&sidecar.pid, tdi_proc_pid(), memory_order_relaxed);
    tdi_drainer_init(&sidecar.drainer);
    if (!sidecar.has_exit) {
        pthread_atfork(NULL, NULL, forget);
        atexit(stop);
        sidecar.has_exit = true;
    }
    int error = tdi_thread_start(&sidecar.thread, "tundish-sidecar", run);
    sidecar.has_thread = error == 0;
    return error ? -EAGAIN : 0;
}

/* The last records are handed over here: a callback that comes back is told so, as in any scan. */
static void drain_in_scan(struct entry *entry)
{
    atomic_store_explicit(&sidecar.scanner, tdi_proc_thread(), memory_order_relaxed);
    drain(entry);
    atomic_store_explicit(&sidecar.scanner, 0, memory_order_relaxed);
}

static void remove_entry(struct entry *entry)
{
    struct tundish *bucket = entry->bucket;
    return_leases(bucket, tdi_clock_now_ns() + PATIENCE_NS);
    if (entry->ours) {
        drain_in_scan(entry);
        tdi_drainer_leave(&sidecar.drainer, bucket, bucket->here->instance.index);
    }
    atomic_store_explicit(&bucket->unregister, NULL, memory_order_relaxed);
    memset(entry, 0, sizeof *entry);
    sidecar.count--;
}

static int add(struct tundish *bucket, const struct tundish_sidecar_policy *policy)
{
    if (find(bucket))
        return -EALREADY;
    struct entry *entry = find_free();
    if (!entry)
        return -ENOSPC;
    tdi_handle_enter(bucket);
    *entry = (struct entry){.bucket = bucket, .before_ns = tdi_clock_now_ns()};
    if (policy)
        entry->policy = *policy;
    sidecar.count++;
    read_counts(bucket, &entry->before);
    (void)count_threads(bucket);
    int error = start(); /* first: it says who takes the records out */
    if (!error)
        error = attend(entry);
    if (error) {
        remove_entry(entry);
        return error;
    }
    atomic_store_explicit(&bucket->unregister, tundish_sidecar_unregister, memory_order_relaxed);
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
        struct entry *entry = find(bucket);
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
    struct tdi_stats now;
    if (!out || out->size != sizeof *out)
        return -EINVAL;
    int error = enter();
    if (error)
        return error;
    const struct entry *entry = find(bucket);
    if (entry) {
        *out = entry->stats; /* the span is the last scan's */
        read_counts(bucket, &now);
        fill_totals(entry, &now, out);
    }
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
