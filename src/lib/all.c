/* SPDX-License-Identifier: MIT */
/* See all.h. A bucket that is named more than once, also through two handles, is asked for the sum. */
#include "lib/all.h"

#include <errno.h>

#include "core/config.h"
#include "lib/acquire.h"

static bool is_same_file(const struct tundish *a, const struct tundish *b)
{
    if (a->inode != 0 || b->inode != 0)
        return a->device == b->device && a->inode == b->inode;
    return a->file == b->file;
}

/* What is asked of the bucket of demand i in all, or 0 if an earlier demand stands for it. */
static uint64_t demanded(const struct tundish_demand *demands, size_t count, size_t i)
{
    uint64_t sum = 0;
    for (size_t j = 0; j < count; j++) {
        if (!is_same_file(demands[j].bucket, demands[i].bucket))
            continue;
        if (j < i)
            return 0;
        sum += demands[j].n;
    }
    return sum;
}

/* 0, or -E2BIG with the first that can never be met. */
static int check_demands(const struct tundish_demand *demands, size_t count, size_t *too_big)
{
    for (size_t i = 0; i < count; i++) {
        struct tdi_config config;
        tdi_config_read(demands[i].bucket->file, &config);
        if (demanded(demands, count, i) > config.capacity) {
            *too_big = i;
            return -E2BIG;
        }
    }
    return 0;
}

static int draw(const struct tundish_demand *demand, uint32_t n)
{
    return n == 0 ? 0 : tdi_acquire_draw(demand->bucket, n);
}

/*
 * The outcome, for each bucket. Who waited, and who was refused, did so for one of them, and that is where it
 * counts.
 */
static void count_all(const struct tundish_demand *demands, size_t count, int error, size_t culprit,
                      uint64_t began_ns)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t n = (uint32_t)demanded(demands, count, i);
        if (i == culprit || (error == 0 && n > 0))
            tdi_acquire_count(demands[i].bucket, TDI_KIND_ALL, n, error, i == culprit ? began_ns : 0);
    }
}

/* All but demand `held`, which the caller has; *short_of is the one that refused. All or none. */
static int try_others(const struct tundish_demand *demands, size_t count, size_t held, size_t *short_of)
{
    int error = 0;
    size_t i = 0;
    for (; i < count; i++) {
        if (i == held)
            continue;
        error = draw(&demands[i], (uint32_t)demanded(demands, count, i));
        if (error)
            break;
    }
    *short_of = i;
    while (error && i-- > 0)
        if (i != held)
            tdi_acquire_return(demands[i].bucket, (uint32_t)demanded(demands, count, i));
    return error;
}

static int try_all(const struct tundish_demand *demands, size_t count, size_t *short_of)
{
    int error = check_demands(demands, count, short_of);
    if (!error)
        error = try_others(demands, count, count, short_of);
    if (!error)
        count_all(demands, count, 0, count, 0);
    return error;
}

int tdi_all_try(const struct tundish_demand *demands, size_t count)
{
    size_t short_of;
    return try_all(demands, count, &short_of);
}

int tundish_try_acquire_all(const struct tundish_demand *demands, size_t count)
{
    size_t short_of;
    int error = try_all(demands, count, &short_of);
    if (error)
        count_all(demands, count, error, short_of, 0);
    return error;
}

void tdi_all_begin(struct tdi_all *all, const struct tundish_demand *demands, size_t count,
                   const sigset_t *mask)
{
    *all = (struct tdi_all){.demands = demands, .count = count, .mask = mask};
}

void tdi_all_begin_deaf(struct tdi_all *all, const struct tundish_demand *demands, size_t count)
{
    *all = (struct tdi_all){.demands = demands, .count = count, .deaf = true};
}

static void line_up(struct tdi_all *all, size_t i)
{
    uint32_t n = (uint32_t)demanded(all->demands, all->count, i);
    all->waits_for = i;
    all->in_line = true;
    tdi_line_begin(&all->line, all->demands[i].bucket, n, all->deaf, TDI_KIND_ALL);
    if (all->began_ns == 0)
        all->began_ns = all->line.began_ns;
    if (all->mask)
        tdi_line_heed_signals(&all->line, all->mask);
}

/* Goes for the others once the line has granted; lines up where one refused. */
static int try_rest(struct tdi_all *all, size_t held, uint64_t deadline_ns)
{
    size_t short_of;
    int error = check_demands(all->demands, all->count, &short_of);
    if (!error)
        error = try_others(all->demands, all->count, held, &short_of);
    if (error)
        all->waits_for = short_of; /* or would, if there were time */
    if (error && held < all->count)
        tdi_acquire_return(all->demands[held].bucket, (uint32_t)demanded(all->demands, all->count, held));
    if (error == -EAGAIN && tdi_clock_now_ns() >= deadline_ns)
        return -ETIMEDOUT;
    if (error == -EAGAIN)
        line_up(all, short_of);
    return error;
}

/* It is over. */
static int finish(struct tdi_all *all, int error)
{
    bool waited = all->began_ns != 0;
    count_all(all->demands, all->count, error, error || waited ? all->waits_for : all->count, all->began_ns);
    return error;
}

int tdi_all_wait(struct tdi_all *all, uint64_t deadline_ns)
{
    int error = all->in_line ? -EAGAIN : try_rest(all, all->count, deadline_ns);
    while (error == -EAGAIN) {
        error = tdi_line_wait(&all->line, deadline_ns);
        if (error == -EINTR)
            return error;
        all->in_line = false;
        if (error == 0)
            error = try_rest(all, all->waits_for, deadline_ns);
    }
    return finish(all, error);
}

int tdi_all_poll(struct tdi_all *all, uint64_t deadline_ns)
{
    int error = all->in_line ? -EAGAIN : try_rest(all, all->count, deadline_ns);
    while (error == -EAGAIN) {
        error = tdi_line_poll(&all->line, deadline_ns);
        if (error == -EINPROGRESS)
            return error;
        all->in_line = false;
        if (error == 0)
            error = try_rest(all, all->waits_for, deadline_ns);
    }
    return finish(all, error);
}

void tdi_all_end(struct tdi_all *all)
{
    if (all->in_line) {
        tdi_line_end(&all->line);
        if (!all->line.counted)
            finish(all, -ECANCELED);
    }
    all->in_line = false;
}

int tundish_acquire_all(const struct tundish_demand *demands, size_t count, uint64_t deadline_ns)
{
    struct tdi_all all;
    int error;
    tdi_all_begin(&all, demands, count, NULL);
    do
        error = tdi_all_wait(&all, deadline_ns);
    while (error == -EINTR);
    return error;
}
