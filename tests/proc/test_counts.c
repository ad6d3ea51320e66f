/* SPDX-License-Identifier: MIT */
/*
 * What callers counted themselves beside what the file says they did: to the last one, whoever they were, while
 * they live and when they are gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/handle.h"
#include "lib/observe.h"
#include "proc/proc.h"
#include "unit/step.h"

#define PATIENCE_NS (50 * KIT_SECOND)

/* A cancelled thread, or a jump out of a handler, leaves a stack that the sanitizers then take for spoilt. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_JUMP 0
#else
#define MAY_JUMP 1
#endif

/* Written by the callers; of any number of buckets together. */
struct tally {
    _Atomic(uint64_t) count[TDI_KINDS][TDI_COUNTS];
    _Atomic(uint64_t) released;
};

static void note(struct tally *tally, enum tdi_layout_kind kind, uint32_t n, int error)
{
    enum tdi_layout_count what = error == -EAGAIN || error == -E2BIG ? TDI_COUNT_REFUSED : TDI_COUNT_ENDED;
    atomic_fetch_add(&tally->count[kind][error == 0 ? TDI_COUNT_GRANTED : what], 1);
    if (error == 0)
        atomic_fetch_add(&tally->count[kind][TDI_COUNT_TOKENS], n);
}

static void expect_same(const struct tdi_stats *stats, const struct tally *tally, const char *when)
{
    static const char *const names[] = {"granted", "tokens", "refused", "ended"};
    for (int kind = 0; kind < TDI_KINDS; kind++)
        for (int i = 0; i < TDI_COUNTS; i++) {
            uint64_t counted = atomic_load(&tally->count[kind][i]);
            kit_expect(stats->count[kind][i] == counted, "%s: kind %d, %s: %llu in the file, %llu counted",
                       when, kind, names[i], (unsigned long long)stats->count[kind][i],
                       (unsigned long long)counted);
        }
    uint64_t released = atomic_load(&tally->released);
    kit_expect(stats->sum[TDI_SUM_RELEASED] == released, "%s: %llu released in the file, %llu counted", when,
               (unsigned long long)stats->sum[TDI_SUM_RELEASED], (unsigned long long)released);
}

static void add(struct tdi_stats *to, const struct tdi_stats *stats)
{
    for (int kind = 0; kind < TDI_KINDS; kind++)
        for (int i = 0; i < TDI_COUNTS; i++)
            to->count[kind][i] += stats->count[kind][i];
    for (int i = 0; i < TDI_SUMS; i++)
        to->sum[i] += stats->sum[i];
}

static void expect_totals(struct tundish *const *bucket, size_t count, const struct tally *tally,
                          const char *when)
{
    struct tdi_stats all, one;
    memset(&all, 0, sizeof all);
    for (size_t i = 0; i < count; i++) {
        tdi_observe_total(bucket[i], &one);
        add(&all, &one);
    }
    expect_same(&all, tally, when);
}

static void try_and_note(struct tundish *bucket, uint32_t n, struct tally *tally)
{
    note(tally, TDI_KIND_TRY, n, tundish_try_acquire(bucket, n));
}

/* The place of the calling process, by its pid. */
static struct tdi_observe_instance instance_of(const struct tundish *bucket, pid_t pid)
{
    struct tdi_observe_instance found;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_observe_instance(bucket, i, &found) && found.who.pid == (uint32_t)pid)
            return found;
    kit_fail("process %d is not listed", (int)pid);
}

/* ---- crowds ---- */

#define PROCESSES 8
#define THREADS 4
#define TRIES 100000

struct stage {
    struct kit_barrier barrier;
    struct tundish *bucket[2];
    struct tally tally;
    struct tally own[PROCESSES];
};

static struct stage *new_stage(unsigned parties, const struct tundish_options *options)
{
    struct stage *stage = kit_shared_new(sizeof *stage);
    kit_barrier_init(&stage->barrier, parties);
    stage->bucket[0] = proc_create("one", options);
    stage->bucket[1] = proc_create("two", options);
    return stage;
}

static void end_stage(struct stage *stage)
{
    tundish_close(stage->bucket[0]);
    tundish_close(stage->bucket[1]);
}

struct worker {
    struct stage *stage;
    struct tundish *bucket;
    struct tally tally;
    uint32_t random;
    int rounds;
};

/* What a worker counted goes to its process and to all. */
static void hand_in(struct worker *worker, struct tally *own)
{
    for (int kind = 0; kind < TDI_KINDS; kind++)
        for (int i = 0; i < TDI_COUNTS; i++) {
            atomic_fetch_add(&worker->stage->tally.count[kind][i], worker->tally.count[kind][i]);
            atomic_fetch_add(&own->count[kind][i], worker->tally.count[kind][i]);
        }
    atomic_fetch_add(&worker->stage->tally.released, worker->tally.released);
    atomic_fetch_add(&own->released, worker->tally.released);
}

static void *try_often(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < TRIES; i++)
        try_and_note(worker->bucket, 1 + (uint32_t)i % 3, &worker->tally);
    return NULL;
}

static int try_in_threads(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct worker worker[THREADS];
    pthread_t thread[THREADS];
    struct tundish *bucket = proc_open("one");
    memset((void *)worker, 0, sizeof worker);
    for (int i = 0; i < THREADS; i++) {
        worker[i].stage = stage;
        worker[i].bucket = bucket;
        kit_expect(pthread_create(&thread[i], NULL, try_often, &worker[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        hand_in(&worker[i], &stage->own[index]);
    }
    struct tdi_observe_instance self = instance_of(bucket, getpid());
    kit_expect(self.counts && self.may_live, "no account");
    expect_same(&self.stats, &stage->own[index], "my own");
    kit_barrier_wait(&stage->barrier);
    kit_barrier_wait(&stage->barrier); /* alive, until the others have looked */
    if (index % 2)
        tundish_close(bucket);
    return 0;
}

START_TEST(tries_of_many_processes_are_counted_to_the_last)
{
    struct tundish_options options = proc_still_options(2000000, 2000000);
    struct stage *stage = new_stage(PROCESSES + 1, &options);
    struct kit_children *children = kit_spawn(PROCESSES, try_in_threads, stage);
    kit_barrier_wait(&stage->barrier);
    expect_totals(stage->bucket, 2, &stage->tally, "while they live");
    kit_barrier_wait(&stage->barrier);
    kit_collect(children, PATIENCE_NS);
    expect_totals(stage->bucket, 2, &stage->tally, "when they are gone");
    tdi_observe_bury(stage->bucket[0]);
    expect_totals(stage->bucket, 2, &stage->tally, "when they are buried");
    uint64_t granted = atomic_load(&stage->tally.count[TDI_KIND_TRY][TDI_COUNT_GRANTED]);
    uint64_t tokens = atomic_load(&stage->tally.count[TDI_KIND_TRY][TDI_COUNT_TOKENS]);
    uint64_t refused = atomic_load(&stage->tally.count[TDI_KIND_TRY][TDI_COUNT_REFUSED]);
    ck_assert_uint_eq(granted + refused, PROCESSES * THREADS * TRIES);
    ck_assert_uint_eq(tokens + tundish_available(stage->bucket[0]), 2000000);
    ck_assert_uint_gt(refused, 0);
    end_stage(stage);
}
END_TEST

/* ---- all ways of asking ---- */

static void wait_in_steps(struct tundish *bucket, uint32_t n, struct worker *worker)
{
    struct tundish_waiter *waiter;
    int error = tundish_waiter_start(bucket, n, tundish_now_ns() + KIT_MILLISECOND, &waiter);
    for (int i = 0; error == -EINPROGRESS && i < 20; i++) {
        error = tundish_waiter_poll(waiter);
        sched_yield();
    }
    tundish_waiter_free(waiter);
    note(&worker->tally, TDI_KIND_WAITER, n, error);
}

static void want_both(struct tundish *const *bucket, struct worker *worker, bool waits)
{
    struct tundish_demand demands[] = {{bucket[0], 1}, {bucket[1], 2}};
    int error = waits ? tundish_acquire_all(demands, 2, tundish_now_ns() + KIT_MILLISECOND / 2)
                      : tundish_try_acquire_all(demands, 2);
    note(&worker->tally, TDI_KIND_ALL, 1, error);
    if (error == 0)
        note(&worker->tally, TDI_KIND_ALL, 2, error);
}

static void *ask_in_all_ways(void *argument)
{
    struct worker *worker = argument;
    struct tundish *const *bucket = worker->stage->bucket;
    for (int i = 0; i < worker->rounds; i++) {
        uint32_t n = 1 + proc_random(&worker->random, 3);
        struct tundish *one = bucket[proc_random(&worker->random, 2)];
        switch (proc_random(&worker->random, 16)) {
        case 0:
            note(&worker->tally, TDI_KIND_ACQUIRE, n, tundish_acquire_for(one, n, KIT_MILLISECOND / 5));
            break;
        case 1:
            note(&worker->tally, TDI_KIND_ACQUIRE, n, tundish_acquire_until(one, n, 0));
            break;
        case 2:
            wait_in_steps(one, n, worker);
            break;
        case 3:
        case 4:
            want_both(bucket, worker, false);
            break;
        case 5:
            want_both(bucket, worker, true);
            break;
        case 6:
            try_and_note(one, 1000, &worker->tally); /* more than it ever holds */
            break;
        case 7:
            tundish_release(one, n);
            worker->tally.released += n;
            break;
        default:
            try_and_note(one, n, &worker->tally);
        }
    }
    return NULL;
}

#define MANY_THREADS 12 /* more than stripes */

static int ask_in_threads(unsigned index, void *shared)
{
    struct stage *stage = shared;
    static struct worker worker[MANY_THREADS];
    pthread_t thread[MANY_THREADS];
    for (unsigned i = 0; i < MANY_THREADS; i++) {
        worker[i].stage = stage;
        worker[i].random = index * 100 + i + 1;
        worker[i].rounds = 3000;
        kit_expect(pthread_create(&thread[i], NULL, ask_in_all_ways, &worker[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < MANY_THREADS; i++) {
        pthread_join(thread[i], NULL);
        hand_in(&worker[i], &stage->own[index]);
    }
    return 0;
}

START_TEST(every_way_of_asking_is_counted_once)
{
    struct tundish_options options = proc_options(100, 50000, 1000000);
    struct stage *stage = new_stage(1, &options);
    kit_collect(kit_spawn(3, ask_in_threads, stage), PATIENCE_NS);
    expect_totals(stage->bucket, 2, &stage->tally, "in the end");
    for (int kind = 0; kind < TDI_KINDS; kind++)
        ck_assert_uint_gt(atomic_load(&stage->tally.count[kind][TDI_COUNT_GRANTED]), 0);
    end_stage(stage);
}
END_TEST

static void *try_a_little(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < 100; i++)
        try_and_note(worker->bucket, 1, &worker->tally);
    return NULL;
}

START_TEST(threads_that_come_and_go_are_all_counted)
{
    struct tundish_options options = proc_still_options(20000, 20000);
    struct worker worker = {.bucket = proc_create("one", &options)};
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, try_a_little, &worker), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        expect_totals(&worker.bucket, 1, &worker.tally, "after one more thread");
    }
    tundish_close(worker.bucket);
}
END_TEST

/* ---- instances ---- */

static int be_another_instance(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct tdi_identity self;
    for (unsigned i = 0; i <= index; i++)
        try_and_note(stage->bucket[0], 1, &stage->own[index]);
    struct tdi_observe_instance found = instance_of(stage->bucket[0], getpid());
    tdi_proc_identify(&self);
    kit_expect(strcmp(found.who.program, self.program) == 0 && found.who.start_time == self.start_time,
               "listed as '%s'", found.who.program);
    expect_same(&found.stats, &stage->own[index], "a forked child");
    kit_barrier_wait(&stage->barrier);
    return 0;
}

START_TEST(a_forked_child_is_an_instance_of_its_own)
{
    struct tundish_options options = proc_still_options(1000, 1000);
    struct stage *stage = new_stage(PROCESSES, &options);
    struct tally mine;
    memset((void *)&mine, 0, sizeof mine);
    try_and_note(stage->bucket[0], 5, &mine);
    try_and_note(stage->bucket[0], 1000, &mine);
    kit_collect(kit_spawn(PROCESSES, be_another_instance, stage), PATIENCE_NS);
    struct tdi_observe_instance self = instance_of(stage->bucket[0], getpid());
    expect_same(&self.stats, &mine, "the parent");
    end_stage(stage);
}
END_TEST

#define CROWD (TDI_LAYOUT_INSTANCES + 16)

/* All of them have the buckets open at once. */
static int ask_in_a_crowd(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct worker worker = {.stage = stage, .random = index + 1, .rounds = 100};
    try_and_note(stage->bucket[0], 1, &worker.tally);
    try_and_note(stage->bucket[1], 1, &worker.tally);
    kit_barrier_wait(&stage->barrier);
    ask_in_all_ways(&worker);
    hand_in(&worker, &stage->own[0]);
    kit_barrier_wait(&stage->barrier);
    if (index % 2)
        end_stage(stage);
    return 0;
}

START_TEST(processes_beyond_the_table_are_counted_in_the_total)
{
    struct tundish_options options = proc_options(100, 50000, 1000000);
    struct stage *stage = new_stage(CROWD, &options);
    kit_collect(kit_spawn(CROWD, ask_in_a_crowd, stage), PATIENCE_NS);
    ck_assert_uint_ge(proc_info(stage->bucket[0]).unlisted, CROWD - TDI_LAYOUT_INSTANCES);
    expect_totals(stage->bucket, 2, &stage->tally, "with more processes than places");
    end_stage(stage);
}
END_TEST

START_TEST(handles_beyond_the_table_are_counted_in_the_total)
{
    struct tundish_options options = proc_still_options(1000, 1000);
    struct tundish *handle[TDI_LAYOUT_INSTANCES + 6];
    struct tally all;
    memset((void *)&all, 0, sizeof all);
    handle[0] = proc_create("one", &options);
    for (unsigned i = 0; i < PROC_LEN(handle); i++) {
        handle[i] = i ? proc_open("one") : handle[0];
        try_and_note(handle[i], 1 + i % 5, &all);
        try_and_note(handle[i], 2000, &all);
        tundish_release(handle[i], 1);
        atomic_fetch_add(&all.released, 1);
    }
    expect_totals(handle, 1, &all, "with more handles than places");
    ck_assert_uint_eq(proc_info(handle[0]).unlisted, 6);
    for (unsigned i = 0; i < PROC_LEN(handle); i++)
        tundish_close(handle[i]);
}
END_TEST

static void *try_beyond(void *argument)
{
    struct worker *worker = argument;
    kit_barrier_wait(&worker->stage->barrier);
    for (int i = 0; i < 200; i++)
        try_and_note(worker->bucket, 1, &worker->tally);
    return NULL;
}

/* Where it counts is found out while they all begin. */
START_TEST(threads_that_begin_together_beyond_the_table_are_counted_once)
{
    struct tundish_options options = proc_still_options(1000000, 1000000);
    struct stage *stage = new_stage(3, &options);
    struct tundish *handle[TDI_LAYOUT_INSTANCES];
    struct worker worker[3];
    memset((void *)worker, 0, sizeof worker);
    for (unsigned i = 0; i < PROC_LEN(handle); i++)
        handle[i] = proc_open("one");
    for (unsigned round = 0; round < 50; round++) {
        pthread_t thread[3];
        struct tundish *beyond = proc_open("one");
        for (int i = 0; i < 3; i++) {
            worker[i].stage = stage;
            worker[i].bucket = beyond;
            ck_assert_int_eq(pthread_create(&thread[i], NULL, try_beyond, &worker[i]), 0);
        }
        for (int i = 0; i < 3; i++)
            pthread_join(thread[i], NULL);
        tundish_close(beyond);
    }
    for (int i = 0; i < 3; i++)
        hand_in(&worker[i], &stage->own[0]);
    expect_totals(stage->bucket, 1, &stage->tally, "beyond the table");
    for (unsigned i = 0; i < PROC_LEN(handle); i++)
        tundish_close(handle[i]);
    end_stage(stage);
}
END_TEST

static int count_until_killed(unsigned index, void *shared)
{
    struct stage *stage = shared;
    struct tundish *bucket = proc_open("one");
    for (int i = 0; i < 100; i++)
        try_and_note(bucket, 1, &stage->own[index]);
    kit_barrier_wait(&stage->barrier);
    while (pause())
        ;
    return 1;
}

START_TEST(a_place_of_the_dead_begins_anew_and_the_total_keeps_all)
{
    struct tundish_options options = proc_still_options(150, 150);
    struct stage *stage = new_stage(2, &options);
    for (int round = 1; round <= 5; round++) {
        struct kit_children *child = kit_spawn(1, count_until_killed, stage);
        kit_barrier_wait(&stage->barrier);
        kit_child_kill(child, 0);
        expect_totals(stage->bucket, 1, &stage->own[0], "after the kill");
        struct tdi_observe_instance dead = instance_of(stage->bucket[0], kit_child_pid(child, 0));
        ck_assert(!dead.may_live && dead.counts);
        ck_assert_uint_eq(tdi_stats_all(&dead.stats, TDI_COUNT_GRANTED) +
                              tdi_stats_all(&dead.stats, TDI_COUNT_REFUSED),
                          100);
        kit_collect(child, PATIENCE_NS);
        tdi_observe_bury(stage->bucket[0]);
        struct tundish *next = proc_open("one");
        struct tdi_observe_instance heir;
        ck_assert(tdi_observe_instance(stage->bucket[0], dead.instance.index, &heir));
        ck_assert(heir.instance.owner != dead.instance.owner && heir.counts);
        struct tally nothing;
        memset((void *)&nothing, 0, sizeof nothing);
        expect_same(&heir.stats, &nothing, "who comes after the dead");
        try_and_note(next, 150, &stage->own[0]);
        tundish_close(next);
        expect_totals(stage->bucket, 1, &stage->own[0], "after the next one");
    }
    end_stage(stage);
}
END_TEST

/* ---- many handles, and handlers ---- */

#define HANDLES 20   /* more than a thread has notes for */
#define MOMENTS 1009 /* instructions from one coming of a handler to the next: more than an attempt takes */

static struct {
    struct tundish *handle[HANDLES];
    struct tally tally;
    _Atomic(uint32_t) ran;
    unsigned before, act, intrude; /* handles used first, when the handler comes, and by it */
} many;

static void open_many(void)
{
    struct tundish_options options = proc_still_options(10000, 10000);
    memset((void *)&many, 0, sizeof many);
    many.handle[0] = proc_create("one", &options);
    for (unsigned i = 1; i < HANDLES; i++)
        many.handle[i] = proc_open("one");
}

static void close_many(void)
{
    for (unsigned i = 0; i < HANDLES; i++)
        tundish_close(many.handle[i]);
}

/* Each handle is the process's own instance, and has counted its share. */
static void expect_each(uint64_t operations)
{
    for (unsigned i = 0; i < HANDLES; i++) {
        struct tdi_observe_instance found;
        kit_expect(tdi_observe_instance(many.handle[0], i, &found) && found.counts, "place %u", i);
        uint64_t counted =
            tdi_stats_all(&found.stats, TDI_COUNT_GRANTED) + tdi_stats_all(&found.stats, TDI_COUNT_REFUSED);
        kit_expect(counted == operations, "handle %u: %llu operations in the file, %llu counted", i,
                   (unsigned long long)counted, (unsigned long long)operations);
    }
}

static void *use_in_turn(void *unused)
{
    for (int i = 0; i < 500; i++)
        for (unsigned k = 0; k < HANDLES; k++)
            try_and_note(many.handle[k], 1, &many.tally);
    return unused;
}

START_TEST(more_handles_than_notes_are_counted_each)
{
    pthread_t thread[10];
    open_many();
    for (unsigned i = 0; i < PROC_LEN(thread); i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, use_in_turn, NULL), 0);
    for (unsigned i = 0; i < PROC_LEN(thread); i++)
        pthread_join(thread[i], NULL);
    expect_totals(many.handle, 1, &many.tally, "in turn");
    expect_each(500 * PROC_LEN(thread));
    close_many();
}
END_TEST

static void use_some(int signal)
{
    static uint32_t random = 99;
    (void)signal;
    atomic_fetch_add(&many.ran, 1);
    for (int i = 0; i < 3; i++)
        try_and_note(many.handle[proc_random(&random, HANDLES)], 1, &many.tally);
}

START_TEST(handlers_that_use_the_same_handle_and_others_are_counted)
{
    struct sigaction action = {.sa_handler = use_some, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    uint32_t random = 1;
    open_many();
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    uint64_t end_ns = kit_now_ns() + KIT_SECOND;
    while (kit_now_ns() < end_ns)
        for (int i = 0; i < 1000; i++)
            try_and_note(many.handle[proc_random(&random, HANDLES)], 1, &many.tally);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    ck_assert_uint_gt(atomic_load(&many.ran), 100);
    expect_totals(many.handle, 1, &many.tally, "with handlers");
    close_many();
}
END_TEST

static void act_try(void *unused)
{
    (void)unused;
    (void)tundish_try_acquire(many.handle[many.act], 1);
}

/* Ends with the handle whose note its thread may be writing, or reading. */
static void intrude_try(void *unused)
{
    (void)unused;
    (void)tundish_try_acquire(many.handle[many.intrude], 1);
}

/* Handles are listed in the order they were opened. */
static uint64_t operations_of(unsigned handle)
{
    struct tdi_stats stats;
    memset(&stats, 0, sizeof stats);
    tdi_stats_add_place(&many.handle[0]->file->account[handle], &stats);
    return tdi_stats_all(&stats, TDI_COUNT_GRANTED) + tdi_stats_all(&stats, TDI_COUNT_REFUSED);
}

/* How often a handle is used in one round of the test below. */
static uint64_t uses_of(unsigned handle, unsigned long came)
{
    uint64_t uses = handle == many.before;
    uses += handle == many.act ? 2 : 0;
    uses += handle == many.intrude ? 1 + came : 0;
    return uses;
}

/* The note that is found is that of the handle used before. */
static void try_at_moments(unsigned long at, unsigned long every)
{
    uint64_t before[HANDLES];
    for (unsigned i = 0; i < HANDLES; i++)
        before[i] = operations_of(i);
    (void)tundish_try_acquire(many.handle[many.before], 1);
    unsigned long came = step_intrude_often(act_try, intrude_try, NULL, at, every);
    (void)tundish_try_acquire(many.handle[many.act], 1);
    (void)tundish_try_acquire(many.handle[many.intrude], 1);
    for (unsigned i = 0; i < HANDLES; i++) {
        uint64_t counted = operations_of(i) - before[i], due = uses_of(i, came);
        kit_expect(counted == due,
                   "%u interrupted by %u after instruction %lu and so on, with the note of %u: handle %u "
                   "counted %llu "
                   "instead of %llu",
                   many.act, many.intrude, at, many.before, i, (unsigned long long)counted,
                   (unsigned long long)due);
    }
}

/* Handles 1, 9 and 17 share a note. */
START_TEST(a_handler_at_any_moment_of_a_try_counts_where_it_belongs)
{
    static const unsigned cases[][3] = {{1, 1, 1}, {1, 1, 2},  {1, 1, 9}, {9, 1, 9},
                                        {9, 1, 1}, {17, 1, 9}, {2, 1, 1}};
    open_many();
    for (unsigned i = 0; i < HANDLES; i++)
        (void)tundish_try_acquire(many.handle[i], 1);
    many.before = cases[_i][0];
    many.act = cases[_i][1];
    many.intrude = cases[_i][2];
    for (unsigned long at = 1; at < 90; at++) /* while the note is looked at */
        try_at_moments(at, 0);
    for (unsigned long at = 90; at < 90 + MOMENTS; at += 61)
        try_at_moments(at, MOMENTS);
    close_many();
}
END_TEST

/* ---- waits that are left ---- */

static void *wait_for_ever(void *bucket)
{
    (void)tundish_acquire(bucket, 50);
    return NULL;
}

static void *wait_for_all_for_ever(void *bucket)
{
    struct tundish_demand demand = {bucket, 50};
    (void)tundish_acquire_all(&demand, 1, TUNDISH_NO_DEADLINE);
    return NULL;
}

START_TEST(a_cancelled_wait_has_ended_once)
{
    struct tundish_options options = proc_still_options(100, 10);
    struct tundish *bucket = proc_create("one", &options);
    struct tally tally;
    memset((void *)&tally, 0, sizeof tally);
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        bool all = round % 2;
        ck_assert_int_eq(pthread_create(&thread, NULL, all ? wait_for_all_for_ever : wait_for_ever, bucket),
                         0);
        proc_expect_in_line(bucket, 1);
        ck_assert_int_eq(pthread_cancel(thread), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        note(&tally, all ? TDI_KIND_ALL : TDI_KIND_ACQUIRE, 50, -ECANCELED);
        expect_totals(&bucket, 1, &tally, "after a cancellation");
    }
    tundish_close(bucket);
}
END_TEST

static sigjmp_buf way_out;

static void jump_out(int signal)
{
    (void)signal;
    siglongjmp(way_out, 1);
}

START_TEST(a_wait_that_is_jumped_out_of_has_ended_once)
{
    struct tundish_options options = proc_still_options(100, 10);
    struct sigaction action = {.sa_handler = jump_out};
    struct itimerval soon = {{0, 0}, {0, 100000}};
    struct tundish *bucket = proc_create("one", &options);
    struct tally tally;
    memset((void *)&tally, 0, sizeof tally);
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    for (int round = 0; round < 6; round++) {
        if (sigsetjmp(way_out, 1) == 0) {
            ck_assert_int_eq(setitimer(ITIMER_REAL, &soon, NULL), 0);
            (void)tundish_acquire(bucket, 50);
        }
        note(&tally, TDI_KIND_ACQUIRE, 50, -ECANCELED);
        expect_totals(&bucket, 1, &tally, "after a jump");
        ck_assert_uint_eq(proc_info(bucket).waiting, 0);
    }
    tundish_close(bucket);
}
END_TEST

START_TEST(waiters_that_are_given_up_have_ended_once)
{
    struct tundish_options options = proc_still_options(100, 10);
    struct tundish *bucket = proc_create("one", &options);
    struct tundish_waiter *waiter;
    struct tally tally;
    memset((void *)&tally, 0, sizeof tally);
    ck_assert_int_eq(tundish_waiter_start(bucket, 50, TUNDISH_NO_DEADLINE, &waiter), -EINPROGRESS);
    expect_totals(&bucket, 1, &tally, "in line");
    tundish_waiter_free(waiter);
    note(&tally, TDI_KIND_WAITER, 50, -ECANCELED);
    expect_totals(&bucket, 1, &tally, "given up");
    ck_assert_int_eq(tundish_waiter_start(bucket, 50, 0, &waiter), -ETIMEDOUT);
    note(&tally, TDI_KIND_WAITER, 50, -ETIMEDOUT);
    ck_assert_int_eq(tundish_waiter_start(bucket, 50, TUNDISH_NO_DEADLINE, &waiter), -EINPROGRESS);
    tundish_reset(bucket);
    ck_assert_int_eq(tundish_waiter_poll(waiter), 0);
    ck_assert_int_eq(tundish_waiter_poll(waiter), 0);
    tundish_waiter_free(waiter);
    note(&tally, TDI_KIND_WAITER, 50, 0);
    expect_totals(&bucket, 1, &tally, "granted, and asked again");
    tundish_close(bucket);
}
END_TEST

/* ---- a full file system ---- */

static bool mount_small(void)
{
    return unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", kit_tmpdir(), "tmpfs", 0, "size=256k") == 0;
}

static void fill_up(void)
{
    static const char page[4096];
    int fd = open(kit_tmpfile("filler"), O_WRONLY | O_CREAT, 0600);
    kit_expect(fd >= 0, "%s", strerror(errno));
    while (write(fd, page, sizeof page) == (ssize_t)sizeof page)
        ;
    kit_expect(errno == ENOSPC, "%s", strerror(errno));
    close(fd);
}

static int use_a_full_file_system(unsigned index, void *shared)
{
    struct tundish_options options = proc_still_options(1000, 1000);
    struct tdi_observe_instance found;
    struct tally counted;
    (void)index, (void)shared;
    memset((void *)&counted, 0, sizeof counted);
    kit_expect(mount_small(), "mount: %s", strerror(errno));
    struct tundish *first = proc_create("one", &options);
    try_and_note(first, 1, &counted);
    fill_up();
    struct tundish *second = proc_open("one");
    kit_expect(tundish_try_acquire(second, 10) == 0, "no tokens");
    kit_expect(tundish_try_acquire(second, 2000) == -E2BIG, "too many");
    kit_expect(tundish_acquire_for(second, 1000, KIT_MILLISECOND) == -ETIMEDOUT, "waited in vain");
    tundish_release(second, 5);
    try_and_note(first, 1, &counted);
    expect_totals(&first, 1, &counted, "without memory for the second");
    kit_expect(tdi_observe_instance(first, 1, &found) && found.may_live && !found.counts,
               "the second is not listed, or has an account");
    kit_expect(tundish_available(first) == 1000 - 7, "%u tokens", tundish_available(first));
    kit_expect(unlink(kit_tmpfile("filler")) == 0, "%s", strerror(errno));
    struct tundish *third = proc_open("one");
    try_and_note(third, 1, &counted);
    expect_totals(&first, 1, &counted, "with memory for the third");
    tundish_close(first);
    tundish_close(second);
    tundish_close(third);
    return 0;
}

START_TEST(a_handle_without_an_account_works_uncounted)
{
    kit_tmpdir();
    kit_collect(kit_spawn(1, use_a_full_file_system, NULL), PATIENCE_NS);
}
END_TEST

/* Whether this process may mount, as root or in a user namespace of its own. */
static bool may_mount(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
              mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
              mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k") != 0);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static Suite *disk(void)
{
    Suite *suite = suite_create("disk");
    TCase *full = kit_case(suite, "full");
    if (may_mount())
        tcase_add_test(full, a_handle_without_an_account_works_uncounted);
    else
        puts("left out: a full disk needs the right to mount one"); /* the other suite does not */
    return suite;
}

static Suite *counts(void)
{
    Suite *suite = suite_create("counts");
    TCase *crowds = kit_case(suite, "crowds");
    tcase_set_timeout(crowds, 60);
    tcase_add_test(crowds, tries_of_many_processes_are_counted_to_the_last);
    tcase_add_test(crowds, every_way_of_asking_is_counted_once);
    tcase_add_test(crowds, threads_that_come_and_go_are_all_counted);
    TCase *instances = kit_case(suite, "instances");
    tcase_add_test(instances, a_forked_child_is_an_instance_of_its_own);
    tcase_add_test(instances, handles_beyond_the_table_are_counted_in_the_total);
    tcase_add_test(instances, processes_beyond_the_table_are_counted_in_the_total);
    tcase_add_test(instances, threads_that_begin_together_beyond_the_table_are_counted_once);
    tcase_add_test(instances, a_place_of_the_dead_begins_anew_and_the_total_keeps_all);
    TCase *handlers = kit_case(suite, "handlers");
    tcase_set_timeout(handlers, 60);
    tcase_add_test(handlers, more_handles_than_notes_are_counted_each);
    tcase_add_test(handlers, handlers_that_use_the_same_handle_and_others_are_counted);
    if (STEP_CAN)
        tcase_add_loop_test(handlers, a_handler_at_any_moment_of_a_try_counts_where_it_belongs, 0, 7);
    TCase *left = kit_case(suite, "left");
    if (MAY_JUMP) {
        tcase_add_test(left, a_cancelled_wait_has_ended_once);
        tcase_add_test(left, a_wait_that_is_jumped_out_of_has_ended_once);
    }
    tcase_add_test(left, waiters_that_are_given_up_have_ended_once);
    return suite;
}

KIT_MAIN(counts, disk)
