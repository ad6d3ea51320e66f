/* SPDX-License-Identifier: MIT */
/*
 * Recorded grants, and whether they keep the promise: in no window more than capacity + due. Each party
 * (thread or process) writes its own history; a grant took effect somewhere between the two readings of the
 * clock around it.
 */
#ifndef TUNDISH_TESTS_PROC_HISTORY_H
#define TUNDISH_TESTS_PROC_HISTORY_H

#include <stddef.h>
#include <stdint.h>

struct tundish;

#define HISTORY_MOST 100000 /* grants of one party; it stops asking then */

struct grant {
    uint64_t before_ns;
    uint64_t after_ns;
    uint64_t tokens;
};

/* In kit_shared_new memory, written by one party and read by the test afterwards. */
struct history {
    size_t count;
    int full; /* the party stopped early */
    struct grant grant[HISTORY_MOST];
};

/* What may pass: capacity + refill per interval, and `slack` tokens. */
struct promise {
    uint32_t capacity;
    uint32_t refill;
    uint64_t interval_us;
    uint64_t slack;
    int stepped;
};

/* try_acquire(n), recorded if granted; returns what that returned. */
int history_try(struct history *history, struct tundish *bucket, uint32_t n);

/* Notes a grant of the test's own making. */
void history_note(struct history *history, uint64_t before_ns, uint64_t after_ns, uint64_t tokens);

/* All tokens in the histories. */
uint64_t history_total(const struct history *histories, unsigned parties);

/* Tokens due from the bucket's birth to a time of tundish_now_ns, at the promise's rate. */
uint64_t history_due_until(const struct tundish *bucket, const struct promise *promise, uint64_t at_ns);

/* Fails the test if any window of the parties' common history holds more than was promised. */
void history_check(const struct tundish *bucket, const struct history *histories, unsigned parties,
                   const struct promise *promise);

#endif
