/* SPDX-License-Identifier: MIT */
/* Leases: no token is lost or minted by them, the bucket's promise holds with them, and they come back. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/lease.h"
#include "lib/lease.h"
#include "lib/observe.h"
#include "proc/history.h"
#include "proc/proc.h"

#define STILL 2000000000
#define INITIAL 1900000000
#define CAPACITY 1000000 /* leases of TDI_LEASE_MAX each */
#define THREADS_MOST 16
#define BACK_NS (200 * KIT_MILLISECOND) /* 10 ms and a look, on a loaded machine */

#ifndef SIGEV_THREAD_ID
#define SIGEV_THREAD_ID 4
#endif
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#ifdef __SANITIZE_THREAD__
#define HAS_THREAD_SANITIZER 1
#else
#define HAS_THREAD_SANITIZER 0
#endif

struct stage {
    struct tundish *bucket;
    struct kit_barrier barrier;
    atomic_int over;
    atomic_int rests; /* threads take a break */
    atomic_ulong granted[THREADS_MOST];
    atomic_ulong handler_granted;
    struct history history[4];
};

struct thread {
    struct stage *stage;
    unsigned index;
    pthread_t id;
};

static struct stage *new_stage(struct tundish *bucket)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    stage->bucket = bucket;
    return stage;
}

static void start(struct stage *stage, struct thread *threads, unsigned count, void *(*run)(void *))
{
    for (unsigned i = 0; i < count; i++) {
        threads[i] = (struct thread){.stage = stage, .index = i};
        kit_expect(pthread_create(&threads[i].id, NULL, run, &threads[i]) == 0, "no thread");
    }
}

static void join(struct thread *threads, unsigned count)
{
    atomic_store(&threads[0].stage->over, 1);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
    atomic_store(&threads[0].stage->over, 0);
}

static uint64_t granted_in_all(const struct stage *stage)
{
    uint64_t all = atomic_load(&stage->handler_granted);
    for (unsigned i = 0; i < THREADS_MOST; i++)
        all += atomic_load(&stage->granted[i]);
    return all;
}

/* ---- the strategy, on demand ---- */

static int answer(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    (void)bucket;
    (void)stats;
    return *(const int *)context;
}

static int alternate(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    (void)bucket;
    (void)context;
    return stats->strategy == TUNDISH_DIRECT ? TUNDISH_LEASED : TUNDISH_DIRECT;
}

static void add(struct tundish *bucket, struct tundish_sidecar_policy policy)
{
    policy.size = sizeof policy;
    int error = tundish_sidecar_register(bucket, &policy);
    kit_expect(error == 0, "register: %s", tundish_strerror(error));
}

static struct tundish_sidecar_stats stats_of(struct tundish *bucket)
{
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    int error = tundish_sidecar_stats(bucket, &stats);
    kit_expect(error == 0, "stats: %s", tundish_strerror(error));
    return stats;
}

static void take(struct tundish *bucket, uint32_t n)
{
    int error = tundish_try_acquire(bucket, n);
    kit_expect(error == 0, "%u tokens: %s", n, tundish_strerror(error));
}

static void scan(void)
{
    kit_expect(tundish_sidecar_scan() >= 0, "scan");
}

static void unregister(struct tundish *bucket)
{
    int error = tundish_sidecar_unregister(bucket);
    kit_expect(error == 0, "unregister: %s", tundish_strerror(error));
}

/* From now on its threads lease. Where the kernel has no barrier nobody does. */
static void lease(struct tundish *bucket)
{
    static int leased = TUNDISH_LEASED;
    add(bucket, (struct tundish_sidecar_policy){.decide = answer, .context = &leased});
    take(bucket, 1);
    scan();
    kit_expect(stats_of(bucket).strategy == TUNDISH_LEASED, "no leases");
}

/* The calling thread has a lease when this returns. Another acquire's word may be in the way for a moment. */
static void take_lease(struct tundish *bucket)
{
    uint64_t end_ns = kit_now_ns() + 10 * KIT_SECOND;
    uint32_t out = tdi_lease_tokens(bucket);
    while (tdi_lease_tokens(bucket) <= out) {
        kit_expect(kit_now_ns() < end_ns, "no lease");
        take(bucket, 1);
    }
}

static bool is_whole(struct tundish *bucket, uint32_t tokens, uint64_t within_ns)
{
    uint64_t end_ns = kit_now_ns() + within_ns;
    while (tundish_available(bucket) != tokens) {
        if (kit_now_ns() > end_ns)
            return false;
        kit_sleep_ns(KIT_MILLISECOND);
    }
    return true;
}

/* ---- exact ---- */

static void *take_singly(void *argument)
{
    struct thread *thread = argument;
    struct stage *stage = thread->stage;
    while (!atomic_load(&stage->over)) {
        if (tundish_try_acquire(stage->bucket, 1) == 0)
            atomic_fetch_add(&stage->granted[thread->index], 1);
        if (atomic_load(&stage->rests))
            kit_sleep_ns(KIT_MILLISECOND);
    }
    return NULL;
}

/* Bursts of a few tokens each, and pauses in which leases are taken back. */
static void *take_in_bursts(void *argument)
{
    struct thread *thread = argument;
    struct stage *stage = thread->stage;
    uint32_t random = thread->index + 1;
    while (!atomic_load(&stage->over)) {
        for (unsigned i = proc_random(&random, 20000); i > 0; i--) {
            uint32_t n = 1 + proc_random(&random, 3);
            if (tundish_try_acquire(stage->bucket, n) == 0)
                atomic_fetch_add(&stage->granted[thread->index], n);
        }
        kit_sleep_ns(proc_random(&random, 3) * 5 * KIT_MILLISECOND);
    }
    return NULL;
}

#define SWITCHES 1000

static void switch_often(struct stage *stage, unsigned most)
{
    uint64_t end_ns = kit_now_ns() + 60 * KIT_SECOND;
    while (stats_of(stage->bucket).switches < most && kit_now_ns() < end_ns)
        scan();
    ck_assert_uint_ge(stats_of(stage->bucket).switches, most);
}

START_TEST(no_token_is_lost_or_minted_by_a_thousand_switches)
{
    struct tundish_options options = proc_still_options(STILL, INITIAL);
    struct stage *stage = new_stage(proc_create_private(&options));
    struct thread threads[4];
    add(stage->bucket, (struct tundish_sidecar_policy){.decide = alternate});
    start(stage, threads, 4, take_in_bursts);
    switch_often(stage, SWITCHES);
    join(threads, 4);
    unregister(stage->bucket);
    ck_assert_uint_eq(tundish_available(stage->bucket) + granted_in_all(stage), INITIAL);
    tundish_close(stage->bucket);
}
END_TEST

START_TEST(what_falls_due_is_exact_too)
{
    struct promise promise = {.capacity = 2000000000, .refill = 10000000, .interval_us = 1000000};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    options.initial = 1000000000;
    struct stage *stage = new_stage(proc_create_private(&options));
    struct thread threads[3];
    add(stage->bucket, (struct tundish_sidecar_policy){.decide = alternate});
    start(stage, threads, 3, take_in_bursts);
    switch_often(stage, SWITCHES / 4);
    join(threads, 3);
    unregister(stage->bucket);
    uint64_t least = history_due_until(stage->bucket, &promise, tundish_now_ns());
    uint64_t total = tundish_available(stage->bucket) + granted_in_all(stage) - options.initial;
    uint64_t most = history_due_until(stage->bucket, &promise, tundish_now_ns());
    kit_expect(least <= total && total <= most, "%llu tokens, %llu to %llu were due",
               (unsigned long long)total, (unsigned long long)least, (unsigned long long)most);
    tundish_close(stage->bucket);
}
END_TEST

/* Until it is killed, with leases or without. */
static int take_until_killed(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct tundish *bucket = proc_open("ledger");
    if (index % 2 == 1)
        lease(bucket);
    kit_barrier_wait(&stage->barrier);
    for (;;)
        (void)tundish_try_acquire(bucket, 1);
    return 0;
}

static uint64_t counted_in_file(struct tundish *bucket)
{
    struct tdi_stats stats;
    tdi_observe_total(bucket, &stats);
    return tdi_stats_all(&stats, TDI_COUNT_TOKENS);
}

/*
 * A token that was taken and not counted yet when its process was killed is missing in the count: one for each, and
 * what was on lease. None is ever too many.
 */
static void keep_ledger(unsigned each, unsigned kills, uint64_t lost_each)
{
    struct tundish_options options = proc_still_options(STILL, INITIAL);
    struct stage *stage = new_stage(proc_create("ledger", &options));
    struct thread threads[2];
    add(stage->bucket, (struct tundish_sidecar_policy){.decide = alternate});
    start(stage, threads, 2, take_in_bursts);
    for (unsigned i = 0; i < kills; i++) {
        kit_barrier_init(&stage->barrier, each + 1);
        struct kit_children *children = kit_spawn(each, take_until_killed, stage);
        kit_barrier_wait(&stage->barrier);
        kit_sleep_ns(i % 4 * KIT_MILLISECOND);
        scan();
        for (unsigned child = 0; child < each; child++)
            kit_child_kill(children, child);
        kit_collect(children, 30 * KIT_SECOND);
    }
    join(threads, 2);
    unregister(stage->bucket);
    uint64_t left = tundish_available(stage->bucket), counted = counted_in_file(stage->bucket);
    kit_expect(counted >= granted_in_all(stage), "less counted than granted");
    kit_expect(left + counted <= INITIAL, "%llu tokens minted",
               (unsigned long long)(left + counted - INITIAL));
    kit_expect(INITIAL - left - counted <= kills * lost_each, "%llu tokens lost",
               (unsigned long long)(INITIAL - left - counted));
    tundish_close(stage->bucket);
    ck_assert_int_eq(tundish_unlink("ledger"), 0);
}

START_TEST(processes_that_are_killed_take_no_more_than_they_had)
{
    keep_ledger(1, 60, 1);
}
END_TEST

START_TEST(a_killed_lessee_loses_its_leases_and_no_more)
{
    keep_ledger(2, 30, 1 + 1 + TDI_LEASE_MAX);
}
END_TEST

START_TEST(more_threads_than_stripes_are_exact_too)
{
    struct tundish_options options = proc_still_options(STILL, INITIAL);
    struct stage *stage = new_stage(proc_create_private(&options));
    struct thread threads[12];
    add(stage->bucket, (struct tundish_sidecar_policy){.decide = alternate});
    for (unsigned round = 0; round < 3; round++) { /* and others after them */
        start(stage, threads, 12, take_in_bursts);
        switch_often(stage, (round + 1) * 50);
        join(threads, 12);
    }
    unregister(stage->bucket);
    ck_assert_uint_eq(tundish_available(stage->bucket) + granted_in_all(stage), INITIAL);
    tundish_close(stage->bucket);
}
END_TEST

/* ---- signal handlers ---- */

static struct stage *stormy;

static void take_in_handler(int signal)
{
    (void)signal;
    for (unsigned i = 0; i < 3; i++)
        if (tundish_try_acquire(stormy->bucket, 7) == 0)
            atomic_fetch_add(&stormy->handler_granted, 7);
}

static void *take_in_a_storm(void *argument)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    timer_t timer;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    kit_expect(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "no timer");
    kit_expect(timer_settime(timer, 0, &often, NULL) == 0, "no timer");
    take_singly(argument);
    timer_settime(timer, 0, &never, NULL);
    timer_delete(timer);
    return NULL;
}

START_TEST(signal_handlers_spend_from_the_same_lease)
{
    struct tundish_options options = proc_still_options(STILL, INITIAL);
    struct stage *stage = new_stage(proc_create_private(&options));
    struct sigaction action = {.sa_handler = take_in_handler, .sa_flags = SA_RESTART};
    struct thread threads[2];
    stormy = stage;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    lease(stage->bucket);
    start(stage, threads, 2, take_in_a_storm);
    kit_sleep_ns(KIT_SECOND);
    join(threads, 2);
    ck_assert_uint_gt(atomic_load(&stage->handler_granted), 0);
    unregister(stage->bucket);
    add(stage->bucket, (struct tundish_sidecar_policy){.decide = alternate});
    start(stage, threads, 2, take_in_a_storm);
    switch_often(stage, 100);
    join(threads, 2);
    unregister(stage->bucket);
    ck_assert_uint_eq(tundish_available(stage->bucket) + granted_in_all(stage) + 1, INITIAL);
    tundish_close(stage->bucket);
}
END_TEST

/* ---- the promise ---- */

static void *ask_in_bursts(void *argument)
{
    struct thread *thread = argument;
    struct stage *stage = thread->stage;
    struct history *history = &stage->history[thread->index];
    uint32_t random = thread->index + 1;
    while (!atomic_load(&stage->over) && !history->full) {
        for (unsigned i = proc_random(&random, 3000); i > 0 && !history->full; i--)
            history_try(history, stage->bucket, 1 + proc_random(&random, 3));
        if (proc_random(&random, 4) == 0)
            kit_sleep_ns(50 * KIT_MILLISECOND);
    }
    return NULL;
}

START_TEST(in_no_window_more_is_granted_than_was_promised)
{
    static int leased = TUNDISH_LEASED;
    struct promise promise = {.capacity = 20000, .refill = 200000, .interval_us = 1000000};
    struct tundish_options options = proc_options(promise.capacity, promise.refill, promise.interval_us);
    struct stage *stage = new_stage(proc_create_private(&options));
    struct thread threads[3];
    add(stage->bucket,
        (struct tundish_sidecar_policy){.decide = _i == 0 ? answer : alternate, .context = &leased});
    start(stage, threads, 3, ask_in_bursts);
    for (unsigned i = 0; i < 200; i++) {
        scan();
        kit_sleep_ns(5 * KIT_MILLISECOND);
    }
    join(threads, 3);
    ck_assert_uint_gt(stats_of(stage->bucket).switches, 0);
    history_check(stage->bucket, stage->history, 3, &promise);
    tundish_close(stage->bucket);
}
END_TEST

/* Everything falls due long before, and is only counted when somebody looks. */
START_TEST(what_was_held_back_is_not_due_once_the_lease_is_spent)
{
    struct tundish_options options = proc_options(CAPACITY, 10000, 1000000);
    struct tundish *bucket = proc_create_private(&options);
    lease(bucket);
    take_lease(bucket);
    uint64_t end_ns = kit_now_ns() + 300 * KIT_MILLISECOND;
    while (kit_now_ns() < end_ns) {
        take(bucket, 1);
        kit_sleep_ns(2 * KIT_MILLISECOND);
    }
    uint64_t began_ns = kit_now_ns();
    uint32_t spent = tdi_lease_tokens(bucket);
    if (spent > 0)
        take(bucket, spent);
    unregister(bucket);
    uint64_t there = tundish_available(bucket);
    uint64_t due = (kit_now_ns() - began_ns) / 100000 + 1;
    kit_expect(spent + there <= CAPACITY + due, "%u and %llu tokens at once", spent,
               (unsigned long long)there);
    tundish_close(bucket);
}
END_TEST

/* Soon: what is taken every other moment is not idle, and would last longer. */
static void expect_leases(struct tundish *bucket, uint32_t most)
{
    uint64_t end_ns = kit_now_ns() + BACK_NS;
    while (tdi_lease_tokens(bucket) > most && kit_now_ns() < end_ns)
        kit_sleep_ns(KIT_MILLISECOND);
    ck_assert_uint_le(tdi_lease_tokens(bucket), most);
}

START_TEST(a_smaller_capacity_means_smaller_leases)
{
    struct tundish_options options = proc_still_options(CAPACITY, CAPACITY);
    struct tundish_options smaller = proc_still_options(20000, 20000);
    struct tundish_options small = proc_still_options(100, 100);
    struct stage *stage = new_stage(proc_create_private(&options));
    struct thread threads[2];
    lease(stage->bucket);
    atomic_store(&stage->rests, 1);
    start(stage, threads, 2, take_singly);
    take_lease(stage->bucket);
    ck_assert_int_eq(tundish_configure(stage->bucket, &smaller), 0);
    expect_leases(stage->bucket, tdi_lease_share(20000));
    ck_assert_int_eq(tundish_configure(stage->bucket, &small), 0);
    expect_leases(stage->bucket, 0);
    join(threads, 2);
    tundish_close(stage->bucket);
}
END_TEST

START_TEST(while_one_thread_leases_the_rest_can_be_had)
{
    struct tundish_options options = proc_still_options(CAPACITY, CAPACITY);
    struct tundish *bucket = proc_create_private(&options);
    lease(bucket);
    tundish_reset(bucket);
    take_lease(bucket);
    tundish_reset(bucket);
    take(bucket, CAPACITY - CAPACITY / TDI_LEASE_PART);
    tundish_close(bucket);
}
END_TEST

START_TEST(a_bucket_too_small_for_leases_stays_direct)
{
    static int leased = TUNDISH_LEASED;
    struct tundish_options options = proc_still_options(1000, 1000);
    struct tundish *bucket = proc_create_private(&options);
    add(bucket, (struct tundish_sidecar_policy){.decide = answer, .context = &leased});
    for (unsigned i = 0; i < 20; i++) {
        take(bucket, 1);
        scan();
    }
    struct tundish_sidecar_stats stats = stats_of(bucket);
    ck_assert_uint_eq(stats.strategy, TUNDISH_DIRECT);
    ck_assert_uint_eq(stats.switches, 0);
    ck_assert_uint_eq(stats.leased_tokens, 0);
    ck_assert_uint_eq(tundish_available(bucket), 980);
    tundish_close(bucket);
}
END_TEST

/* ---- back again ---- */

/* Full before anything was taken; refills 1 % in a millisecond. */
static struct tundish *new_full(const char *name)
{
    struct tundish_options options = proc_options(CAPACITY, 10000000, 1000000);
    return name ? proc_create(name, &options) : proc_create_private(&options);
}

START_TEST(what_lies_idle_comes_back)
{
    struct tundish *bucket = new_full(NULL);
    lease(bucket);
    for (unsigned i = 0; i < 8; i++) {
        take_lease(bucket);
        ck_assert_uint_gt(tdi_lease_tokens(bucket), 0);
        kit_expect(is_whole(bucket, CAPACITY, BACK_NS), "%u tokens in round %u", tundish_available(bucket),
                   i);
        ck_assert_uint_eq(stats_of(bucket).leased_tokens, 0);
        take(bucket, CAPACITY);
        kit_expect(is_whole(bucket, CAPACITY, KIT_SECOND), "%u tokens", tundish_available(bucket));
        if (i % 4 == 3)
            kit_sleep_ns(400 * KIT_MILLISECOND); /* the sidecar looks less often by then */
    }
    tundish_close(bucket);
}
END_TEST

/* A lease spent to the last token is none, and nothing is to be held back for it. */
START_TEST(a_lease_that_is_spent_holds_nothing_back)
{
    struct tundish *bucket = new_full(NULL);
    lease(bucket);
    take_lease(bucket);
    uint32_t out = tdi_lease_tokens(bucket);
    take(bucket, out);
    kit_expect(is_whole(bucket, CAPACITY, BACK_NS), "%u tokens", tundish_available(bucket));
    tundish_close(bucket);
}
END_TEST

static void *take_one_lease(void *argument)
{
    struct thread *thread = argument;
    take_lease(thread->stage->bucket);
    return NULL;
}

START_TEST(a_threads_end_returns_its_lease)
{
    struct stage *stage = new_stage(new_full(NULL));
    struct thread threads[3];
    lease(stage->bucket);
    start(stage, threads, 3, take_one_lease);
    join(threads, 3);
    kit_expect(is_whole(stage->bucket, CAPACITY, BACK_NS), "%u tokens", tundish_available(stage->bucket));
    tundish_close(stage->bucket);
}
END_TEST

START_TEST(closing_and_unregistering_return_leases)
{
    struct tundish_options options = proc_still_options(CAPACITY, CAPACITY);
    struct tundish *other = proc_create("closing", &options);
    uint32_t taken = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct tundish *bucket = proc_open("closing");
        lease(bucket);
        take_lease(bucket);
        taken += (uint32_t)stats_of(bucket).tokens;
        ck_assert_uint_lt(tundish_available(other), CAPACITY - taken);
        if (i % 2)
            unregister(bucket);
        ck_assert(i % 2 == 0 || tundish_available(other) == CAPACITY - taken);
        tundish_close(bucket);
        ck_assert_uint_eq(tundish_available(other), CAPACITY - taken);
    }
    tundish_close(other);
    ck_assert_int_eq(tundish_unlink("closing"), 0);
}
END_TEST

static int have_no_lease(unsigned index, void *shared)
{
    struct stage *stage = shared;
    (void)index;
    kit_expect(tdi_lease_tokens(stage->bucket) == 0, "a lease in the child");
    take(stage->bucket, 3);
    kit_expect(tdi_lease_tokens(stage->bucket) == 0, "a lease in the child");
    tundish_close(stage->bucket);
    return 0;
}

START_TEST(a_child_has_no_lease_and_the_parent_keeps_its_own)
{
    struct tundish_options options = proc_still_options(CAPACITY, CAPACITY);
    struct stage *stage = new_stage(proc_create_private(&options));
    lease(stage->bucket);
    take_lease(stage->bucket);
    uint32_t out = tdi_lease_tokens(stage->bucket);
    kit_collect(kit_spawn(1, have_no_lease, stage), 30 * KIT_SECOND);
    ck_assert_uint_gt(out, 0);
    uint64_t taken = stats_of(stage->bucket).tokens;
    unregister(stage->bucket);
    ck_assert_uint_eq(tundish_available(stage->bucket), CAPACITY - taken - 3);
    tundish_close(stage->bucket);
}
END_TEST

static int end_with_a_lease(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct tundish *bucket = proc_open("ending");
    lease(bucket);
    take_lease(bucket);
    atomic_store(&stage->granted[0], stats_of(bucket).tokens);
    kit_barrier_wait(&stage->barrier);
    if (index == 0)
        exit(0);
    for (;;)
        take(bucket, 1);
}

START_TEST(a_process_that_ends_returns_its_leases)
{
    struct tundish_options options = proc_still_options(CAPACITY, CAPACITY);
    struct stage *stage = new_stage(proc_create("ending", &options));
    kit_barrier_init(&stage->barrier, 2);
    struct kit_children *child = kit_spawn(1, end_with_a_lease, stage);
    kit_barrier_wait(&stage->barrier);
    kit_collect(child, 30 * KIT_SECOND);
    ck_assert_uint_eq(tundish_available(stage->bucket), CAPACITY - atomic_load(&stage->granted[0]));
    tundish_close(stage->bucket);
    ck_assert_int_eq(tundish_unlink("ending"), 0);
}
END_TEST

static int lease_until_killed(unsigned index, void *shared)
{
    return end_with_a_lease(index + 1, shared);
}

START_TEST(whoever_opens_the_bucket_clears_a_killed_lessee)
{
    struct stage *stage = new_stage(new_full("ending"));
    kit_barrier_init(&stage->barrier, 2);
    struct kit_children *child = kit_spawn(1, lease_until_killed, stage);
    kit_barrier_wait(&stage->barrier);
    kit_sleep_ns(5 * KIT_MILLISECOND);
    kit_child_kill(child, 0);
    kit_collect(child, 30 * KIT_SECOND);
    kit_expect(!is_whole(stage->bucket, CAPACITY, 200 * KIT_MILLISECOND) || _i == 1, "nothing was held back");
    if (_i == 0)
        tundish_close(proc_open("ending"));
    else
        add(stage->bucket, (struct tundish_sidecar_policy){0}); /* or a sidecar does */
    kit_expect(is_whole(stage->bucket, CAPACITY, 2 * KIT_SECOND), "%u tokens",
               tundish_available(stage->bucket));
    take(stage->bucket, CAPACITY);
    tundish_close(stage->bucket);
    ck_assert_int_eq(tundish_unlink("ending"), 0);
}
END_TEST

static struct tundish *forking_bucket;
static volatile sig_atomic_t is_armed, is_child;

static void fork_in_handler(int signal)
{
    (void)signal;
    if (!is_armed)
        return;
    is_armed = 0;
    if (fork() == 0)
        is_child = 1;
}

/* In the middle of an operation; the child goes on with it, too. */
static void fork_once_in_an_operation(unsigned after_us)
{
    struct itimerval once = {{0, 0}, {0, (suseconds_t)after_us}};
    is_armed = 1;
    setitimer(ITIMER_REAL, &once, NULL);
    while (is_armed)
        (void)tundish_try_acquire(forking_bucket, 1);
    if (is_child)
        _exit(tundish_try_acquire(forking_bucket, 1) != 0);
    for (unsigned i = 0; i < 100000; i++)
        (void)tundish_try_acquire(forking_bucket, 1);
}

START_TEST(children_forked_in_the_middle_leave_the_parents_leases_alone)
{
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    struct tundish_options options = proc_options(100000000, 100000000, 1000000);
    forking_bucket = proc_create_private(&options);
    lease(forking_bucket);
    sigaction(SIGALRM, &action, NULL);
    for (unsigned i = 0; i < 500; i++) {
        int status = 0;
        fork_once_in_an_operation(50 + i % 97);
        kit_expect(wait(&status) > 0 && status == 0, "the child ended with %#x", status);
    }
    uint64_t end_ns = kit_now_ns() + 10 * KIT_SECOND;
    while (tdi_lease_any(forking_bucket->file) && kit_now_ns() < end_ns)
        kit_sleep_ns(KIT_MILLISECOND);
    kit_expect(!tdi_lease_any(forking_bucket->file), "still a lessee, with %u tokens",
               tdi_lease_tokens(forking_bucket));
    kit_expect(is_whole(forking_bucket, 100000000, 10 * KIT_SECOND), "%u tokens",
               tundish_available(forking_bucket));
    tundish_close(forking_bucket);
}
END_TEST

/* ---- those in line ---- */

START_TEST(who_waits_for_everything_clears_a_killed_lessee)
{
    struct tundish_options options = proc_options(CAPACITY, 2000000, 1000000);
    options.flags = TUNDISH_STRICT;
    struct stage *stage = new_stage(proc_create("ending", &options));
    kit_barrier_init(&stage->barrier, 2);
    struct kit_children *child = kit_spawn(1, lease_until_killed, stage);
    kit_barrier_wait(&stage->barrier);
    kit_sleep_ns(5 * KIT_MILLISECOND);
    kit_child_kill(child, 0);
    kit_collect(child, 30 * KIT_SECOND);
    int error = tundish_acquire_for(stage->bucket, CAPACITY, 10 * KIT_SECOND);
    kit_expect(error == 0, "%s", tundish_strerror(error));
    tundish_close(stage->bucket);
    ck_assert_int_eq(tundish_unlink("ending"), 0);
}
END_TEST

static int lease_and_execute(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct tundish *bucket = proc_open("ending");
    (void)index;
    lease(bucket);
    take_lease(bucket);
    kit_barrier_wait(&stage->barrier);
    execl("/bin/sleep", "sleep", "100", (char *)NULL);
    return 1;
}

/* The process lives, and knows of no lease any more. */
START_TEST(who_waits_for_everything_clears_a_lessee_that_is_another_program)
{
    struct tundish_options options = proc_options(CAPACITY, 2000000, 1000000);
    options.flags = TUNDISH_STRICT;
    struct stage *stage = new_stage(proc_create("ending", &options));
    kit_barrier_init(&stage->barrier, 2);
    struct kit_children *child = kit_spawn(1, lease_and_execute, stage);
    kit_barrier_wait(&stage->barrier);
    uint64_t end_ns = kit_now_ns() + 30 * KIT_SECOND;
    do /* it gathers what there is while the bucket fills up to less */
        ck_assert_int_eq(tundish_acquire_for(stage->bucket, CAPACITY, 30 * KIT_SECOND), 0);
    while (tdi_lease_any(stage->bucket->file) && kit_now_ns() < end_ns);
    ck_assert(!tdi_lease_any(stage->bucket->file));
    kit_child_kill(child, 0);
    kit_collect(child, 30 * KIT_SECOND);
    tundish_close(stage->bucket);
    ck_assert_int_eq(tundish_unlink("ending"), 0);
}
END_TEST

static int take_with_leases(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct tundish *bucket = proc_open("stopped");
    (void)index;
    lease(bucket);
    take_lease(bucket);
    kit_barrier_wait(&stage->barrier);
    for (;;)
        (void)tundish_try_acquire(bucket, 1);
    return 0;
}

/* It cannot give back what it has, and it is not dead. */
START_TEST(who_waits_for_everything_gets_it_though_a_lessee_is_stopped)
{
    struct tundish_options options = proc_options(CAPACITY, 2000000, 1000000);
    options.flags = _i == 0 ? 0 : TUNDISH_STRICT;
    struct stage *stage = new_stage(proc_create("stopped", &options));
    siginfo_t state;
    kit_barrier_init(&stage->barrier, 2);
    struct kit_children *child = kit_spawn(1, take_with_leases, stage);
    kit_barrier_wait(&stage->barrier);
    kill(kit_child_pid(child, 0), SIGSTOP);
    ck_assert_int_eq(waitid(P_PID, (id_t)kit_child_pid(child, 0), &state, WSTOPPED | WNOWAIT), 0);
    int error = tundish_acquire_for(stage->bucket, CAPACITY, 10 * KIT_SECOND);
    kit_expect(error == 0, "%s", tundish_strerror(error));
    kit_child_kill(child, 0);
    kit_collect(child, 30 * KIT_SECOND);
    tundish_close(stage->bucket);
    ck_assert_int_eq(tundish_unlink("stopped"), 0);
}
END_TEST

START_TEST(who_waits_for_everything_gets_it)
{
    struct tundish_options options = proc_options(CAPACITY, _i == 0 ? 100000000 : 2000000, 1000000);
    options.flags = _i == 0 ? 0 : TUNDISH_STRICT; /* nothing above what is held back */
    struct stage *stage = new_stage(proc_create_private(&options));
    struct thread threads[2];
    lease(stage->bucket);
    start(stage, threads, 2, take_singly);
    for (unsigned i = 0; i < 5; i++) {
        kit_sleep_ns(30 * KIT_MILLISECOND);
        int error = tundish_acquire_for(stage->bucket, CAPACITY, 10 * KIT_SECOND);
        kit_expect(error == 0, "%s", tundish_strerror(error));
    }
    ck_assert_uint_eq(stats_of(stage->bucket).strategy, TUNDISH_LEASED);
    join(threads, 2);
    tundish_close(stage->bucket);
}
END_TEST

static Suite *leases(void)
{
    Suite *suite = suite_create("leases");
    TCase *exact = kit_case(suite, "exact");
    tcase_set_timeout(exact, 120);
    tcase_add_test(exact, no_token_is_lost_or_minted_by_a_thousand_switches);
    tcase_add_test(exact, what_falls_due_is_exact_too);
    tcase_add_test(exact, more_threads_than_stripes_are_exact_too);
    tcase_add_test(exact, signal_handlers_spend_from_the_same_lease);
    TCase *promise = kit_case(suite, "promise");
    tcase_add_loop_test(promise, in_no_window_more_is_granted_than_was_promised, 0, 2);
    tcase_add_test(promise, what_was_held_back_is_not_due_once_the_lease_is_spent);
    tcase_add_test(promise, a_smaller_capacity_means_smaller_leases);
    tcase_add_test(promise, while_one_thread_leases_the_rest_can_be_had);
    tcase_add_test(promise, a_bucket_too_small_for_leases_stays_direct);
    TCase *back = kit_case(suite, "back");
    tcase_set_timeout(back, 60);
    tcase_add_test(back, what_lies_idle_comes_back);
    tcase_add_test(back, a_lease_that_is_spent_holds_nothing_back);
    tcase_add_test(back, a_threads_end_returns_its_lease);
    tcase_add_test(back, closing_and_unregistering_return_leases);
    TCase *line = kit_case(suite, "line");
    tcase_set_timeout(line, 60);
    tcase_add_loop_test(line, who_waits_for_everything_gets_it, 0, 2);
    if (HAS_THREAD_SANITIZER)
        return suite; /* it knows no forks of several threads */
    tcase_add_test(exact, processes_that_are_killed_take_no_more_than_they_had);
    tcase_add_test(exact, a_killed_lessee_loses_its_leases_and_no_more);
    tcase_add_test(back, a_child_has_no_lease_and_the_parent_keeps_its_own);
    tcase_add_test(back, a_process_that_ends_returns_its_leases);
    tcase_add_test(back, children_forked_in_the_middle_leave_the_parents_leases_alone);
    tcase_add_loop_test(back, whoever_opens_the_bucket_clears_a_killed_lessee, 0, 2);
    tcase_add_test(line, who_waits_for_everything_clears_a_killed_lessee);
    tcase_add_test(line, who_waits_for_everything_clears_a_lessee_that_is_another_program);
    tcase_add_loop_test(line, who_waits_for_everything_gets_it_though_a_lessee_is_stopped, 0, 2);
    return suite;
}

KIT_MAIN(leases)
