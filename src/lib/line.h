/* SPDX-License-Identifier: MIT */
/*
 * One acquire that waits, over the core's line: with a thread asleep in it, or driven by an event loop. Lives
 * where its user puts it, the stack or the heap. In a forked child it lines up anew, for all of its tokens.
 */
#ifndef TUNDISH_LIB_LINE_H
#define TUNDISH_LIB_LINE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/queue.h"
#include "core/stats.h"
#include "lib/handle.h"
#include "lib/repair.h"

struct tdi_line {
    struct tundish *bucket;
    uint32_t n;
    enum tdi_layout_kind kind; /* it is counted as */
    uint64_t began_ns;
    bool counted;
    bool left;
    bool deaf;
    const sigset_t *mask; /* sleep with this one, see tdi_line_heed_signals; NULL: sleep on the bell */
    bool forked;          /* it had to start over: this is a child of whom it was begun by */
    uint64_t wake_ns;     /* when another look is worth while */
    struct tdi_queue_waiter waiter;
    struct tdi_repair_claims claims;
};

void tdi_line_begin(struct tdi_line *line, struct tundish *bucket, uint32_t n, bool deaf,
                    enum tdi_layout_kind kind);

/* Counts how it ended; waits that are cancelled or jumped out of count themselves. */
void tdi_line_count(struct tdi_line *line, int error);

/*
 * For a caller that has blocked its signals and must not miss one: the waits let in what `mask` lets in.
 * Nobody can ring such a waiter; it looks again by itself at the latest when its promise says.
 */
void tdi_line_heed_signals(struct tdi_line *line, const sigset_t *mask);

/* Goes on as far as it goes without sleeping: 0 granted, -EINPROGRESS, -ETIMEDOUT with all given back. */
int tdi_line_poll(struct tdi_line *line, uint64_t deadline_ns);

/*
 * Sleeps until granted: 0, -ETIMEDOUT with all given back, or -EINTR after a signal handler ran, still in
 * line. A cancellation point, which gives all back.
 */
int tdi_line_wait(struct tdi_line *line, uint64_t deadline_ns);

/* Leaves the line, giving all back. Fine in any state. */
void tdi_line_end(struct tdi_line *line);

#endif
