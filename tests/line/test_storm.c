/* SPDX-License-Identifier: MIT */
/*
 * Crowds in line while some of them are killed, stopped, cancelled, timed out and forked, thousands of times.
 * What everybody wants stands in shared memory before it asks, what it got after: so the books can be closed
 * to the token but for what the dead had in hand. 2,000 deaths by default, TUNDISH_STORM_KILLS says otherwise,
 * --long is 10,000.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tundish/tundish.h>
#include <unistd.h>

#include "core/word.h"
#include "kit/kit.h"
#include "lib/handle.h"
#include "proc/proc.h"

#define WORKERS_MOST 16
#define THREADS_MOST 16
#define ACQUIRE_LIMIT_NS (20 * KIT_SECOND) /* nobody waits that long in a line that moves */
#define KILLS 2000

struct cell {
    _Atomic(uint64_t) wanted; /* by the worker's thread, and by a child it forked */
    _Atomic(uint64_t) wanted_by_child;
};

struct storm {
    struct tundish *bucket;
    uint32_t capacity;
    uint32_t most_n;
    unsigned workers;
    unsigned threads; /* of each worker; 0: none but its own */
    _Atomic(uint32_t) seed;
    _Atomic(int) over;
    _Atomic(uint64_t) granted;
    struct cell cell[WORKERS_MOST][THREADS_MOST];
    _Atomic(uint64_t) grants[WORKERS_MOST];
};

struct worker {
    struct storm *storm;
    unsigned number;
    unsigned thread;
    uint32_t random;
};

static unsigned kills_wanted;

static void note(struct worker *worker, int error, uint32_t n)
{
    struct storm *storm = worker->storm;
    kit_expect(error == 0 || error == -ETIMEDOUT, "%s", tundish_strerror(error));
    if (error == 0) {
        atomic_fetch_add(&storm->granted, n);
        atomic_fetch_add(&storm->grants[worker->number], 1);
    }
}

static struct cell *cell_of(const struct worker *worker)
{
    return &worker->storm->cell[worker->number][worker->thread];
}

static void wait_patiently(struct worker *worker, uint32_t n)
{
    int error = tundish_acquire_for(worker->storm->bucket, n, ACQUIRE_LIMIT_NS);
    kit_expect(error == 0, "%u tokens, without an end: %s", n, tundish_strerror(error));
    note(worker, error, n);
}

static void wait_impatiently(struct worker *worker, uint32_t n)
{
    uint64_t timeout_ns = proc_random(&worker->random, 40) * KIT_MILLISECOND / 2;
    note(worker, tundish_acquire_for(worker->storm->bucket, n, timeout_ns), n);
}

static void poll_for_a_while(struct worker *worker, struct tundish_waiter *waiter, uint32_t n, uint32_t looks)
{
    int error = -EINPROGRESS;
    while (error == -EINPROGRESS && looks-- > 0) {
        uint64_t next_ns = tundish_waiter_next_ns(waiter), now_ns = tundish_now_ns();
        kit_sleep_ns(next_ns > now_ns ? next_ns - now_ns : 0);
        error = tundish_waiter_poll(waiter);
    }
    if (error != -EINPROGRESS)
        note(worker, error, n);
}

/* As an event loop does it, and often not to the end. */
static void wait_by_polling(struct worker *worker, uint32_t n)
{
    struct tundish_waiter *waiter;
    int error = tundish_waiter_start(worker->storm->bucket, n, TUNDISH_NO_DEADLINE, &waiter);
    if (error != -EINPROGRESS) {
        note(worker, error, n);
        return;
    }
    poll_for_a_while(worker, waiter, n, proc_random(&worker->random, 6));
    tundish_waiter_free(waiter);
}

/* Forks in line: the child lines up anew with the same waiter. */
static void wait_and_fork(struct worker *worker, uint32_t n)
{
    struct tundish_waiter *waiter;
    int error = tundish_waiter_start(worker->storm->bucket, n, TUNDISH_NO_DEADLINE, &waiter);
    if (error != -EINPROGRESS) {
        note(worker, error, n);
        return;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        atomic_store(&cell_of(worker)->wanted_by_child, n);
        if (getppid() == parent)
            poll_for_a_while(worker, waiter, n, 3);
        tundish_waiter_free(waiter);
        atomic_store(&cell_of(worker)->wanted_by_child, 0);
        _exit(0);
    }
    poll_for_a_while(worker, waiter, n, 3);
    tundish_waiter_free(waiter);
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void *wait_to_be_cancelled(void *argument)
{
    struct worker *worker = argument;
    uint32_t n = (uint32_t)atomic_load(&cell_of(worker)->wanted);
    int error = tundish_acquire_for(worker->storm->bucket, n, ACQUIRE_LIMIT_NS), unused;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    note(worker, error, n);
    return NULL;
}

static void cancel(struct worker *worker)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_to_be_cancelled, worker) != 0)
        return;
    kit_sleep_ns(proc_random(&worker->random, 20) * KIT_MILLISECOND / 4);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct storm *storm = worker->storm;
    while (!atomic_load(&storm->over)) {
        uint32_t n = 1 + proc_random(&worker->random, proc_random(&worker->random, 8) ? 3 : storm->most_n);
        uint32_t act = proc_random(&worker->random, 10);
        atomic_store(&cell_of(worker)->wanted, n);
        if (act == 0)
            wait_by_polling(worker, n);
        else if (act == 1 && storm->threads == 0)
            wait_and_fork(worker, n);
        else if (act == 2 && storm->threads == 0)
            cancel(worker);
        else if (act < 6)
            wait_impatiently(worker, n);
        else
            wait_patiently(worker, n);
        atomic_store(&cell_of(worker)->wanted, 0);
    }
    return NULL;
}

static int run_worker(unsigned unused, void *argument)
{
    struct worker start = *(struct worker *)argument, each[THREADS_MOST];
    pthread_t thread[THREADS_MOST];
    (void)unused;
    start.random = 1 + atomic_fetch_add(&start.storm->seed, 0x9e3779b9);
    if (start.storm->threads == 0) {
        work(&start);
        return 0;
    }
    for (unsigned i = 0; i < start.storm->threads; i++) {
        each[i] = start;
        each[i].thread = i;
        each[i].random = start.random * 31 + i + 1;
        kit_expect(pthread_create(&thread[i], NULL, work, &each[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < start.storm->threads; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

/* What worker `number` may have taken with it. */
static uint64_t bury(struct storm *storm, unsigned number)
{
    uint64_t wanted = 0;
    for (unsigned i = 0; i < THREADS_MOST; i++) {
        wanted += atomic_exchange(&storm->cell[number][i].wanted, 0);
        wanted += atomic_exchange(&storm->cell[number][i].wanted_by_child, 0);
    }
    return wanted;
}

struct weather {
    struct kit_children *crowd[WORKERS_MOST];
    struct worker argument[WORKERS_MOST];
    bool stopped[WORKERS_MOST];
    uint64_t lost; /* at most */
    unsigned kills;
};

static void start_worker(struct storm *storm, struct weather *weather, unsigned number)
{
    weather->argument[number] = (struct worker){.storm = storm, .number = number};
    weather->crowd[number] = kit_spawn(1, run_worker, &weather->argument[number]);
    weather->stopped[number] = false;
}

static void strike(struct storm *storm, struct weather *weather, uint32_t *random)
{
    unsigned number = proc_random(random, storm->workers);
    pid_t pid = kit_child_pid(weather->crowd[number], 0);
    switch (proc_random(random, 10)) {
    case 0:
        kill(pid, SIGSTOP);
        weather->stopped[number] = true;
        return;
    case 1:
    case 2:
        for (unsigned i = 0; i < storm->workers; i++)
            if (weather->stopped[i])
                kill(kit_child_pid(weather->crowd[i], 0), SIGCONT);
        memset(weather->stopped, 0, sizeof weather->stopped);
        return;
    default:
        kit_expect(!kit_child_ended(weather->crowd[number], 0), "worker %u ended by itself", number);
        kit_child_kill(weather->crowd[number], 0);
        kit_collect(weather->crowd[number], KIT_SECOND);
        kit_sleep_ns(KIT_MILLISECOND); /* its own children die with it, a moment later */
        weather->lost += bury(storm, number);
        weather->kills++;
        start_worker(storm, weather, number);
    }
}

static void expect_books(const struct storm *storm, const struct weather *weather, bool to_the_token)
{
    struct tdi_config config;
    tdi_config_read(storm->bucket->file, &config);
    struct tdi_word word = tdi_word_look(storm->bucket->file);
    uint64_t generated = tdi_rate_due(&config, 0, word.last_us);
    uint64_t seen = atomic_load(&storm->granted) + (word.bits & TDI_WORD_TOKENS);
    printf("%u deaths: %llu generated, %llu granted, %llu left, at most %llu with the dead\n", weather->kills,
           (unsigned long long)generated, (unsigned long long)atomic_load(&storm->granted),
           (unsigned long long)(word.bits & TDI_WORD_TOKENS), (unsigned long long)weather->lost);
    kit_expect(seen <= generated, "%llu tokens came from nowhere", (unsigned long long)(seen - generated));
    if (to_the_token)
        kit_expect(seen + weather->lost >= generated, "%llu tokens are missing",
                   (unsigned long long)(generated - seen - weather->lost));
}

static void rage(struct storm *storm, unsigned kills, uint64_t pause_ns, bool to_the_token)
{
    struct weather *weather = calloc(1, sizeof *weather);
    uint32_t random = 12345;
    kit_expect(weather, "no memory");
    for (unsigned i = 0; i < storm->workers; i++)
        start_worker(storm, weather, i);
    uint64_t granted = 0, moved_ns = kit_now_ns();
    while (weather->kills < kills) {
        kit_sleep_ns(proc_random(&random, (uint32_t)(2 * pause_ns)));
        strike(storm, weather, &random);
        uint64_t now = atomic_load(&storm->granted);
        if (now != granted)
            moved_ns = kit_now_ns();
        granted = now;
        kit_expect(kit_now_ns() - moved_ns < 6 * KIT_SECOND, "nobody got anything for 6 s after %u deaths",
                   weather->kills);
    }
    atomic_store(&storm->over, 1);
    for (unsigned i = 0; i < storm->workers; i++)
        kill(kit_child_pid(weather->crowd[i], 0), SIGCONT);
    for (unsigned i = 0; i < storm->workers; i++)
        kit_collect(weather->crowd[i], 30 * KIT_SECOND);
    expect_books(storm, weather, to_the_token);
    free(weather);
}

static struct storm *new_storm(uint32_t capacity, uint32_t rate, uint32_t flags)
{
    struct tundish_options options = proc_options(capacity, rate, 1000000);
    struct storm *storm = kit_shared_new(sizeof *storm);
    options.initial = 0;
    options.flags = flags;
    storm->bucket = proc_create_private(&options);
    storm->capacity = capacity;
    storm->most_n = 5 * capacity;
    storm->workers = 12;
    return storm;
}

START_TEST(a_storm_over_a_small_bucket_mints_nothing_and_stops_nobody)
{
    struct storm *storm = new_storm(10, 4000, _i ? TUNDISH_UNFAIR : 0);
    rage(storm, kills_wanted * 3 / 10, 2 * KIT_MILLISECOND, false);
    tundish_close(storm->bucket);
}
END_TEST

START_TEST(a_storm_over_a_bucket_that_never_overflows_is_accounted_for_to_the_token)
{
    struct storm *storm = new_storm(100000000, 4000, 0);
    storm->most_n = 50;
    rage(storm, kills_wanted * 3 / 10, 2 * KIT_MILLISECOND, true);
    tundish_close(storm->bucket);
}
END_TEST

START_TEST(more_threads_than_slots_weather_a_storm)
{
    struct storm *storm = new_storm(20, 8000, 0);
    storm->workers = 6;
    storm->threads = 16;
    rage(storm, kills_wanted / 10, 6 * KIT_MILLISECOND, false);
    tundish_close(storm->bucket);
}
END_TEST

/* Sixteen in one bucket. */

static int take_one_by_one(unsigned index, void *shared)
{
    struct storm *storm = shared;
    while (!atomic_load(&storm->over)) {
        int error = tundish_acquire_for(storm->bucket, 1, ACQUIRE_LIMIT_NS);
        kit_expect(error == 0, "%s", tundish_strerror(error));
        atomic_fetch_add(&storm->grants[index], 1);
        atomic_fetch_add(&storm->granted, 1);
    }
    return 0;
}

static double fairness(const uint64_t *before, const struct storm *storm)
{
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < 16; i++) {
        double got = (double)(atomic_load(&storm->grants[i]) - before[i]);
        sum += got;
        squares += got * got;
    }
    return squares > 0 ? sum * sum / (16 * squares) : 0;
}

START_TEST(sixteen_processes_share_evenly_at_the_full_rate)
{
    double best = 0, rate = 0;
    struct storm *storm = new_storm(20, 2000, 0);
    struct kit_children *crowd = kit_spawn(16, take_one_by_one, storm);
    for (int round = 0; round < 3 && (best < 0.99 || rate < 0.9); round++) {
        uint64_t before[16], granted = atomic_load(&storm->granted), start_ns = kit_now_ns();
        for (unsigned i = 0; i < 16; i++)
            before[i] = atomic_load(&storm->grants[i]);
        kit_sleep_ns(4 * KIT_SECOND);
        double got = (double)(atomic_load(&storm->granted) - granted);
        double of_rate = got / (2000.0 * (double)(kit_now_ns() - start_ns) / 1e9);
        double even = fairness(before, storm);
        printf("16 processes at 2000/s: Jain %.5f, %.2f %% of the rate\n", even, 100 * of_rate);
        best = even > best ? even : best;
        rate = of_rate > rate ? of_rate : rate;
    }
    atomic_store(&storm->over, 1);
    kit_collect(crowd, 20 * KIT_SECOND);
    kit_expect(best >= 0.97, "Jain's index is %f at best", best);
    kit_expect(rate >= 0.7, "%f of the rate at best", rate);
    tundish_close(storm->bucket);
}
END_TEST

static int take_one_by_one_as(unsigned unused, void *argument)
{
    const struct worker *worker = argument;
    (void)unused;
    return take_one_by_one(worker->number, worker->storm);
}

START_TEST(the_rate_recovers_within_3_s_of_200_deaths)
{
    struct storm *storm = new_storm(20, 2000, 0);
    struct worker argument[16];
    struct kit_children *crowd[16];
    uint32_t random = 99;
    for (unsigned i = 0; i < 16; i++) {
        argument[i] = (struct worker){.storm = storm, .number = i};
        crowd[i] = kit_spawn(1, take_one_by_one_as, &argument[i]);
    }
    for (unsigned k = 0; k < 200; k++) {
        unsigned i = proc_random(&random, 16);
        kit_sleep_ns(proc_random(&random, 10) * KIT_MILLISECOND);
        kit_child_kill(crowd[i], 0);
        kit_collect(crowd[i], KIT_SECOND);
        crowd[i] = kit_spawn(1, take_one_by_one_as, &argument[i]);
    }
    uint64_t end_ns = kit_now_ns() + 3 * KIT_SECOND;
    for (;;) {
        uint64_t granted = atomic_load(&storm->granted), start_ns = kit_now_ns();
        kit_sleep_ns(300 * KIT_MILLISECOND);
        uint64_t due = (kit_now_ns() - start_ns) * 2000 / KIT_SECOND;
        uint64_t got = atomic_load(&storm->granted) - granted;
        if (got * 10 >= due * 8)
            break;
        kit_expect(kit_now_ns() < end_ns, "only %llu of %llu", (unsigned long long)got,
                   (unsigned long long)due);
    }
    atomic_store(&storm->over, 1);
    for (unsigned i = 0; i < 16; i++)
        kit_collect(crowd[i], 20 * KIT_SECOND);
    tundish_close(storm->bucket);
}
END_TEST

static Suite *storm_suite(void)
{
    Suite *suite = suite_create("storm");
    TCase *deaths = kit_case(suite, "deaths");
    tcase_add_loop_test(deaths, a_storm_over_a_small_bucket_mints_nothing_and_stops_nobody, 0, 2);
    tcase_add_test(deaths, a_storm_over_a_bucket_that_never_overflows_is_accounted_for_to_the_token);
    tcase_add_test(deaths, more_threads_than_slots_weather_a_storm);
    TCase *crowd = kit_case(suite, "crowd");
    tcase_add_test(crowd, sixteen_processes_share_evenly_at_the_full_rate);
    tcase_add_test(crowd, the_rate_recovers_within_3_s_of_200_deaths);
    return suite;
}

int main(int argc, char **argv)
{
    const char *chosen = getenv("TUNDISH_STORM_KILLS");
    kills_wanted = chosen && *chosen ? (unsigned)strtoul(chosen, NULL, 0) : KILLS;
    if (argc > 1 && strcmp(argv[1], "--long") == 0)
        kills_wanted = 10000;
    return kit_run((kit_suite_fn *const[]){storm_suite, NULL});
}
