/* SPDX-License-Identifier: MIT */
/*
 * Waiting for events in rounds while sockets are in debt. A round is one real call; it ends with an event, a
 * signal, the program's own timeout, or when it is time to look after a debt. All signals are kept out but
 * within the real calls, which are given the program's mask: a signal that comes between two of them ends the
 * next one, and is not handled unnoticed.
 */
#ifndef TUNDISH_PRELOAD_READY_ROUND_H
#define TUNDISH_PRELOAD_READY_ROUND_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

struct tdi_round {
    sigset_t mask;        /* the program's */
    sigset_t most;        /* what is kept out */
    uint64_t deadline_ns; /* of the program's own timeout, on CLOCK_MONOTONIC; TDI_NEVER_NS: none */
    void *room;
    size_t room_len;
};

/* Timeouts as the calls have them, in nanoseconds; TDI_NEVER_NS for none. */
uint64_t tdi_round_ms(int timeout_ms);
uint64_t tdi_round_timespec(const struct timespec *timeout);

/* Whether the kernel would accept this timeout, which may be NULL. */
bool tdi_round_is_sound(const struct timespec *timeout);

/* Keeps signals out. tdi_round_end must follow, however the call is left: it is a clean-up function. */
void tdi_round_begin(struct tdi_round *round, uint64_t timeout_ns);
void tdi_round_end(void *round);

/* Memory for the wait: `small` if len fits, else a mapping until the end; NULL if there is none. Once. */
void *tdi_round_room(struct tdi_round *round, void *small, size_t small_len, size_t len);

/*
 * How long the next real call may wait: until due_ns (of tundish_now_ns), and no longer than the program
 * wants. Fills *timeout and returns it, or returns NULL: as long as it takes.
 */
const struct timespec *tdi_round_timeout(const struct tdi_round *round, uint64_t due_ns,
                                         struct timespec *timeout);

/* What the program's timeout has left, 0 if it has passed. */
uint64_t tdi_round_left_ns(const struct tdi_round *round);

#endif
