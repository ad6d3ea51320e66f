/* SPDX-License-Identifier: MIT */
/*
 * Waiting for tokens as a guest: interruptible by signals as the kernel's own waits are, a cancellation
 * point, and never longer than somebody was promised. Allocates nothing, signal-safe.
 */
#ifndef TUNDISH_PRELOAD_WAIT_H
#define TUNDISH_PRELOAD_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/all.h"
#include "toll.h"

struct tdi_wait {
    const struct tdi_toll *toll;
    uint32_t forks;       /* tdi_forks when what is held was taken */
    uint8_t calls_most;   /* tokens for the call, of a share: no more than its bucket can hold */
    uint64_t held;        /* bytes' tokens taken and neither used nor given back; of each share of bytes */
    bool calls_held;      /* the call's own tokens are taken, and neither used nor given back */
    bool calls_paid;      /* they are used: further pieces of the same call cost bytes only */
    bool divisible;       /* less than what is needed will do: a decent piece of it */
    bool interruptible;   /* signals end the wait */
    bool never_restart;   /* even those whose handlers have SA_RESTART */
    bool refuse;          /* do not wait for the first tokens */
    uint64_t deadline_ns; /* of tundish_now_ns */
    int late_errno;       /* what then */
    struct tdi_all all;   /* the place in line, while there is one */
    struct tundish_demand demands[TDI_POLICY_ALL_BUCKETS];
};

/* Everything but `all` and `demands`, which need no beginning. */
void tdi_wait_init(struct tdi_wait *wait, const struct tdi_toll *toll);

/* Takes tokens for n bytes, and for the call, of every firm share if they are there now. */
bool tdi_wait_try(struct tdi_wait *wait, uint32_t n);

/*
 * Takes tokens for n bytes, or if divisible at least one of them, sleeping as long as it takes. 0, or EINTR
 * or late_errno; in any case `held` says what was taken.
 */
int tdi_wait(struct tdi_wait *wait, uint32_t n);

/* Takes what is there now, n bytes at most. Whether it took anything. */
bool tdi_wait_take_some(struct tdi_wait *wait, uint32_t n);

/* The same, but nothing if that is hardly worth a call. */
bool tdi_wait_take_piece(struct tdi_wait *wait, uint32_t n);

/* What to ask for in line, of n bytes: a portion, or if it is not divisible all; a whole capacity at most. */
uint32_t tdi_wait_piece(const struct tdi_wait *wait, uint32_t n);

/* Whether a piece of n bytes would come within 20 ms or so, and nobody else waits for its tokens. */
bool tdi_wait_is_short(const struct tdi_wait *wait, uint32_t n);

/*
 * How many bytes to wait for, if only n are needed: 10 ms' worth if nobody else waits. What is left of that
 * is given back and lets the next calls pass, so that small ones do not wait each for itself. Where others
 * wait it would only hold them up.
 */
uint32_t tdi_wait_worth(const struct tdi_wait *wait, uint32_t n);

/* n bytes' tokens, and those of the call unless it is paid, were taken by way of such demands. */
void tdi_wait_note_taken(struct tdi_wait *wait, uint32_t n);

/* What the call as such costs of a share, whether or not it is paid. */
static inline uint32_t tdi_wait_call_tokens(const struct tdi_wait *wait, const struct tdi_share *share)
{
    return share->calls < wait->calls_most ? share->calls : wait->calls_most;
}

/* Writes what n bytes, and the call unless it is paid, demand of the firm shares. Returns how many. */
uint32_t tdi_wait_demands(const struct tdi_wait *wait, uint32_t n, struct tundish_demand *demands);

/*
 * Gives tokens of n bytes, and of the call, back; all that is held is dropped instead if it is a parent's.
 */
void tdi_wait_give_back(struct tdi_wait *wait, uint64_t n, bool calls);

#endif
