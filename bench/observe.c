/* SPDX-License-Identifier: MIT */
/*
 * What does being observable cost, and being observed? tundish_try_acquire through the shared library, beside
 * the same function without counts, records and probes (bare_acquire.c), on the same buckets in the same rounds.
 *
 *   full    capacity 1,000,000 at 1e9/s: each try takes a token
 *   reject  capacity 10 at 1/s, drained: each try is refused. With leases the capacity is 1,000,000: there are
 *           none for less than some thousands
 */
#include "observe.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tundish/tundish.h>

#include "bench.h"

#define ROUNDS 31
#define US 1000L
#define REGISTERS 256
#define RESTING_S 3

enum scenario {
    FULL,
    REJECT,
    SCENARIOS
};

static const char *const scenario_name[SCENARIOS] = {"full", "reject"};
static const struct tundish_options scenario_options[SCENARIOS] = {
    TUNDISH_OPTIONS_INIT(1000000, 1000000000),
    TUNDISH_OPTIONS_INIT(10, 1),
};

/* The contestants, for each scenario one. Bare and counted first: only those can play in forked processes. */
enum entry {
    BARE,
    COUNTED,
    EVERY_64,
    EVERY_1,
    LEASED,
    DRAINED, /* not with two threads: the drainer has the other processor */
    ENTRIES
};

static const char *const entry_name[ENTRIES] = {
    "bare",
    "counted",
    "1 in 64 recorded, sidecar",
    "each recorded, sidecar",
    "leased",
    "each recorded, drained at once",
};

/* ---- the loops ---- */

/* The first through the real one: a child that was just forked gets its place by it. */
static void batch_bare(void *context, uint64_t operations)
{
    struct tundish *bucket = context;
    int results = tundish_try_acquire(bucket, 1);
    for (; operations > 1; operations--)
        results |= bare_acquire(bucket, 1);
    BENCH_KEEP(results);
}

static void batch_counted(void *context, uint64_t operations)
{
    struct tundish *bucket = context;
    int results = 0;
    for (; operations > 0; operations--)
        results |= tundish_try_acquire(bucket, 1);
    BENCH_KEEP(results);
}

/* ---- a drainer that does nothing else, while somebody records ---- */

static _Atomic(uint64_t) asked; /* batches, so that the drainer knows */
static _Atomic(bool) over;
static _Atomic(uint64_t) drained;

static void batch_drained(void *context, uint64_t operations)
{
    atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
    batch_counted(context, operations);
}

static void drain_while_asked(struct tundish **buckets, const struct tdi_drainer *drainer)
{
    uint64_t before, records = 0;
    do {
        before = atomic_load_explicit(&asked, memory_order_relaxed);
        for (int looks = 0; looks < 4096; looks++)
            for (int s = 0; s < SCENARIOS; s++)
                records += bare_drain(drainer, buckets[s]);
    } while (atomic_load_explicit(&asked, memory_order_relaxed) != before);
    atomic_fetch_add_explicit(&drained, records, memory_order_relaxed);
}

static void *drain(void *context)
{
    struct tundish **buckets = context;
    const struct timespec moment = {0, 200 * US};
    struct tdi_drainer drainer;
    uint64_t seen = 0;
    bench_pin(1);
    for (int s = 0; s < SCENARIOS; s++) {
        int error = bare_attend(&drainer, buckets[s], 1);
        if (error)
            bench_fail("tdi_drainer_attend", error);
    }
    while (!atomic_load(&over)) {
        if (atomic_load_explicit(&asked, memory_order_relaxed) != seen)
            drain_while_asked(buckets, &drainer);
        seen = atomic_load_explicit(&asked, memory_order_relaxed);
        nanosleep(&moment, NULL);
    }
    for (int s = 0; s < SCENARIOS; s++)
        bare_leave(&drainer, buckets[s]);
    return NULL;
}

/* ---- the field ---- */

struct field {
    struct tundish *plain[SCENARIOS], *sparse[SCENARIOS], *dense[SCENARIOS], *leased[SCENARIOS],
        *drained[SCENARIOS];
    struct bench_contestant contestant[ENTRIES * SCENARIOS]; /* by entry, then scenario */
    size_t count;
    bool leases; /* are to be had */
    pthread_t drainer;
};

static struct tundish *open_bucket_of(enum scenario scenario, uint32_t capacity)
{
    struct tundish *bucket;
    struct tundish_options options = scenario_options[scenario];
    options.capacity = capacity;
    int error = tundish_create_private(&bucket, &options);
    if (error)
        bench_fail("tundish_create_private", error);
    while (scenario == REJECT && tundish_try_acquire(bucket, 1) == 0)
        ;
    return bucket;
}

static struct tundish *open_bucket(enum scenario scenario)
{
    return open_bucket_of(scenario, scenario_options[scenario].capacity);
}

static int stay_direct(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    (void)bucket;
    (void)stats;
    (void)context;
    return TUNDISH_DIRECT;
}

static int be_leased(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context)
{
    (void)bucket;
    (void)stats;
    (void)context;
    return TUNDISH_LEASED;
}

static void watch(struct tundish *bucket,
                  int (*decide)(struct tundish *, const struct tundish_sidecar_stats *, void *),
                  uint32_t every)
{
    struct tundish_sidecar_policy policy = TUNDISH_SIDECAR_POLICY_INIT;
    policy.decide = decide;
    policy.every = every;
    int error = tundish_sidecar_register(bucket, &policy);
    if (error)
        bench_fail("tundish_sidecar_register", error);
}

/* The sidecar asks its policy once something has been done. False: this kernel has no leases. */
static bool lease(struct tundish *bucket)
{
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    watch(bucket, be_leased, 0);
    tundish_try_acquire(bucket, 1);
    tundish_sidecar_scan();
    int error = tundish_sidecar_stats(bucket, &stats);
    if (error)
        bench_fail("tundish_sidecar_stats", error);
    return stats.strategy == TUNDISH_LEASED;
}

static void enter(struct field *field, enum entry entry, struct tundish **buckets, bench_batch *batch)
{
    for (size_t s = 0; s < SCENARIOS; s++)
        field->contestant[entry * SCENARIOS + s] =
            (struct bench_contestant){.name = entry_name[entry], .batch = batch, .context = buckets[s]};
    field->count = (entry + 1) * SCENARIOS;
}

static void open_watched(struct field *field)
{
    for (enum scenario s = 0; s < SCENARIOS; s++) {
        watch(field->sparse[s] = open_bucket(s), stay_direct, 64);
        watch(field->dense[s] = open_bucket(s), stay_direct, 1);
        field->leased[s] = open_bucket_of(s, scenario_options[FULL].capacity);
        field->leases = lease(field->leased[s]);
    }
    enter(field, EVERY_64, field->sparse, batch_counted);
    enter(field, EVERY_1, field->dense, batch_counted);
    enter(field, LEASED, field->leased, batch_counted);
}

static void open_drained(struct field *field)
{
    for (enum scenario s = 0; s < SCENARIOS; s++)
        field->drained[s] = open_bucket(s);
    atomic_store(&over, false);
    int error = pthread_create(&field->drainer, NULL, drain, field->drained);
    if (error)
        bench_fail("pthread_create", -error);
    enter(field, DRAINED, field->drained, batch_drained);
}

static bool has(const struct field *field, enum entry entry)
{
    return field->count > entry * SCENARIOS && (entry != LEASED || field->leases);
}

static void open_field(struct field *field, enum bench_team team)
{
    *field = (struct field){.count = 0};
    for (enum scenario s = 0; s < SCENARIOS; s++)
        field->plain[s] = open_bucket(s);
    enter(field, BARE, field->plain, batch_bare);
    enter(field, COUNTED, field->plain, batch_counted);
    if (team != BENCH_TWO_PROCESSES)
        open_watched(field);
    if (team == BENCH_ONE_THREAD && bench_processors() > 1)
        open_drained(field);
}

static void close_field(struct field *field)
{
    if (has(field, DRAINED)) {
        atomic_store(&over, true);
        pthread_join(field->drainer, NULL);
    }
    for (size_t s = 0; s < SCENARIOS; s++) {
        tundish_close(field->plain[s]);
        tundish_close(field->sparse[s]);
        tundish_close(field->dense[s]);
        tundish_close(field->leased[s]);
        tundish_close(field->drained[s]);
    }
}

/* ---- the table ---- */

static const struct bench_series *series_of(const struct field *field, enum entry entry, enum scenario s)
{
    return &field->contestant[entry * SCENARIOS + s].ns;
}

static void print_spread(const struct bench_series *series, const char *format)
{
    printf(format, bench_median(series), bench_percentile(series, 10), bench_percentile(series, 90));
}

static const char *verdict(bool judged, bool missed)
{
    return !judged ? "not judged, too few undisturbed rounds" : missed ? "missed" : "met";
}

static void print_ratios(const struct field *field, enum entry above, enum entry below, double goal,
                         bool judged)
{
    char name[64];
    bool missed = false;
    if (!has(field, above))
        return;
    snprintf(name, sizeof name, "%s / %s", entry_name[above], entry_name[below]);
    printf("  %-42s", name);
    for (enum scenario s = 0; s < SCENARIOS; s++) {
        struct bench_series ratio = bench_ratio(series_of(field, above, s), series_of(field, below, s));
        missed |= bench_median(&ratio) > goal;
        print_spread(&ratio, " %7.3f (%6.3f ..%7.3f)");
    }
    if (goal > 0)
        printf("  goal <= %.2f: %s", goal, verdict(judged, missed));
    putchar('\n');
}

static void print_times(const struct field *field, enum entry entry)
{
    if (!has(field, entry))
        return;
    printf("  %-42s", entry_name[entry]);
    for (enum scenario s = 0; s < SCENARIOS; s++)
        print_spread(series_of(field, entry, s), " %7.2f (%6.2f ..%7.2f)");
    putchar('\n');
}

static void print_table(const struct field *field, const char *team, bool alone, size_t disturbed)
{
    /* Two workers that seldom run at the same time do not get in each other's way. */
    bool judged = alone || disturbed * 4 < field->count * series_of(field, BARE, FULL)->count;
    printf("\nobserved try_acquire, %s\n  %-42s %7s %24s\n", team, "ratio, median (p10 .. p90)",
           scenario_name[FULL], scenario_name[REJECT]);
    print_ratios(field, COUNTED, BARE, alone ? 1.03 : 1.05, judged);
    print_ratios(field, EVERY_64, COUNTED, 0, judged);
    print_ratios(field, EVERY_1, COUNTED, 1.35, judged);
    print_ratios(field, DRAINED, COUNTED, 1.35, judged);
    print_ratios(field, LEASED, COUNTED, 0, judged);
    printf("  %s\n", alone ? "ns per operation" : "ns per operation and worker");
    for (enum entry entry = 0; entry < ENTRIES; entry++)
        print_times(field, entry);
    if (!alone && has(field, LEASED)) {
        double ns = bench_median(series_of(field, LEASED, FULL));
        printf("  two threads with leases: %.2f ns, goal <= 3: %s\n", ns, verdict(judged, ns > 3));
    }
    if (disturbed > 0)
        printf("  %zu of %zu rounds shared their processors with others\n", disturbed,
               field->count * series_of(field, BARE, FULL)->count);
    fflush(stdout);
}

static void play(enum bench_team team, const char *name, double seconds)
{
    static struct field field;
    open_field(&field, team);
    size_t rounds = seconds < 1 ? 3 : ROUNDS;
    double round_ns =
        seconds * 1e9 / (double)(rounds * field.count) - 2e6; /* what a round needs to warm up */
    size_t disturbed = bench_play(field.contestant, field.count, team, rounds,
                                  round_ns > 1e6 ? (uint64_t)round_ns : 1000000);
    print_table(&field, name, team == BENCH_ONE_THREAD, disturbed);
    close_field(&field);
}

/* ---- the sidecar itself ---- */

static void measure_registering(void)
{
    struct bench_series in = {.count = 0}, out = {.count = 0};
    struct tundish *bucket = open_bucket(FULL), *other = open_bucket(FULL);
    watch(other, NULL, 0); /* starts the thread */
    for (int i = 0; i < REGISTERS; i++) {
        uint64_t begin = bench_now_ns();
        watch(bucket, NULL, 0);
        uint64_t middle = bench_now_ns();
        int error = tundish_sidecar_unregister(bucket);
        uint64_t end = bench_now_ns();
        if (error)
            bench_fail("tundish_sidecar_unregister", error);
        bench_add(&in, (double)(middle - begin) / 1e3);
        bench_add(&out, (double)(end - middle) / 1e3);
    }
    printf("\nthe process's sidecar\n");
    print_spread(&in, "  register                    %8.2f us (%5.2f ..%7.2f)\n");
    print_spread(&out, "  unregister                  %8.2f us (%5.2f ..%7.2f)\n");
    tundish_close(other);
    tundish_close(bucket);
}

/* A number from a file of the sidecar's thread, after `field`; 0 if there is none. */
static uint64_t read_number(const char *thread, const char *file, const char *field)
{
    char path[320], line[256];
    uint64_t number = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, file);
    FILE *stream = fopen(path, "re");
    while (stream && fgets(line, sizeof line, stream))
        if (strncmp(line, field, strlen(field)) == 0)
            number = strtoull(line + strlen(field), NULL, 10);
    if (stream)
        fclose(stream);
    return number;
}

static bool is_sidecar(const char *thread)
{
    char path[320], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread);
    FILE *stream = fopen(path, "re");
    bool is = stream && fgets(name, sizeof name, stream) && strcmp(name, "tundish-sidecar\n") == 0;
    if (stream)
        fclose(stream);
    return is;
}

static bool find_sidecar(char *out, size_t size)
{
    DIR *tasks = opendir("/proc/self/task");
    bool found = false;
    for (struct dirent *entry; tasks && !found && (entry = readdir(tasks));) {
        found = is_sidecar(entry->d_name);
        snprintf(out, size, "%s", entry->d_name);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static void measure_rest(const char *what, double seconds)
{
    char thread[300];
    if (!find_sidecar(thread, sizeof thread)) {
        printf("  %-27s no thread, or no /proc\n", what);
        return;
    }
    const struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    uint64_t woken = read_number(thread, "status", "voluntary_ctxt_switches:");
    uint64_t ran_ns = read_number(thread, "schedstat", "");
    uint64_t begin = bench_now_ns();
    nanosleep(&rest, NULL);
    double took_s = (double)(bench_now_ns() - begin) / 1e9;
    woken = read_number(thread, "status", "voluntary_ctxt_switches:") - woken;
    ran_ns = read_number(thread, "schedstat", "") - ran_ns;
    printf("  %-27s %8.1f wake-ups a second, %.4f %% of a processor\n", what, (double)woken / took_s,
           (double)ran_ns / took_s / 1e7);
    fflush(stdout);
}

static void measure_sidecar(double seconds)
{
    struct tundish *bucket;
    measure_registering();
    measure_rest("nothing registered", seconds);
    bucket = open_bucket(FULL);
    watch(bucket, NULL, 0);
    measure_rest("one registered, idle", seconds);
    tundish_close(bucket);
}

int main(int argc, char **argv)
{
    double seconds = bench_start(argc, argv, 36);
    double share = seconds / 3;
    play(BENCH_ONE_THREAD, "1 thread", share);
    if (bench_processors() < BENCH_WORKERS) {
        printf("\nobserved try_acquire with two workers: left out, there is one processor\n");
    } else {
        play(BENCH_TWO_THREADS, "2 threads on one bucket", share);
        play(BENCH_TWO_PROCESSES, "2 processes on one bucket", share / 2);
    }
    measure_sidecar(share / 4 < RESTING_S ? share / 4 : RESTING_S);
    return 0;
}
