/* SPDX-License-Identifier: MIT */
/*
 * What does taking tokens cost? The public functions, through the shared library as users link it, beside
 * the clock reads that no exact limiter can do without, a bare compare-and-swap, and what one would write
 * otherwise: a bucket behind a mutex, with the library's own arithmetic and a clock read in each call.
 *
 *   full       capacity 1,000,000 at 1e9/s: each try takes a token
 *   reject     capacity 10 at 1/s, drained: each try is refused
 *   available  capacity 1000 at 100/s: how many are there?
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tundish/tundish.h>

#include "bench.h"
#include "core/rate.h"
#include "plat/clock.h"

#define ROUNDS 15
#define CONTESTANTS 16

enum scenario {
    FULL,
    REJECT,
    AVAILABLE,
    SCENARIOS
};

static const char *const scenario_name[SCENARIOS] = {"full", "reject", "available"};
static const struct tundish_options scenario_options[SCENARIOS] = {
    TUNDISH_OPTIONS_INIT(1000000, 1000000000),
    TUNDISH_OPTIONS_INIT(10, 1),
    TUNDISH_OPTIONS_INIT(1000, 100),
};

/* ---- the bucket behind a mutex ---- */

struct mutex_bucket {
    _Alignas(TDI_LINE_SIZE) pthread_mutex_t mutex;
    struct tdi_config config;
    uint64_t last_us;
    uint32_t tokens;
    bool robust;
    bool cheap_clock; /* the library's clock instead of the kernel's */
};

static uint64_t kernel_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * TDI_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void mutex_bucket_init(struct mutex_bucket *bucket, const struct tundish_options *options, bool shared,
                              bool robust, bool cheap_clock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
    pthread_mutexattr_setrobust(&attributes, robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
    pthread_mutex_init(&bucket->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    bucket->config = (struct tdi_config){
        .capacity = options->capacity, .refill = options->refill, .interval_us = options->interval_us};
    tdi_rate_prepare(&bucket->config);
    bucket->tokens = options->capacity;
    bucket->robust = robust;
    bucket->cheap_clock = cheap_clock;
    bucket->last_us = (cheap_clock ? tundish_now_ns() : kernel_clock_ns()) / TDI_NS_PER_US;
}

static void mutex_bucket_enter(struct mutex_bucket *bucket)
{
    uint64_t now_us = (bucket->cheap_clock ? tundish_now_ns() : kernel_clock_ns()) / TDI_NS_PER_US;
    if (pthread_mutex_lock(&bucket->mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&bucket->mutex);
    if (now_us <= bucket->last_us)
        return;
    uint64_t due = tdi_rate_due(&bucket->config, bucket->last_us, now_us);
    uint32_t room = bucket->config.capacity - bucket->tokens;
    bucket->tokens += due < room ? (uint32_t)due : room;
    bucket->last_us = now_us;
}

static int mutex_bucket_try(struct mutex_bucket *bucket, uint32_t n)
{
    mutex_bucket_enter(bucket);
    int result = bucket->tokens >= n ? 0 : -EAGAIN;
    if (result == 0)
        bucket->tokens -= n;
    pthread_mutex_unlock(&bucket->mutex);
    return result;
}

static uint32_t mutex_bucket_available(struct mutex_bucket *bucket)
{
    mutex_bucket_enter(bucket);
    uint32_t tokens = bucket->tokens;
    pthread_mutex_unlock(&bucket->mutex);
    return tokens;
}

/* ---- the loops ---- */

static void batch_try(void *context, uint64_t operations)
{
    struct tundish *bucket = context;
    int results = 0;
    for (; operations > 0; operations--)
        results |= tundish_try_acquire(bucket, 1);
    BENCH_KEEP(results);
}

static void batch_available(void *context, uint64_t operations)
{
    struct tundish *bucket = context;
    uint32_t sum = 0;
    for (; operations > 0; operations--)
        sum += tundish_available(bucket);
    BENCH_KEEP(sum);
}

static void batch_mutex_try(void *context, uint64_t operations)
{
    int results = 0;
    for (; operations > 0; operations--)
        results |= mutex_bucket_try(context, 1);
    BENCH_KEEP(results);
}

static void batch_mutex_available(void *context, uint64_t operations)
{
    uint32_t sum = 0;
    for (; operations > 0; operations--)
        sum += mutex_bucket_available(context);
    BENCH_KEEP(sum);
}

static void batch_counter(void *context, uint64_t operations)
{
    (void)context;
    for (; operations > 0; operations--)
        BENCH_KEEP(tdi_clock_ticks());
}

static void batch_now(void *context, uint64_t operations)
{
    (void)context;
    for (; operations > 0; operations--)
        BENCH_KEEP(tundish_now_ns());
}

static void batch_kernel_clock(void *context, uint64_t operations)
{
    (void)context;
    for (; operations > 0; operations--)
        BENCH_KEEP(kernel_clock_ns());
}

static void batch_swap(void *context, uint64_t operations)
{
    _Atomic(uint64_t) *word = context;
    for (; operations > 0; operations--) {
        uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
        while (!atomic_compare_exchange_weak_explicit(word, &seen, seen + 1, memory_order_acq_rel,
                                                      memory_order_acquire))
            ;
    }
}

/* ---- the field ---- */

/* In memory that forked workers share. */
struct ground {
    struct mutex_bucket mutex[SCENARIOS], robust[SCENARIOS], cheap[SCENARIOS];
    _Alignas(TDI_LINE_SIZE) _Atomic(uint64_t) word;
};

struct field {
    struct ground *ground;
    struct tundish *bucket[SCENARIOS];
    struct bench_contestant contestant[CONTESTANTS];
    size_t count;
    /* where they stand */
    size_t tundish, mutex, robust, cheap; /* the first of SCENARIOS */
    size_t counter, now, kernel_clock, swap;
};

static size_t enter(struct field *field, const char *name, bench_batch *batch, void *context)
{
    field->contestant[field->count] =
        (struct bench_contestant){.name = name, .batch = batch, .context = context};
    return field->count++;
}

static size_t enter_mutexes(struct field *field, const char *name, struct mutex_bucket *bucket, bool shared,
                            bool robust, bool cheap_clock)
{
    size_t first = field->count;
    for (int s = 0; s < SCENARIOS; s++) {
        mutex_bucket_init(&bucket[s], &scenario_options[s], shared, robust, cheap_clock);
        while (s == REJECT && mutex_bucket_try(&bucket[s], 1) == 0)
            ;
        enter(field, name, s == AVAILABLE ? batch_mutex_available : batch_mutex_try, &bucket[s]);
    }
    return first;
}

static void open_field(struct field *field, bool shared)
{
    *field = (struct field){.count = 0};
    struct ground *ground =
        mmap(NULL, sizeof *ground, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ground == MAP_FAILED)
        bench_fail("mmap", -errno);
    field->ground = ground;
    field->tundish = field->count;
    for (int s = 0; s < SCENARIOS; s++) {
        int error = tundish_create_private(&field->bucket[s], &scenario_options[s]);
        if (error)
            bench_fail("tundish_create_private", error);
        while (s == REJECT && tundish_try_acquire(field->bucket[s], 1) == 0)
            ;
        enter(field, "tundish", s == AVAILABLE ? batch_available : batch_try, field->bucket[s]);
    }
    field->counter = enter(field, "bare counter (rdtsc, cntvct)", batch_counter, NULL);
    field->now = enter(field, "bare tundish_now_ns", batch_now, NULL);
    field->kernel_clock = enter(field, "bare clock_gettime(BOOTTIME)", batch_kernel_clock, NULL);
    field->swap = enter(field, "bare compare-and-swap", batch_swap, &ground->word);
    field->mutex = enter_mutexes(field, "mutex bucket", ground->mutex, shared, false, false);
    field->robust = enter_mutexes(field, "robust shared mutex bucket", ground->robust, true, true, false);
    field->cheap = enter_mutexes(field, "mutex bucket, tundish's clock", ground->cheap, shared, false, true);
}

static void close_field(struct field *field)
{
    for (int s = 0; s < SCENARIOS; s++)
        tundish_close(field->bucket[s]);
    munmap(field->ground, sizeof *field->ground);
}

/* ---- the table ---- */

static size_t cheapest_clock(const struct field *field)
{
    size_t best = field->counter;
    for (size_t i = field->counter; i <= field->kernel_clock; i++)
        if (bench_median(&field->contestant[i].ns) < bench_median(&field->contestant[best].ns))
            best = i;
    return best;
}

static void print_ratios(const char *name, const struct bench_series ratio[SCENARIOS], double goal,
                         bool at_most)
{
    int missed = 0;
    printf("  %-34s", name);
    for (int s = 0; s < SCENARIOS; s++) {
        double median = bench_median(&ratio[s]);
        missed += at_most ? median > goal : median < goal;
        printf(" %6.2f (%5.2f ..%6.2f)", median, bench_percentile(&ratio[s], 10),
               bench_percentile(&ratio[s], 90));
    }
    if (goal > 0)
        printf("  goal %s %.1f: %s", at_most ? "<=" : ">=", goal, missed ? "missed" : "met");
    putchar('\n');
}

static void print_contestant(const struct bench_contestant *c, int columns)
{
    printf("  %-34s", c->name);
    for (int s = 0; s < columns; s++)
        printf(" %6.1f (%5.1f ..%6.1f)", bench_median(&c[s].ns), bench_percentile(&c[s].ns, 10),
               bench_percentile(&c[s].ns, 90));
    putchar('\n');
}

static void print_table(const struct field *field, const char *team, bool alone, size_t disturbed)
{
    const struct bench_contestant *c = field->contestant;
    size_t clock = cheapest_clock(field);
    struct bench_series to_clock[SCENARIOS], to_mutex[SCENARIOS], to_robust[SCENARIOS], to_cheap[SCENARIOS];
    for (size_t s = 0; s < SCENARIOS; s++) {
        const struct bench_series *ours = &c[field->tundish + s].ns;
        to_clock[s] = bench_ratio(ours, &c[clock].ns);
        to_mutex[s] = bench_ratio(&c[field->mutex + s].ns, ours);
        to_robust[s] = bench_ratio(&c[field->robust + s].ns, ours);
        to_cheap[s] = bench_ratio(&c[field->cheap + s].ns, ours);
    }
    printf("\ntry_acquire, %s\n  %-34s", team, "ratio, median (p10 .. p90)");
    for (int s = 0; s < SCENARIOS; s++)
        printf(" %*s%s", s ? 16 - (int)strlen(scenario_name[s - 1]) + 7 : 0, "", scenario_name[s]);
    putchar('\n');
    print_ratios("tundish / cheapest clock read", to_clock, alone ? 1.3 : 0, true);
    print_ratios("mutex bucket / tundish", to_mutex, alone ? 3 : 0, false);
    print_ratios("robust shared mutex / tundish", to_robust, 0, false);
    print_ratios("mutex, tundish's clock / tundish", to_cheap, 0, false);
    printf("  %s\n", alone ? "ns per operation" : "ns per operation and worker");
    print_contestant(&c[field->tundish], SCENARIOS);
    print_contestant(&c[field->mutex], SCENARIOS);
    print_contestant(&c[field->robust], SCENARIOS);
    print_contestant(&c[field->cheap], SCENARIOS);
    print_contestant(&c[field->counter], 1);
    print_contestant(&c[field->now], 1);
    print_contestant(&c[field->kernel_clock], 1);
    print_contestant(&c[field->swap], 1);
    if (!alone) {
        double ns = bench_median(&c[field->tundish + FULL].ns);
        bool together =
            disturbed * 4 < field->count * c[0].ns.count; /* else they did not meet often enough */
        printf("  two writers on one word: %.1f ns, goal <= 50: %s\n", ns,
               !together  ? "not judged, too few undisturbed rounds"
               : ns <= 50 ? "met"
                          : "missed");
    }
    if (disturbed > 0)
        printf("  %zu of %zu rounds shared their processors with others\n", disturbed,
               field->count * c[0].ns.count);
    fflush(stdout);
}

static void play(enum bench_team team, const char *name, double seconds)
{
    static struct field field;
    open_field(&field, team == BENCH_TWO_PROCESSES);
    size_t rounds = seconds < 1 ? 3 : ROUNDS;
    double round_ns =
        seconds * 1e9 / (double)(rounds * field.count) - 2e6; /* what a round needs to warm up */
    size_t disturbed = bench_play(field.contestant, field.count, team, rounds,
                                  round_ns > 1e6 ? (uint64_t)round_ns : 1000000);
    print_table(&field, name, team == BENCH_ONE_THREAD, disturbed);
    close_field(&field);
}

int main(int argc, char **argv)
{
    double seconds = bench_start(argc, argv, 24);
    printf("tundish   %s, through the shared library\n", tundish_version());
    play(BENCH_ONE_THREAD, "1 thread", seconds / 3);
    if (bench_processors() < BENCH_WORKERS) {
        printf("\ntry_acquire with two workers: left out, there is one processor\n");
        return 0;
    }
    play(BENCH_TWO_THREADS, "2 threads on one bucket", seconds / 3);
    play(BENCH_TWO_PROCESSES, "2 processes on one bucket", seconds / 3);
    return 0;
}
