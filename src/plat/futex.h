/* SPDX-License-Identifier: MIT */
/* Sleeping on a word that other processes change. */
#ifndef TUNDISH_PLAT_FUTEX_H
#define TUNDISH_PLAT_FUTEX_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* The time in tdi_clock's terms as tdi_futex_wait wants it. */
struct timespec tdi_futex_until(uint64_t wake_ns);

/*
 * Sleeps while *word is `expected`, until that time: 0 if it was woken or need not sleep, -ETIMEDOUT, or
 * -EINTR after a signal handler ran. One system call and nothing else; not a cancellation point. errno is
 * kept.
 */
int tdi_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, const struct timespec *until);

/*
 * Sleeps for that span with another signal mask, changed together with going to sleep: 0, or -EINTR if a
 * handler ran. Nobody can wake it. One system call and nothing else.
 */
int tdi_futex_sleep_with_mask(const struct timespec *span, const sigset_t *mask);

/* The span from now to wake_ns, for that. */
struct timespec tdi_futex_span(uint64_t wake_ns);

/*
 * How late the kernel may wake the calling thread: 50 us by default, which every grant would be late by. Each
 * is one system call; 0 is unknown, and setting it does nothing.
 */
unsigned long tdi_futex_slack(void);
void tdi_futex_set_slack(unsigned long slack_ns);

/* Wakes all who sleep on the word, or one. */
void tdi_futex_wake_all(_Atomic(uint32_t) *word);
void tdi_futex_wake_one(_Atomic(uint32_t) *word);

#endif
