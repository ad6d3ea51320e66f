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
#include "rule.h"

struct tdi_wait {
    const struct tdi_rule *rule;
    uint64_t held;        /* tokens taken and neither used nor given back; of each bucket */
    bool divisible;       /* less than what is needed will do: a decent piece of it */
    bool interruptible;   /* signals end the wait */
    bool never_restart;   /* even those whose handlers have SA_RESTART */
    bool refuse;          /* do not wait for the first tokens */
    uint64_t deadline_ns; /* of tundish_now_ns */
    int late_errno;       /* what then */
    struct tdi_all all;   /* the place in line, while there is one */
    struct tundish_demand demands[TDI_POLICY_BUCKETS];
};

/* Takes n tokens of every bucket if they are there now. */
bool tdi_wait_try(struct tdi_wait *wait, uint32_t n);

/*
 * Takes n tokens, or if divisible at least one of them, sleeping as long as it takes. 0, or EINTR or
 * late_errno; in any case `held` says what was taken.
 */
int tdi_wait(struct tdi_wait *wait, uint32_t n);

/* Takes what is there now, n at most. */
void tdi_wait_take_some(struct tdi_wait *wait, uint32_t n);

/* Gives n of the held tokens back. */
void tdi_wait_give_back(struct tdi_wait *wait, uint64_t n);

#endif
