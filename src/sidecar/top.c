/* SPDX-License-Identifier: MIT */
/*
 * Looks and differences. Each bucket keeps the sums of its last look, and when that was: rates are of the time
 * that really went by. What shrinks between two looks was scribbled on and counts as nothing.
 */
#include "sidecar/top.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

double tdi_top_asked(const struct tundish_info *info)
{
    return info->interval_us ? (double)info->refill * 1e6 / (double)info->interval_us : 0;
}

static uint64_t grown(uint64_t now, uint64_t before)
{
    uint64_t more = now - before;
    return more <= INT64_MAX ? more : 0;
}

static void sum_up(struct tdi_top_counts *out, const struct tdi_stats *stats)
{
    out->tokens = tdi_stats_all(stats, TDI_COUNT_TOKENS);
    out->released = stats->sum[TDI_SUM_RELEASED];
    out->refused = tdi_stats_all(stats, TDI_COUNT_REFUSED);
    out->operations =
        tdi_stats_all(stats, TDI_COUNT_GRANTED) + out->refused + tdi_stats_all(stats, TDI_COUNT_ENDED);
    out->waited_ns = stats->sum[TDI_SUM_WAITED_NS];
}

static struct tdi_top_rates rates_between(const struct tdi_top_counts *before,
                                          const struct tdi_top_counts *now, uint64_t span_ns)
{
    double seconds = (double)(span_ns ? span_ns : 1) / (double)TDI_TOP_NS_PER_S;
    uint64_t taken = grown(now->tokens, before->tokens), back = grown(now->released, before->released);
    return (struct tdi_top_rates){
        .measured = true,
        .tokens = (double)(taken > back ? taken - back : 0) /
                  seconds, /* tokens of an earlier interval may be back */
        .operations = (double)grown(now->operations, before->operations) / seconds,
        .refused = (double)grown(now->refused, before->refused) / seconds,
        .waited_ns = grown(now->waited_ns, before->waited_ns),
    };
}

static const struct tdi_top_instance *find_instance(const struct tdi_top_bucket *bucket, uint64_t owner)
{
    for (uint32_t i = 0; i < bucket->instances; i++)
        if (bucket->instance[i].owner == owner)
            return &bucket->instance[i];
    return NULL;
}

/* An instance that was not there at the last look began to count after it. */
static void take_instance(struct tdi_top_instance *out, const struct tdi_top_bucket *bucket,
                          const struct tdi_observe_instance *seen, uint64_t span_ns)
{
    static const struct tdi_top_counts nothing;
    const struct tdi_top_instance *before = find_instance(bucket, seen->instance.owner);
    *out = (struct tdi_top_instance){
        .owner = seen->instance.owner,
        .pid = seen->who.pid,
        .strategy = seen->strategy,
        .counts = seen->counts,
    };
    memcpy(out->program, seen->who.program, TDI_PROGRAM_LEN);
    sum_up(&out->counted, &seen->stats);
    if (seen->counts && span_ns)
        out->rates = rates_between(before ? &before->counted : &nothing, &out->counted, span_ns);
}

static void take_instances(struct tdi_top_bucket *bucket, uint64_t span_ns)
{
    struct tdi_observe_instance seen;
    struct tdi_top_instance *now = calloc(TDI_LAYOUT_INSTANCES, sizeof(*now));
    uint32_t count = 0;
    for (uint32_t i = 0; now && i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_observe_instance(bucket->bucket, i, &seen) && seen.may_live)
            take_instance(&now[count++], bucket, &seen, span_ns);
    free(bucket->instance);
    struct tdi_top_instance *fitting = now ? reallocarray(now, count + 1, sizeof(*now)) : NULL;
    bucket->instance = fitting ? fitting : now;
    bucket->instances = count;
}

static void take_waits(struct tdi_top_bucket *bucket, const struct tdi_stats *total, bool measured)
{
    uint64_t fresh[TDI_LAYOUT_WAITS];
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
        fresh[i] = measured ? grown(total->waits[i], bucket->waits[i]) : 0;
    bucket->p50_ns = tdi_stats_wait_quantile_ns(fresh, 0.5);
    bucket->p99_ns = tdi_stats_wait_quantile_ns(fresh, 0.99);
    memcpy(bucket->waits, total->waits, sizeof(bucket->waits));
}

static void take_total(struct tdi_top_bucket *bucket, uint64_t span_ns)
{
    struct tdi_stats total;
    struct tdi_top_counts now;
    tdi_observe_total(bucket->bucket, &total);
    sum_up(&now, &total);
    take_waits(bucket, &total, span_ns > 0);
    if (span_ns > 0) {
        double asked = tdi_top_asked(&bucket->info);
        bucket->rates = rates_between(&bucket->counted, &now, span_ns);
        bucket->used = asked > 0 ? bucket->rates.tokens / asked : 0;
        bucket->history[bucket->intervals++ % TDI_TOP_HISTORY] = bucket->used;
    }
    bucket->counted = now;
}

static void look(struct tdi_top_bucket *bucket)
{
    uint64_t now_ns = tundish_now_ns();
    uint64_t span_ns = bucket->at_ns && now_ns > bucket->at_ns ? now_ns - bucket->at_ns : 0;
    bucket->info = (struct tundish_info)TUNDISH_INFO_INIT;
    tundish_info(bucket->bucket, &bucket->info); /* its size is right, so it cannot fail */
    take_total(bucket, span_ns);
    take_instances(bucket, span_ns);
    bucket->at_ns = now_ns;
    bucket->seen = true;
}

static void free_bucket(struct tdi_top_bucket *bucket)
{
    if (!bucket)
        return;
    tundish_close(bucket->bucket);
    free(bucket->name);
    free(bucket->label);
    free(bucket->path);
    free(bucket->instance);
    free(bucket);
}

/* Whether the name still is this bucket, and all of it. */
static bool is_there(const struct tdi_top_bucket *bucket)
{
    struct stat facts;
    return lstat(bucket->path, &facts) == 0 && (uint64_t)facts.st_size == bucket->size &&
           tdi_observe_is_file(bucket->bucket, facts.st_dev, facts.st_ino);
}

static int open_bucket(struct tdi_top_bucket *bucket, const char *name, const char *label)
{
    char path[PATH_MAX];
    struct stat facts;
    int error = tundish_path(name, path, sizeof(path));
    if (error)
        return error;
    bucket->name = strdup(name);
    bucket->label = strdup(label);
    bucket->path = strdup(path);
    if (!bucket->name || !bucket->label || !bucket->path)
        return -ENOMEM;
    error = tdi_observe_open(&bucket->bucket, name);
    if (!error && lstat(path, &facts) == 0)
        bucket->size = (uint64_t)facts.st_size;
    return error;
}

static int add_bucket(struct tdi_top *top, const char *name, const char *label)
{
    struct tdi_top_bucket **more = reallocarray(top->bucket, top->count + 1, sizeof(struct tdi_top_bucket *));
    if (!more)
        return -ENOMEM;
    top->bucket = more;
    struct tdi_top_bucket *bucket = calloc(1, sizeof(*bucket));
    int error = bucket ? open_bucket(bucket, name, label) : -ENOMEM;
    if (!error && !is_there(bucket)) /* it has just been changed for another */
        error = -ENOENT;
    if (error) {
        free_bucket(bucket);
        return error;
    }
    top->bucket[top->count++] = bucket;
    look(bucket);
    return 0;
}

static int add(struct tdi_top *top, const char *name, const char *label)
{
    int error = add_bucket(top, name, label);
    if (error && error != -ENOENT)
        top->closed++;
    return error;
}

static void remove_at(struct tdi_top *top, size_t i)
{
    free_bucket(top->bucket[i]);
    memmove(&top->bucket[i], &top->bucket[i + 1], (--top->count - i) * sizeof(struct tdi_top_bucket *));
}

static size_t find(const struct tdi_top *top, const char *name)
{
    size_t i = 0;
    while (i < top->count && strcmp(top->bucket[i]->name, name) != 0)
        i++;
    return i;
}

void tdi_top_begin(struct tdi_top *top)
{
    for (size_t i = 0; i < top->count; i++)
        top->bucket[i]->seen = false;
    top->closed = 0;
}

int tdi_top_see(struct tdi_top *top, const char *name, const char *label)
{
    size_t i = find(top, name);
    if (i == top->count)
        return add(top, name, label);
    if (top->bucket[i]->seen)
        return 0;
    if (!is_there(top->bucket[i])) {
        remove_at(top, i);
        return add(top, name, label);
    }
    look(top->bucket[i]);
    return 0;
}

void tdi_top_end(struct tdi_top *top)
{
    for (size_t i = top->count; i-- > 0;)
        if (!top->bucket[i]->seen)
            remove_at(top, i);
}

static int by_double(double left, double right)
{
    return (left < right) - (left > right);
}

static double key_of(const struct tdi_top_bucket *bucket, enum tdi_top_key key)
{
    switch (key) {
    case TDI_TOP_BY_RATE:
        return bucket->rates.tokens;
    case TDI_TOP_BY_WAITING:
        return bucket->info.waiting;
    case TDI_TOP_BY_P99:
        return (double)bucket->p99_ns;
    case TDI_TOP_BY_USED:
        return bucket->used;
    case TDI_TOP_BY_NAME:
        break;
    }
    return 0;
}

static int compare(const void *left, const void *right, void *key)
{
    const struct tdi_top_bucket *a = *(struct tdi_top_bucket *const *)left;
    const struct tdi_top_bucket *b = *(struct tdi_top_bucket *const *)right;
    enum tdi_top_key by = *(enum tdi_top_key *)key;
    int order = (a->instances == 0) - (b->instances == 0);
    if (order == 0)
        order = by_double(key_of(a, by), key_of(b, by));
    return order ? order : strcmp(a->label, b->label);
}

void tdi_top_sort(struct tdi_top *top, enum tdi_top_key key)
{
    if (top->count > 1)
        qsort_r(top->bucket, top->count, sizeof(struct tdi_top_bucket *), compare, &key);
}

void tdi_top_free(struct tdi_top *top)
{
    while (top->count > 0)
        remove_at(top, top->count - 1);
    free(top->bucket);
    *top = (struct tdi_top){.bucket = NULL};
}
