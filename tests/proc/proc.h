/* SPDX-License-Identifier: MIT */
/* What the tests of this directory share besides the kit. */
#ifndef TUNDISH_TESTS_PROC_PROC_H
#define TUNDISH_TESTS_PROC_PROC_H

#include <stdint.h>
#include <tundish/tundish.h>

#include "kit/kit.h"

#define PROC_LEN(array) (sizeof(array) / sizeof(array)[0])

struct tundish_options proc_options(uint32_t capacity, uint32_t refill, uint64_t interval_us);

/* A bucket that nobody gives tokens to while a test runs: one in a year. */
struct tundish_options proc_still_options(uint32_t capacity, uint32_t initial);

/* The same as the public functions, but failing the test where those fail. */
struct tundish *proc_create(const char *name, const struct tundish_options *options);
struct tundish *proc_create_private(const struct tundish_options *options);
struct tundish *proc_open(const char *name);
struct tundish_info proc_info(const struct tundish *bucket);

/* Waits until so many acquires stand in line, failing the test after ten seconds. */
void proc_expect_in_line(const struct tundish *bucket, uint32_t waiting);

/* Entries of a directory, hidden ones included. */
unsigned proc_count_files(const char *directory);

/* Open descriptors of this process. */
unsigned proc_count_descriptors(void);

/* A pseudo-random number below `below`; the state must not be 0. */
uint32_t proc_random(uint32_t *state, uint32_t below);

/*
 * From now on this process, and what it forks, is told that the file system cannot make nameless files
 * (O_TMPFILE), and if without_noreplace that it cannot rename without replacing. False where the kernel has
 * no seccomp filters.
 */
int proc_deny_nameless_files(int without_noreplace);

#endif
