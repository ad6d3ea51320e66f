/* SPDX-License-Identifier: MIT */
/* What the cases of event loops share: a peer in a process of its own, and the rate that comes out. */
#ifndef TUNDISH_TESTS_SHIM_LOOPS_H
#define TUNDISH_TESTS_SHIM_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What loops_expect_rate expects. */
#define LOOPS_RATE "TUNDISH_RATE=2MB/s", "TUNDISH_BURST=100kB"
#define LOOPS_BYTES_PER_S 2000000

#define LOOPS_TRIES 3 /* the best counts: the machine may be busy */

/* A non-blocking socket whose peer, another process, reads and drops all. No thread is made. */
int loops_upload(void);

/* One write of n bytes at most: what was written, 0 if it is to be tried later. Anything else ends the case. */
size_t loops_write(int fd, size_t n);

/* Writes until it is to be tried later. */
void loops_fill(int fd);

/*
 * Runs the loop, which writes n bytes to the socket, a few times, and expects one whose bytes went out at the
 * rate once the burst was used up.
 */
void loops_expect_rate(void (*loop)(int fd, size_t n));

/* Of this process so far. */
uint64_t loops_cpu_us(void);
int loops_threads(void);

/* Microseconds on the steady clock. */
uint64_t loops_now_us(void);

#endif
