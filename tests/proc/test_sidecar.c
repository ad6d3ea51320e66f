/* SPDX-License-Identifier: MIT */
/* The process's own sidecar: what it is told, whom it asks, when it sleeps, and that nothing of it stays behind. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/proc.h"

#define HANDLES_MOST 256 /* that can be registered */
#define PLACES 64        /* in a bucket's table */
#define CAPACITY 2000000000
#define INITIAL 1500000000

#ifdef __SANITIZE_ADDRESS__
#define HAS_ADDRESS_SANITIZER 1
#else
#define HAS_ADDRESS_SANITIZER 0
#endif
#ifdef __SANITIZE_THREAD__
#define HAS_THREAD_SANITIZER 1
#else
#define HAS_THREAD_SANITIZER 0
#endif

/* Not full: what is given back has room, also with leases. */
static struct tundish *new_bucket(void)
{
    struct tundish_options options = proc_still_options(CAPACITY, INITIAL);
    return proc_create_private(&options);
}

static struct tundish_sidecar_stats stats_of(struct tundish *bucket)
{
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    int error = tundish_sidecar_stats(bucket, &stats);
    kit_expect(error == 0, "stats: %s", tundish_strerror(error));
    return stats;
}

static void add(struct tundish *bucket, const struct tundish_sidecar_policy *policy)
{
    int error = tundish_sidecar_register(bucket, policy);
    kit_expect(error == 0, "register: %s", tundish_strerror(error));
}

static void take_away(struct tundish *bucket)
{
    int error = tundish_sidecar_unregister(bucket);
    kit_expect(error == 0, "unregister: %s", tundish_strerror(error));
}

static void take(struct tundish *bucket, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        kit_expect(tundish_try_acquire(bucket, 1) == 0, "no token");
}

static void scan(void)
{
    int records = tundish_sidecar_scan();
    kit_expect(records >= 0, "scan: %s", tundish_strerror(records));
}

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    kit_expect(pthread_create(&thread, NULL, run, argument) == 0, "no thread");
    return thread;
}

/* ---- threads of this process, as the kernel tells them ---- */

static bool read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    return length > 0;
}

/* How many threads have the sidecar's name, and the last of them. */
static unsigned find_sidecars(char *last, size_t size)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    kit_expect(tasks, "no tasks");
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[32];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        if (task->d_name[0] == '.' || !read_file(path, name, sizeof name) ||
            strcmp(name, "tundish-sidecar\n") != 0)
            continue;
        snprintf(last, size, "/proc/self/task/%s/status", task->d_name);
        count++;
    }
    closedir(tasks);
    return count;
}

static unsigned count_sidecars(void)
{
    char path[300];
    return find_sidecars(path, sizeof path);
}

/* A new thread has its name a moment later; one that was joined may be listed a moment longer. */
static void expect_sidecars(unsigned count)
{
    uint64_t end_ns = kit_now_ns() + 10 * KIT_SECOND;
    while (count_sidecars() != count) {
        kit_expect(kit_now_ns() < end_ns, "%u threads instead of %u", count_sidecars(), count);
        kit_sleep_ns(KIT_MILLISECOND);
    }
}

static uint64_t sidecar_status(const char *key, int base)
{
    char path[300], text[8192];
    expect_sidecars(1);
    find_sidecars(path, sizeof path);
    kit_expect(read_file(path, text, sizeof text), "%s", path);
    const char *line = strstr(text, key);
    kit_expect(line, "no %s", key);
    return strtoull(line + strlen(key), NULL, base);
}

/* ---- what is answered ---- */

START_TEST(each_mistake_has_its_own_answer)
{
    struct tundish *bucket = new_bucket();
    struct tundish_sidecar_policy policy = TUNDISH_SIDECAR_POLICY_INIT;
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    ck_assert_int_eq(tundish_sidecar_unregister(bucket), -ENOENT);
    ck_assert_int_eq(tundish_sidecar_stats(bucket, &stats), -ENOENT);
    ck_assert_int_eq(tundish_sidecar_scan(), 0);
    policy.size--;
    ck_assert_int_eq(tundish_sidecar_register(bucket, &policy), -EINVAL);
    ck_assert_uint_eq(count_sidecars(), 0);
    policy.size++;
    ck_assert_int_eq(tundish_sidecar_register(bucket, &policy), 0);
    ck_assert_int_eq(tundish_sidecar_register(bucket, &policy), -EALREADY);
    ck_assert_int_eq(tundish_sidecar_register(bucket, NULL), -EALREADY);
    ck_assert_int_eq(tundish_sidecar_stats(bucket, NULL), -EINVAL);
    stats.size--;
    ck_assert_int_eq(tundish_sidecar_stats(bucket, &stats), -EINVAL);
    take_away(bucket);
    ck_assert_int_eq(tundish_sidecar_unregister(bucket), -ENOENT);
    ck_assert_int_eq(tundish_sidecar_register(bucket, NULL), 0);
    tundish_close(bucket);
}
END_TEST

START_TEST(without_a_thread_nothing_is_registered)
{
    struct tundish *bucket = new_bucket();
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    struct rlimit limit, none;
    if (HAS_ADDRESS_SANITIZER || HAS_THREAD_SANITIZER)
        return; /* they need memory themselves */
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    none = (struct rlimit){1, limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
    int error = tundish_sidecar_register(bucket, NULL);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_int_eq(error, -EAGAIN);
    ck_assert_int_eq(tundish_sidecar_stats(bucket, &stats), -ENOENT);
    add(bucket, NULL);
    expect_sidecars(1);
    tundish_close(bucket);
}
END_TEST

/* What callbacks saw. */
struct watch {
    atomic_int inside;
    atomic_uint asked;
    atomic_ulong records;
    atomic_int answer;
    atomic_ulong pause_ns;
};

static void come_in(struct watch *watch)
{
    kit_expect(atomic_fetch_add(&watch->inside, 1) == 0, "two callbacks at a time");
    uint64_t pause_ns = atomic_load(&watch->pause_ns);
    if (pause_ns > 0)
        kit_sleep_ns(pause_ns);
}

static void expect_deadlock(struct tundish *bucket)
{
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    kit_expect(tundish_sidecar_scan() == -EDEADLK, "scan");
    kit_expect(tundish_sidecar_stats(bucket, &stats) == -EDEADLK, "stats");
    kit_expect(tundish_sidecar_register(bucket, NULL) == -EDEADLK, "register");
    kit_expect(tundish_sidecar_unregister(bucket) == -EDEADLK, "unregister");
}

static int watch_decide(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    struct watch *watch = context;
    come_in(watch);
    kit_expect(stats->size == sizeof *stats, "statistics of size %zu", stats->size);
    kit_expect(stats->span_granted + stats->span_refused + stats->ended > 0, "asked though nothing was done");
    expect_deadlock(bucket);
    atomic_fetch_add(&watch->asked, 1);
    atomic_fetch_sub(&watch->inside, 1);
    return atomic_load(&watch->answer);
}

static void watch_observe(struct tundish *bucket, const struct tundish_observation *observations,
                          size_t count, void *context)
{
    struct watch *watch = context;
    come_in(watch);
    kit_expect(count > 0 && observations, "nothing observed");
    expect_deadlock(bucket);
    atomic_fetch_add(&watch->records, count);
    atomic_fetch_sub(&watch->inside, 1);
}

static struct tundish_sidecar_policy policy_of(struct watch *watch, uint32_t every)
{
    struct tundish_sidecar_policy policy = TUNDISH_SIDECAR_POLICY_INIT;
    policy.decide = watch_decide;
    policy.observe = watch_observe;
    policy.context = watch;
    policy.every = every;
    return policy;
}

START_TEST(the_policy_is_copied)
{
    struct watch watch = {.answer = -1};
    struct tundish *bucket = new_bucket();
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    add(bucket, &policy);
    memset(&policy, 0xff, sizeof policy);
    take(bucket, 5);
    scan();
    ck_assert_uint_ge(atomic_load(&watch.asked), 1);
    ck_assert_uint_eq(atomic_load(&watch.records), 5);
    tundish_close(bucket);
}
END_TEST

START_TEST(the_policy_is_asked_after_each_scan_that_found_something)
{
    struct watch watch = {.answer = -1};
    struct tundish *bucket = new_bucket();
    struct tundish_sidecar_policy policy = policy_of(&watch, 0);
    add(bucket, &policy);
    for (unsigned i = 0; i < 50; i++) {
        unsigned asked = atomic_load(&watch.asked);
        take(bucket, 1);
        scan();
        ck_assert_uint_ge(atomic_load(&watch.asked), asked + 1);
    }
    unsigned asked = atomic_load(&watch.asked);
    for (unsigned i = 0; i < 50; i++)
        scan();
    ck_assert_uint_eq(atomic_load(&watch.asked), asked);
    ck_assert_uint_eq(atomic_load(&watch.records), 0);
    ck_assert_uint_ge(stats_of(bucket).scans, 100);
    tundish_close(bucket);
}
END_TEST

/* ---- one at a time ---- */

struct crowd {
    struct tundish *bucket;
    struct watch watch;
    atomic_int over;
};

static void *scan_and_look(void *argument)
{
    struct crowd *crowd = argument;
    while (!atomic_load(&crowd->over)) {
        take(crowd->bucket, 1);
        scan();
        stats_of(crowd->bucket);
    }
    return NULL;
}

START_TEST(callbacks_come_one_at_a_time_and_may_not_come_back)
{
    struct crowd crowd = {.bucket = new_bucket(), .watch = {.answer = -1}};
    struct tundish_sidecar_policy policy = policy_of(&crowd.watch, 1);
    pthread_t thread[3];
    add(crowd.bucket, &policy);
    for (unsigned i = 0; i < 3; i++)
        thread[i] = start(scan_and_look, &crowd);
    kit_sleep_ns(300 * KIT_MILLISECOND);
    atomic_store(&crowd.over, 1);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    take(crowd.bucket, 3);
    take_away(crowd.bucket); /* hands the last records over */
    ck_assert_uint_gt(atomic_load(&crowd.watch.asked), 0);
    ck_assert_uint_gt(atomic_load(&crowd.watch.records), 3);
    tundish_close(crowd.bucket);
}
END_TEST

START_TEST(unregistering_waits_for_a_scan_and_nothing_runs_afterwards)
{
    struct watch watch = {.answer = -1, .pause_ns = 100 * KIT_MILLISECOND};
    struct tundish *bucket = new_bucket();
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    for (unsigned i = 0; i < 5; i++) {
        add(bucket, &policy);
        take(bucket, 1);
        while (!atomic_load(&watch.inside))
            kit_sleep_ns(100000);
        take_away(bucket);
        ck_assert_int_eq(atomic_load(&watch.inside), 0);
        unsigned asked = atomic_load(&watch.asked);
        unsigned long records = atomic_load(&watch.records);
        take(bucket, 10);
        ck_assert_int_eq(tundish_sidecar_scan(), 0);
        kit_sleep_ns(30 * KIT_MILLISECOND);
        ck_assert_uint_eq(atomic_load(&watch.asked), asked);
        ck_assert_uint_eq(atomic_load(&watch.records), records);
    }
    tundish_close(bucket);
}
END_TEST

START_TEST(closing_a_registered_handle_unregisters_it)
{
    struct watch watch = {.answer = TUNDISH_LEASED};
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    for (unsigned i = 0; i < 300; i++) { /* more than can be registered at once */
        struct tundish *bucket = new_bucket();
        add(bucket, &policy);
        take(bucket, 10);
        scan();
        tundish_close(bucket);
    }
    unsigned asked = atomic_load(&watch.asked);
    scan();
    ck_assert_uint_eq(atomic_load(&watch.asked), asked);
    expect_sidecars(1);
}
END_TEST

/* ---- records ---- */

#define OBSERVED_THREADS 4
#define OBSERVED_TIMES 10000

struct order {
    struct tundish *bucket;
    uint64_t records;
    uint32_t thread[OBSERVED_THREADS];
    uint32_t tokens[OBSERVED_THREADS];
    uint64_t at_ns[OBSERVED_THREADS];
};

static void expect_order(struct order *order, const struct tundish_observation *one)
{
    unsigned i = 0;
    while (i < OBSERVED_THREADS && order->thread[i] != 0 && order->thread[i] != one->thread)
        i++;
    kit_expect(i < OBSERVED_THREADS, "a thread that does not exist");
    order->thread[i] = one->thread;
    kit_expect(one->tokens > order->tokens[i], "%u after %u", one->tokens, order->tokens[i]);
    kit_expect(one->tokens <= OBSERVED_TIMES, "%u tokens", one->tokens);
    kit_expect(one->at_ns >= order->at_ns[i], "back in time");
    kit_expect(one->kind == TUNDISH_KIND_TRY && one->error == 0 && one->wait_ns == 0, "not what was done");
    order->tokens[i] = one->tokens;
    order->at_ns[i] = one->at_ns;
}

static void observe_order(struct tundish *bucket, const struct tundish_observation *observations,
                          size_t count, void *context)
{
    struct order *order = context;
    kit_expect(bucket == order->bucket, "another bucket");
    for (size_t i = 0; i < count; i++)
        expect_order(order, &observations[i]);
    order->records += count;
}

/* The number of tokens says which one it is. */
static void *take_rising(void *bucket)
{
    for (uint32_t n = 1; n <= OBSERVED_TIMES; n++)
        kit_expect(tundish_try_acquire(bucket, n) == 0, "no tokens");
    return NULL;
}

START_TEST(records_are_whole_and_in_the_order_of_each_thread)
{
    struct order order = {.bucket = new_bucket()};
    struct tundish_sidecar_policy policy = {
        .size = sizeof policy, .observe = observe_order, .context = &order};
    pthread_t thread[OBSERVED_THREADS];
    policy.every = 1;
    add(order.bucket, &policy);
    for (unsigned i = 0; i < OBSERVED_THREADS; i++)
        thread[i] = start(take_rising, order.bucket);
    for (unsigned i = 0; i < 100; i++)
        scan();
    for (unsigned i = 0; i < OBSERVED_THREADS; i++)
        pthread_join(thread[i], NULL);
    while (tundish_sidecar_scan() > 0)
        ;
    struct tundish_sidecar_stats stats = stats_of(order.bucket);
    ck_assert_uint_eq(stats.granted, OBSERVED_THREADS * OBSERVED_TIMES);
    ck_assert_uint_eq(stats.observed + stats.dropped, OBSERVED_THREADS * OBSERVED_TIMES);
    ck_assert_uint_eq(stats.observed, order.records);
    ck_assert_uint_gt(stats.observed, 0);
    tundish_close(order.bucket);
}
END_TEST

START_TEST(one_of_so_many_operations_is_recorded)
{
    struct watch watch = {.answer = -1};
    struct tundish *bucket = new_bucket();
    struct tundish_sidecar_policy policy = policy_of(&watch, 10);
    add(bucket, &policy);
    take(bucket, 1000);
    scan();
    ck_assert_uint_eq(atomic_load(&watch.records), 100);
    tundish_close(bucket);
}
END_TEST

#define COUNTED_THREADS 5
#define COUNTED_TIMES 2000

static void *do_everything(void *bucket)
{
    for (unsigned i = 0; i < COUNTED_TIMES; i++) {
        kit_expect(tundish_try_acquire(bucket, 3) == 0, "no tokens");
        kit_expect(tundish_acquire(bucket, 2) == 0, "no tokens");
        tundish_release(bucket, 1);
        kit_expect(tundish_try_acquire(bucket, CAPACITY + 1) == -E2BIG, "more than there can be");
    }
    return NULL;
}

START_TEST(the_statistics_are_what_the_callers_counted)
{
    struct watch watch = {.answer = _i == 0 ? TUNDISH_DIRECT : TUNDISH_LEASED};
    struct tundish *bucket = new_bucket();
    struct tundish_sidecar_policy policy = policy_of(&watch, 0);
    pthread_t thread[COUNTED_THREADS];
    take(bucket, 1); /* before it is registered; counted too */
    add(bucket, &policy);
    for (unsigned i = 0; i < COUNTED_THREADS; i++)
        thread[i] = start(do_everything, bucket);
    for (unsigned i = 0; i < COUNTED_THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(tundish_acquire_for(bucket, CAPACITY, KIT_MILLISECOND), -ETIMEDOUT);
    struct tundish_sidecar_stats stats = stats_of(bucket);
    const uint64_t times = (uint64_t)COUNTED_THREADS * COUNTED_TIMES;
    ck_assert_uint_eq(stats.granted, 2 * times + 1);
    ck_assert_uint_eq(stats.tokens, 5 * times + 1);
    ck_assert_uint_eq(stats.released, times);
    ck_assert_uint_eq(stats.refused, times);
    ck_assert_uint_eq(stats.ended, 3);
    ck_assert_uint_ge(stats.waited_ns, 3 * KIT_MILLISECOND);
    take_away(bucket);
    ck_assert_uint_eq(tundish_available(bucket), INITIAL - 1 - 4 * times);
    tundish_close(bucket);
}
END_TEST

/* ---- how many ---- */

START_TEST(so_many_handles_and_no_more_can_be_registered)
{
    static struct tundish *bucket[HANDLES_MOST + 1];
    for (unsigned i = 0; i <= HANDLES_MOST; i++)
        bucket[i] = new_bucket();
    for (unsigned i = 0; i < HANDLES_MOST; i++)
        add(bucket[i], NULL);
    ck_assert_int_eq(tundish_sidecar_register(bucket[HANDLES_MOST], NULL), -ENOSPC);
    take(bucket[HANDLES_MOST - 1], 7);
    scan();
    ck_assert_uint_eq(stats_of(bucket[HANDLES_MOST - 1]).granted, 7);
    take_away(bucket[17]);
    add(bucket[HANDLES_MOST], NULL);
    ck_assert_int_eq(tundish_sidecar_register(bucket[17], NULL), -ENOSPC);
    for (unsigned i = 0; i <= HANDLES_MOST; i++)
        tundish_close(bucket[i]);
}
END_TEST

START_TEST(a_handle_without_a_place_is_counted_and_stays_direct)
{
    struct watch watch = {.answer = TUNDISH_LEASED};
    struct tundish_options options = proc_still_options(CAPACITY, INITIAL);
    struct tundish *bucket[PLACES + 1];
    bucket[0] = proc_create("full", &options);
    for (unsigned i = 1; i <= PLACES; i++)
        bucket[i] = proc_open("full");
    ck_assert_uint_eq(proc_info(bucket[0]).unlisted, 1);
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    add(bucket[PLACES], &policy);
    for (unsigned i = 0; i < 5; i++) {
        take(bucket[PLACES], 20);
        scan();
    }
    struct tundish_sidecar_stats stats = stats_of(bucket[PLACES]);
    ck_assert_uint_eq(stats.granted, 100);
    ck_assert_uint_eq(stats.strategy, TUNDISH_DIRECT);
    ck_assert_uint_eq(stats.switches, 0);
    ck_assert_uint_eq(stats.leased_tokens, 0);
    ck_assert_uint_eq(stats.observed, 0);
    ck_assert_uint_ge(atomic_load(&watch.asked), 5);
    take_away(bucket[PLACES]);
    ck_assert_uint_eq(tundish_available(bucket[0]), INITIAL - 100);
    for (unsigned i = 0; i <= PLACES; i++)
        tundish_close(bucket[i]);
    ck_assert_int_eq(tundish_unlink("full"), 0);
}
END_TEST

/* ---- the thread ---- */

START_TEST(while_nothing_happens_the_thread_sleeps)
{
    struct watch watch = {.answer = _i == 0 ? TUNDISH_DIRECT : TUNDISH_LEASED};
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    struct tundish *bucket = new_bucket();
    add(bucket, &policy);
    take(bucket, 100);
    scan();
    take(bucket, 100);
    kit_sleep_ns(200 * KIT_MILLISECOND);
    uint64_t before = sidecar_status("\nvoluntary_ctxt_switches:", 10);
    uint64_t before_ns = kit_now_ns();
    kit_sleep_ns(3 * KIT_SECOND);
    uint64_t times = sidecar_status("\nvoluntary_ctxt_switches:", 10) - before;
    uint64_t most = 5 * (kit_now_ns() - before_ns) / KIT_SECOND;
    kit_expect(times <= most, "it woke up %llu times", (unsigned long long)times);
    tundish_close(bucket);
}
END_TEST

START_TEST(the_thread_takes_nobodys_signals)
{
    struct tundish *bucket = new_bucket();
    add(bucket, NULL);
    uint64_t blocked = sidecar_status("\nSigBlk:", 16);
    for (int signal = 1; signal < 65; signal++) {
        bool unblockable = signal == SIGKILL || signal == SIGSTOP;
        bool libc_own = signal >= 32 && signal < SIGRTMIN;
        if (!unblockable && !libc_own)
            kit_expect(blocked >> (signal - 1) & 1, "signal %d is not blocked", signal);
    }
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ck_assert_int_eq(sigismember(&mask, SIGTERM), 0);
    tundish_close(bucket);
}
END_TEST

/* ---- the end of a process ---- */

enum ending {
    AT_REST,
    UNDER_LOAD,
    FROM_A_THREAD,
    FROM_A_CALLBACK,
    ENDINGS
};

static int exit_at_once(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    (void)bucket;
    (void)stats;
    (void)context;
    exit(0);
}

static void *exit_soon(void *unused)
{
    (void)unused;
    kit_sleep_ns(2 * KIT_MILLISECOND);
    exit(0);
}

static void *take_for_ever(void *bucket)
{
    for (;;)
        (void)tundish_try_acquire(bucket, 1);
    return NULL;
}

static int end(unsigned index, void *shared)
{
    enum ending how = *(enum ending *)shared;
    struct watch watch = {.answer = TUNDISH_LEASED};
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    struct tundish *bucket = new_bucket();
    if (how == FROM_A_CALLBACK)
        policy.decide = exit_at_once;
    add(bucket, &policy);
    if (how == UNDER_LOAD || how == FROM_A_THREAD)
        for (unsigned i = 0; i < 2; i++)
            start(take_for_ever, bucket);
    if (how == FROM_A_CALLBACK)
        take(bucket, 1);
    if (how == FROM_A_THREAD)
        start(exit_soon, NULL);
    if (how == FROM_A_THREAD || how == FROM_A_CALLBACK)
        for (;;)
            pause();
    if (index % 2 == 1)
        kit_sleep_ns(index * 100000);
    exit(0);
}

START_TEST(a_process_ends_when_it_is_told_to)
{
    static const unsigned rounds[ENDINGS] = {100, 10, 10, 10};
    enum ending *how = kit_shared_new(sizeof *how);
    *how = (enum ending)_i;
    for (unsigned i = 0; i < rounds[_i]; i++)
        kit_collect(kit_spawn(4, end, how), 20 * KIT_SECOND);
}
END_TEST

#define SYMBOL(name) __typeof__(name) *name##_there = (__typeof__(name) *)(uintptr_t)dlsym(library, #name)

static void *load_and_unload(void *unused)
{
    void *library = dlopen(TUNDISH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    kit_expect(library, "%s", dlerror());
    SYMBOL(tundish_create_private);
    SYMBOL(tundish_sidecar_register);
    SYMBOL(tundish_try_acquire);
    struct tundish_options options = proc_still_options(CAPACITY, INITIAL);
    struct tundish *bucket;
    (void)unused;
    kit_expect(tundish_create_private_there(&bucket, &options) == 0, "no bucket");
    kit_expect(tundish_sidecar_register_there(bucket, NULL) == 0, "not registered");
    kit_expect(tundish_try_acquire_there(bucket, 1) == 0, "no token");
    expect_sidecars(1);
    kit_expect(dlclose(library) == 0, "%s", dlerror());
    expect_sidecars(0);
    return NULL;
}

static int decide_slowly(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *began)
{
    (void)bucket;
    (void)stats;
    atomic_store((atomic_int *)began, 1);
    kit_sleep_ns(300 * KIT_MILLISECOND);
    return -1;
}

/* The callback is in the middle of the library's code. */
START_TEST(unloading_the_library_waits_for_a_callback)
{
    atomic_int began = 0;
    struct tundish_sidecar_policy policy = TUNDISH_SIDECAR_POLICY_INIT;
    struct tundish_options options = proc_still_options(CAPACITY, INITIAL);
    struct tundish *bucket;
    if (HAS_ADDRESS_SANITIZER || HAS_THREAD_SANITIZER)
        return; /* as below */
    void *library = dlopen(TUNDISH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    kit_expect(library, "%s", dlerror());
    SYMBOL(tundish_create_private);
    SYMBOL(tundish_sidecar_register);
    SYMBOL(tundish_try_acquire);
    policy.decide = decide_slowly;
    policy.context = &began;
    kit_expect(tundish_create_private_there(&bucket, &options) == 0, "no bucket");
    kit_expect(tundish_sidecar_register_there(bucket, &policy) == 0, "not registered");
    kit_expect(tundish_try_acquire_there(bucket, 1) == 0, "no token");
    while (!atomic_load(&began))
        kit_sleep_ns(KIT_MILLISECOND);
    kit_expect(dlclose(library) == 0, "%s", dlerror());
    expect_sidecars(0);
}
END_TEST

START_TEST(the_library_can_be_unloaded_and_the_thread_ends)
{
    if (HAS_ADDRESS_SANITIZER || HAS_THREAD_SANITIZER)
        return; /* what is mapped for a handle that nobody closes would be theirs to complain of */
    for (unsigned i = 0; i < 20; i++)
        load_and_unload(NULL);
    pthread_join(start(load_and_unload, NULL), NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- closing from a callback ---- */

struct closing {
    struct tundish *other;
    atomic_int calls;
};

static int close_both(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    struct closing *closing = context;
    (void)stats;
    atomic_fetch_add(&closing->calls, 1);
    tundish_close(closing->other);
    tundish_close(bucket);
    return TUNDISH_LEASED;
}

static int count_calls(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    struct closing *closing = context;
    (void)bucket;
    (void)stats;
    atomic_fetch_add(&closing->calls, 1);
    return -1;
}

static void close_when_told(struct tundish *bucket, const struct tundish_observation *records, size_t count,
                            void *context)
{
    atomic_int *told = context;
    (void)records;
    (void)count;
    if (atomic_exchange(told, 0))
        tundish_close(bucket);
}

/* The last records come while it is taken out; who takes it out must not use it afterwards. */
START_TEST(a_callback_may_close_its_handle_while_that_is_unregistered)
{
    struct tundish_options options = proc_still_options(CAPACITY, INITIAL);
    struct tundish *watching = proc_create("closing", &options);
    for (int i = 0; i < 20; i++) {
        atomic_int told = 0;
        struct tundish *bucket = proc_open("closing");
        struct tundish_sidecar_policy policy = {sizeof policy, NULL, close_when_told, &told, 1};
        add(bucket, &policy);
        take(bucket, 1);
        kit_expect(tundish_sidecar_scan() >= 0, "scan");
        take(bucket, 1);
        atomic_store(&told, 1);
        (void)tundish_sidecar_unregister(bucket); /* gone already, if the sidecar was quicker */
        uint64_t end_ns = kit_now_ns() + 10 * KIT_SECOND;
        while (proc_info(watching).instances > 1 && kit_now_ns() < end_ns)
            kit_sleep_ns(KIT_MILLISECOND);
        ck_assert_uint_eq(proc_info(watching).instances, 1);
    }
    tundish_close(watching);
}
END_TEST

/* The handles are in the scan's hands at that moment. */
START_TEST(a_callback_may_close_its_handle_and_others)
{
    struct tundish_options options = proc_still_options(CAPACITY, INITIAL);
    struct tundish *watching = proc_create("closing", &options);
    for (int i = 0; i < 50; i++) {
        struct tundish *first = proc_open("closing"), *last = proc_open("closing");
        struct closing closing = {.other = i % 2 ? first : last}, silent = {0};
        struct tundish_sidecar_policy closes = {sizeof closes, close_both, NULL, &closing, 0};
        struct tundish_sidecar_policy counts = {sizeof counts, count_calls, NULL, &silent, 1};
        add(first, i % 2 ? &counts : &closes);
        add(last, i % 2 ? &closes : &counts);
        take(i % 2 ? last : first, 1);
        uint64_t end_ns = kit_now_ns() + 10 * KIT_SECOND;
        while (proc_info(watching).instances > 1 && kit_now_ns() < end_ns)
            kit_sleep_ns(KIT_MILLISECOND);
        ck_assert_uint_eq(proc_info(watching).instances, 1);
        ck_assert_int_eq(atomic_load(&closing.calls), 1);
        ck_assert_int_eq(atomic_load(&silent.calls), 0);
    }
    tundish_close(watching);
}
END_TEST

/* ---- fork ---- */

static int use_in_child(unsigned index, void *shared)
{
    struct tundish *bucket = shared;
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    struct watch watch = {.answer = TUNDISH_LEASED};
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    (void)index;
    kit_expect(count_sidecars() == 0, "a thread in the child");
    kit_expect(tundish_sidecar_stats(bucket, &stats) == -ENOENT, "registered in the child");
    kit_expect(tundish_sidecar_unregister(bucket) == -ENOENT, "registered in the child");
    take(bucket, 5);
    kit_expect(tundish_sidecar_scan() == 0, "something to look at");
    add(bucket, &policy);
    expect_sidecars(1);
    take(bucket, 7);
    scan();
    kit_expect(atomic_load(&watch.asked) > 0, "not asked");
    kit_expect(atomic_load(&watch.records) == 7, "%lu records", atomic_load(&watch.records));
    kit_expect(stats_of(bucket).granted == 12, "%llu granted", (unsigned long long)stats_of(bucket).granted);
    tundish_close(bucket);
    return 0;
}

START_TEST(a_child_has_no_sidecar_until_it_registers)
{
    struct watch watch = {.answer = -1};
    struct tundish_sidecar_policy policy = policy_of(&watch, 1);
    struct tundish *bucket = new_bucket();
    add(bucket, &policy);
    take(bucket, 3);
    kit_collect(kit_spawn(3, use_in_child, bucket), 30 * KIT_SECOND);
    take(bucket, 3);
    scan();
    ck_assert_uint_eq(atomic_load(&watch.records), 6);
    ck_assert_uint_eq(stats_of(bucket).granted, 6);
    tundish_close(bucket);
}
END_TEST

#define FORKS_EACH 50

/* Forks in the midst of scans; the child registers what the parent has. */
static void *fork_often(void *argument)
{
    struct crowd *crowd = argument;
    for (unsigned i = 0; i < FORKS_EACH; i++) {
        pid_t child = fork();
        kit_expect(child >= 0, "fork: %s", strerror(errno));
        if (child == 0) {
            alarm(30);
            bool fine = tundish_try_acquire(crowd->bucket, 1) == 0 && tundish_sidecar_scan() == 0 &&
                        tundish_sidecar_register(crowd->bucket, NULL) == 0 && tundish_sidecar_scan() == 0 &&
                        tundish_try_acquire(crowd->bucket, 1) == 0;
            tundish_close(crowd->bucket);
            _exit(fine ? 0 : 1);
        }
        int status;
        kit_expect(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
        kit_expect(status == 0, "child %u ended with %#x", i, (unsigned)status);
    }
    return NULL;
}

START_TEST(forking_in_the_midst_of_scans_hangs_no_child)
{
    struct crowd crowd = {.bucket = new_bucket(), .watch = {.answer = TUNDISH_LEASED}};
    struct tundish_sidecar_policy policy = policy_of(&crowd.watch, 1);
    pthread_t forking[4], scanning[2];
    add(crowd.bucket, &policy);
    for (unsigned i = 0; i < 2; i++)
        scanning[i] = start(scan_and_look, &crowd);
    for (unsigned i = 0; i < 4; i++)
        forking[i] = start(fork_often, &crowd);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(forking[i], NULL);
    atomic_store(&crowd.over, 1);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(scanning[i], NULL);
    uint64_t granted = stats_of(crowd.bucket).granted;
    take_away(crowd.bucket);
    ck_assert_uint_eq(tundish_available(crowd.bucket), INITIAL - granted - 2 * 4 * FORKS_EACH);
    tundish_close(crowd.bucket);
}
END_TEST

static Suite *sidecar(void)
{
    Suite *suite = suite_create("sidecar");
    TCase *answers = kit_case(suite, "answers");
    tcase_add_test(answers, each_mistake_has_its_own_answer);
    tcase_add_test(answers, without_a_thread_nothing_is_registered);
    tcase_add_test(answers, the_policy_is_copied);
    tcase_add_test(answers, the_policy_is_asked_after_each_scan_that_found_something);
    tcase_add_test(answers, callbacks_come_one_at_a_time_and_may_not_come_back);
    tcase_add_test(answers, unregistering_waits_for_a_scan_and_nothing_runs_afterwards);
    tcase_add_test(answers, closing_a_registered_handle_unregisters_it);
    tcase_add_test(answers, so_many_handles_and_no_more_can_be_registered);
    tcase_add_test(answers, a_handle_without_a_place_is_counted_and_stays_direct);
    TCase *records = kit_case(suite, "records");
    tcase_add_test(records, records_are_whole_and_in_the_order_of_each_thread);
    tcase_add_test(records, one_of_so_many_operations_is_recorded);
    tcase_add_loop_test(records, the_statistics_are_what_the_callers_counted, 0, 2);
    TCase *thread = kit_case(suite, "thread");
    tcase_add_loop_test(thread, while_nothing_happens_the_thread_sleeps, 0, 2);
    tcase_add_test(thread, the_thread_takes_nobodys_signals);
    if (HAS_THREAD_SANITIZER)
        return suite; /* it knows no forks of several threads */
    TCase *ends = kit_case(suite, "ends");
    tcase_add_loop_test(ends, a_process_ends_when_it_is_told_to, 0, ENDINGS);
    tcase_add_test(ends, the_library_can_be_unloaded_and_the_thread_ends);
    tcase_add_test(ends, unloading_the_library_waits_for_a_callback);
    tcase_add_test(ends, a_callback_may_close_its_handle_and_others);
    tcase_add_test(ends, a_callback_may_close_its_handle_while_that_is_unregistered);
    tcase_add_test(ends, a_child_has_no_sidecar_until_it_registers);
    tcase_add_test(ends, forking_in_the_midst_of_scans_hangs_no_child);
    return suite;
}

KIT_MAIN(sidecar)
