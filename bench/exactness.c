/* SPDX-License-Identifier: MIT */
/*
 * Is a token lost or minted? A ledger in 128-bit integers follows each operation at the bucket's own stamps:
 *
 *     tokens = min(capacity, tokens + floor(stamp * refill / interval) - floor(last * refill / interval)) - n
 *
 * and every difference from what the bucket says it holds counts as an error, as does a refusal of tokens
 * that the ledger has. The real clock runs through the public functions; the simulated one through the core,
 * which takes time as an argument. Beside it stand two limiters as they are commonly written, looked at in
 * the same instants: one in integers that throws the rest of the division away, one in floating point.
 *
 * The status is 1 if there was an error.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tundish/tundish.h>

#include "bench.h"
#include "core/bucket.h"
#include "lib/handle.h"

#define US_PER_S UINT64_C(1000000)
#define HOUR_US (3600 * US_PER_S)

/* ---- the ledger ---- */

struct ledger {
    uint32_t refill, capacity;
    uint64_t interval_us;
    uint64_t last_us;
    uint64_t tokens;
    uint64_t granted;
    uint64_t errors; /* tokens */
};

static tdi_wide counted(const struct ledger *ledger, uint64_t at_us)
{
    return (tdi_wide)at_us * ledger->refill / ledger->interval_us;
}

static uint64_t tokens_at(const struct ledger *ledger, uint64_t at_us)
{
    if (at_us <= ledger->last_us)
        return ledger->tokens;
    tdi_wide sum = ledger->tokens + counted(ledger, at_us) - counted(ledger, ledger->last_us);
    return sum < ledger->capacity ? (uint64_t)sum : ledger->capacity;
}

static void book_grant(struct ledger *ledger, const struct tdi_layout *file, uint32_t n)
{
    uint64_t stamp_us = tdi_bucket_stamp(file);
    uint64_t had = tokens_at(ledger, stamp_us);
    uint64_t has = tdi_bucket_available(file, stamp_us);
    uint64_t should = had - n; /* below zero it wraps, and so does the difference */
    ledger->errors += has > should ? has - should : should - has;
    ledger->granted += n;
    ledger->tokens = has;
    ledger->last_us = stamp_us;
}

/* now_us was read before the refused call, which therefore had at least these tokens to find. */
static void book_refusal(struct ledger *ledger, uint64_t now_us, uint32_t n)
{
    uint64_t had = tokens_at(ledger, now_us);
    ledger->errors += had >= n ? n : 0;
}

/* ---- as commonly written ---- */

struct truncating {
    uint64_t last_us;
    uint64_t tokens;
    uint64_t granted;
};

static uint64_t truncating_look(struct truncating *t, const struct ledger *like, uint64_t now_us)
{
    uint64_t gained = (uint64_t)((tdi_wide)(now_us - t->last_us) * like->refill / like->interval_us);
    if (now_us > t->last_us && gained > 0) {
        t->tokens = gained < like->capacity - t->tokens ? t->tokens + gained : like->capacity;
        t->last_us = now_us; /* and the rest of the division is gone */
    }
    return t->tokens;
}

static void truncating_take(struct truncating *t, uint64_t n)
{
    t->tokens -= n;
    t->granted += n;
}

struct floating {
    uint64_t last_us;
    double tokens;
    uint64_t granted;
};

static uint64_t floating_look(struct floating *f, const struct ledger *like, uint64_t now_us)
{
    if (now_us > f->last_us) {
        double elapsed_s = (double)(now_us - f->last_us) / 1e6;
        f->tokens += elapsed_s * (like->refill / ((double)like->interval_us / 1e6));
        f->tokens = f->tokens < like->capacity ? f->tokens : like->capacity;
        f->last_us = now_us;
    }
    return (uint64_t)f->tokens;
}

static void floating_take(struct floating *f, uint64_t n)
{
    f->tokens -= (double)n;
    f->granted += n;
}

/* ---- patterns ---- */

enum looking {
    TIGHT,     /* one token, again and again; on the simulated clock until refused, each period */
    DRAINED,   /* all there is, once a period */
    IRREGULAR, /* up to three tokens after gaps of up to a period, the clock sometimes a bit behind */
};

struct pattern {
    const char *name;
    uint32_t refill;
    uint64_t interval_us;
    enum looking looking;
    uint64_t period_us;
    uint64_t length_us; /* 0: as long as there is time for */
};

static const struct pattern real_patterns[] = {
    {"333,333/s, tight", 333333, US_PER_S, TIGHT, 1, 0},
    {"1,500,000/s, tight", 1500000, US_PER_S, TIGHT, 1, 0},
    {"1,999,999/s, tight", 1999999, US_PER_S, TIGHT, 1, 0},
    {"3/s, each 0.6 s", 3, US_PER_S, DRAINED, 600000, 0},
    {"900/s, each 2 ms", 900, US_PER_S, DRAINED, 2000, 0},
};

static const struct pattern simulated_patterns[] = {
    {"333,333/s, each 1 us", 333333, US_PER_S, TIGHT, 1, 10 * US_PER_S},
    {"1,500,000/s, each 1 us", 1500000, US_PER_S, TIGHT, 1, 10 * US_PER_S},
    {"1,999,999/s, each 1 us", 1999999, US_PER_S, TIGHT, 1, 10 * US_PER_S},
    {"3/s, each 0.6 s", 3, US_PER_S, DRAINED, 600000, 600 * US_PER_S},
    {"900/s, each 2 ms", 900, US_PER_S, DRAINED, 2000, 10 * US_PER_S},
    {"4,294,967,295/s, each 1 us", UINT32_MAX, US_PER_S, DRAINED, 1, 10 * US_PER_S},
    {"7 per 3 s, irregular", 7, 3 * US_PER_S, IRREGULAR, 900000, 100000 * US_PER_S},
    {"999,983/s, irregular", 999983, US_PER_S, IRREGULAR, 5, 10 * US_PER_S},
    {"100 per day, each hour for a year", 100, 24 * HOUR_US, DRAINED, HOUR_US, 365 * 24 * HOUR_US},
    {"1 per 366 days, each day for 50 years", 1, 366 * 24 * HOUR_US, TIGHT, 24 * HOUR_US,
     50 * 365 * 24 * HOUR_US},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* One pattern under way. */
struct run {
    const struct pattern *pattern;
    struct tundish *bucket;
    struct ledger ledger;
    struct truncating truncating;
    struct floating floating;
    uint64_t random;
    uint64_t span_us; /* over which tokens fell due */
};

/* Enough that nothing is dropped while the pattern waits or stands aside. */
static uint32_t capacity_for(const struct pattern *pattern)
{
    uint64_t due = pattern->refill * (pattern->period_us + US_PER_S) / pattern->interval_us;
    const uint64_t least = 1000, most = UINT32_C(2000000000);
    return (uint32_t)(due < least ? least : due < most ? due : most);
}

static void run_open(struct run *run, const struct pattern *pattern)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(capacity_for(pattern), pattern->refill);
    options.interval_us = pattern->interval_us;
    options.initial = 0;
    options.flags = TUNDISH_STRICT; /* nobody waits here, and the highest rates leave no room for an extra */
    *run = (struct run){.pattern = pattern, .random = 88172645463325252u};
    run->ledger = (struct ledger){
        .refill = options.refill, .capacity = options.capacity, .interval_us = options.interval_us};
    int error = tundish_create_private(&run->bucket, &options);
    if (error)
        bench_fail("tundish_create_private", error);
    run->ledger.last_us = tdi_bucket_stamp(run->bucket->file);
}

static uint64_t draw(struct run *run, uint64_t below)
{
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return run->random % below;
}

static void book(struct run *run, uint64_t now_us, uint32_t n, int result)
{
    if (result == 0)
        book_grant(&run->ledger, run->bucket->file, n);
    else if (result == -EAGAIN)
        book_refusal(&run->ledger, now_us, n);
    else
        bench_fail("acquire", result);
}

/* The others give all they have to who drains, else as many as the bucket is asked for. */
static void look_at_others(struct run *run, uint64_t now_us, uint32_t n, bool drain)
{
    uint64_t tokens = truncating_look(&run->truncating, &run->ledger, now_us);
    if (drain || tokens >= n)
        truncating_take(&run->truncating, drain ? tokens : n);
    tokens = floating_look(&run->floating, &run->ledger, now_us);
    if (drain || tokens >= n)
        floating_take(&run->floating, drain ? tokens : n);
}

/* ---- the real clock, the public functions ---- */

static void sleep_until_us(uint64_t at_us)
{
    struct timespec at = {.tv_sec = (time_t)(at_us / US_PER_S), .tv_nsec = (long)(at_us % US_PER_S * 1000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static void play_real(struct run *run, uint64_t length_us)
{
    bool drain = run->pattern->looking == DRAINED;
    uint64_t next_us = bench_now_ns() / 1000;
    uint64_t start_us = tdi_handle_now_us(run->bucket);
    uint64_t now_us = start_us;
    run->truncating.last_us = run->floating.last_us = run->ledger.last_us;
    while (now_us - start_us < length_us) {
        uint32_t n = 1;
        if (drain) {
            next_us += run->pattern->period_us;
            sleep_until_us(next_us);
        }
        now_us = tdi_handle_now_us(run->bucket);
        if (drain)
            n = tundish_available(run->bucket);
        if (n > 0)
            book(run, now_us, n, tundish_try_acquire(run->bucket, n));
        look_at_others(run, now_us, n, drain);
    }
    run->span_us = now_us;
}

/* ---- the simulated clock, the core ---- */

static void play_simulated(struct run *run, uint64_t length_us)
{
    const struct pattern *pattern = run->pattern;
    struct tdi_layout *file = run->bucket->file;
    bool drain = pattern->looking == DRAINED, again = pattern->looking == TIGHT;
    uint64_t base_us = 0, now_us = 0;
    while (base_us < length_us) {
        uint32_t n = 1;
        base_us += pattern->looking == IRREGULAR ? draw(run, pattern->period_us) : pattern->period_us;
        now_us = base_us;
        if (pattern->looking == IRREGULAR) {
            n = (uint32_t)draw(run, 3) + 1;
            now_us -= draw(run, 16) == 0 ? draw(run, base_us < 1000 ? base_us + 1 : 1000) : 0;
        }
        if (drain)
            n = tdi_bucket_available(file, now_us);
        int result;
        do {
            result = n > 0 ? tdi_bucket_try(file, now_us, n) : -EAGAIN;
            if (n > 0)
                book(run, now_us, n, result);
        } while (again && result == 0);
        look_at_others(run, now_us, n, drain || again);
    }
    run->span_us = base_us;
}

/* ---- the tables ---- */

static void print_heading(const char *what)
{
    printf("\nexactness, %s\n  %-40s %9s %10s %14s %16s\n", what, "tokens granted, of those due", "tundish",
           "error", "truncating", "floating point");
}

static double percent(const struct run *run, uint64_t granted, uint64_t left)
{
    return 100 * (double)(granted + left) / (double)counted(&run->ledger, run->span_us);
}

/* What is still there counts as granted: it is not lost, only not asked for yet. */
static uint64_t print_run(const struct run *run)
{
    uint64_t left = tokens_at(&run->ledger, run->span_us);
    printf("  %-40s %7.3f %% %4" PRIu64 " tokens %12.3f %% %14.3f %%\n", run->pattern->name,
           percent(run, run->ledger.granted, left), run->ledger.errors,
           percent(run, run->truncating.granted, run->truncating.tokens),
           percent(run, run->floating.granted, (uint64_t)run->floating.tokens));
    fflush(stdout);
    return run->ledger.errors;
}

static uint64_t play_all_real(double seconds)
{
    uint64_t errors = 0;
    struct run run;
    print_heading("real clock");
    for (size_t i = 0; i < COUNT(real_patterns); i++) {
        run_open(&run, &real_patterns[i]);
        play_real(&run, (uint64_t)(seconds * 1e6 / (double)COUNT(real_patterns)));
        errors += print_run(&run);
        tundish_close(run.bucket);
    }
    return errors;
}

static uint64_t play_all_simulated(bool brief)
{
    uint64_t errors = 0;
    struct run run;
    print_heading(brief ? "simulated clock, a tenth of the time" : "simulated clock");
    for (size_t i = 0; i < COUNT(simulated_patterns); i++) {
        run_open(&run, &simulated_patterns[i]);
        play_simulated(&run, simulated_patterns[i].length_us / (brief ? 10 : 1));
        errors += print_run(&run);
        tundish_close(run.bucket);
    }
    return errors;
}

/* What an idle bucket lets through at once, beyond what falls due meanwhile, in capacities. */
static double burst_after_idling(void)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(1000, 100000);
    struct tundish *bucket;
    uint64_t granted = 0;
    int error = tundish_create_private(&bucket, &options);
    if (error)
        bench_fail("tundish_create_private", error);
    sleep_until_us(bench_now_ns() / 1000 + 50000);
    uint64_t start_us = tdi_handle_now_us(bucket);
    while (tundish_try_acquire(bucket, 1) == 0)
        granted++;
    uint64_t end_us = tdi_handle_now_us(bucket);
    tundish_close(bucket);
    uint64_t due = (uint64_t)(counted(&(struct ledger){.refill = 100000, .interval_us = US_PER_S}, end_us) -
                              counted(&(struct ledger){.refill = 100000, .interval_us = US_PER_S}, start_us));
    return granted <= 1000 + due && granted >= 1000 ? 1 : (double)(granted - due) / 1000;
}

/* The same of a bucket that looks at the clock only when its stored tokens are used up. */
static double burst_without_clock(void)
{
    const uint64_t capacity = 1000, refill = 100000, idle_us = 50000;
    uint64_t tokens = capacity, last_us = 0, granted = 0;
    for (;;) {
        if (tokens == 0) {
            uint64_t gained = (idle_us - last_us) * refill / US_PER_S;
            tokens = gained < capacity ? gained : capacity;
            last_us = idle_us;
        }
        if (tokens == 0)
            return (double)granted / (double)capacity;
        tokens--;
        granted++;
    }
}

int main(int argc, char **argv)
{
    double seconds = bench_start(argc, argv, 25);
    uint64_t errors = play_all_real(seconds);
    errors += play_all_simulated(seconds < 5);
    double burst = burst_after_idling();
    printf("\n  granted at once after idling, in capacities: tundish %.3f, without a clock on the fast path "
           "%.3f\n",
           burst, burst_without_clock());
    printf("  errors: %" PRIu64 " tokens, goal 0: %s\n", errors, errors || burst != 1 ? "missed" : "met");
    return errors > 0 || burst != 1;
}
