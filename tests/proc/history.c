/* SPDX-License-Identifier: MIT */
/*
 * A window opens at the start of some grant and closes at the end of some grant; what it surely holds are the
 * grants that began and ended within. Walking the grants by their end, each one adds its tokens to every
 * window that opened no later than it began. With a tree over the openings that adds to a prefix and knows
 * the greatest of a prefix, all n^2 windows are looked at in n log n steps.
 */
#include "proc/history.h"

#include <stdlib.h>

#include "lib/handle.h"
#include "proc/proc.h"

/* Two processes' readings of the clock differ by less than a microsecond each. */
#define CLOCK_SLACK_NS 2000

struct tree {
    size_t leaves;
    int64_t *greatest; /* of the subtree, without what was added above it */
    int64_t *added;
};

void history_note(struct history *history, uint64_t before_ns, uint64_t after_ns, uint64_t tokens)
{
    if (history->count == HISTORY_MOST) {
        history->full = 1;
        return;
    }
    history->grant[history->count++] = (struct grant){before_ns, after_ns, tokens};
}

int history_try(struct history *history, struct tundish *bucket, uint32_t n)
{
    uint64_t before_ns = tundish_now_ns();
    int error = tundish_try_acquire(bucket, n);
    if (error == 0)
        history_note(history, before_ns, tundish_now_ns(), n);
    return error;
}

uint64_t history_total(const struct history *histories, unsigned parties)
{
    uint64_t total = 0;
    for (unsigned p = 0; p < parties; p++)
        for (size_t i = 0; i < histories[p].count; i++)
            total += histories[p].grant[i].tokens;
    return total;
}

uint64_t history_due_until(const struct tundish *bucket, const struct promise *promise, uint64_t at_ns)
{
    uint64_t at_us = tdi_handle_us(bucket, at_ns);
    if (promise->stepped)
        return at_us / promise->interval_us * promise->refill;
    return (uint64_t)((tdi_wide)at_us * promise->refill / promise->interval_us);
}

static int by_before(const void *a, const void *b)
{
    const struct grant *left = a, *right = b;
    return (left->before_ns > right->before_ns) - (left->before_ns < right->before_ns);
}

static int by_after(const void *a, const void *b)
{
    const struct grant *left = a, *right = b;
    return (left->after_ns > right->after_ns) - (left->after_ns < right->after_ns);
}

static void tree_add(struct tree *tree, size_t node, size_t from, size_t to, size_t last, int64_t amount)
{
    if (last >= to) {
        tree->added[node] += amount;
        tree->greatest[node] += amount;
        return;
    }
    size_t middle = from + (to - from) / 2;
    tree_add(tree, 2 * node, from, middle, last, amount);
    if (last > middle)
        tree_add(tree, 2 * node + 1, middle + 1, to, last, amount);
    int64_t left = tree->greatest[2 * node], right = tree->greatest[2 * node + 1];
    tree->greatest[node] = tree->added[node] + (left > right ? left : right);
}

static int64_t tree_greatest(const struct tree *tree, size_t node, size_t from, size_t to, size_t last)
{
    if (last >= to)
        return tree->greatest[node];
    size_t middle = from + (to - from) / 2;
    int64_t greatest = tree_greatest(tree, 2 * node, from, middle, last);
    if (last > middle) {
        int64_t right = tree_greatest(tree, 2 * node + 1, middle + 1, to, last);
        greatest = right > greatest ? right : greatest;
    }
    return tree->added[node] + greatest;
}

static void tree_set(struct tree *tree, size_t node, size_t from, size_t to, const int64_t *values)
{
    if (from == to) {
        tree->greatest[node] = values[from];
        return;
    }
    size_t middle = from + (to - from) / 2;
    tree_set(tree, 2 * node, from, middle, values);
    tree_set(tree, 2 * node + 1, middle + 1, to, values);
    int64_t left = tree->greatest[2 * node], right = tree->greatest[2 * node + 1];
    tree->greatest[node] = left > right ? left : right;
}

/* The last opening that is no later than `before_ns`. */
static size_t last_opening(const struct grant *openings, size_t count, uint64_t before_ns)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (openings[middle].before_ns <= before_ns)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    kit_expect(memory, "no memory");
    return memory;
}

static struct grant *merge(const struct history *histories, unsigned parties, size_t *count)
{
    size_t total = 0;
    for (unsigned p = 0; p < parties; p++)
        total += histories[p].count;
    struct grant *all = allocate(total + 1, sizeof *all);
    *count = 0;
    for (unsigned p = 0; p < parties; p++)
        for (size_t i = 0; i < histories[p].count; i++)
            all[(*count)++] = histories[p].grant[i];
    return all;
}

void history_check(const struct tundish *bucket, const struct history *histories, unsigned parties,
                   const struct promise *promise)
{
    size_t count;
    struct grant *openings = merge(histories, parties, &count);
    struct grant *endings = merge(histories, parties, &count);
    if (count > 0) {
        struct tree tree = {count, allocate(4 * count, sizeof(int64_t)),
                            allocate(4 * count, sizeof(int64_t))};
        int64_t *due = allocate(count, sizeof *due);
        qsort(openings, count, sizeof *openings, by_before);
        qsort(endings, count, sizeof *endings, by_after);
        for (size_t i = 0; i < count; i++)
            due[i] = (int64_t)history_due_until(bucket, promise, openings[i].before_ns - CLOCK_SLACK_NS);
        tree_set(&tree, 1, 0, count - 1, due);
        int64_t most = (int64_t)(promise->capacity + promise->slack);
        for (size_t j = 0; j < count; j++) {
            size_t last = last_opening(openings, count, endings[j].before_ns);
            tree_add(&tree, 1, 0, count - 1, last, (int64_t)endings[j].tokens);
            int64_t passed = tree_greatest(&tree, 1, 0, count - 1, last);
            passed -= (int64_t)history_due_until(bucket, promise, endings[j].after_ns + CLOCK_SLACK_NS);
            kit_expect(
                passed <= most,
                "a window that ends with grant %zu of %zu holds %lld tokens beyond what fell due in it; "
                "%lld were promised",
                j, count, (long long)passed, (long long)most);
        }
        free(due);
        free(tree.greatest);
        free(tree.added);
    }
    free(openings);
    free(endings);
}
