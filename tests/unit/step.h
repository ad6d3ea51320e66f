/* SPDX-License-Identifier: MIT */
/*
 * Something that comes between two instructions of something else: what a signal handler, another thread or
 * another process may do at the worst moment, tried at every moment there is. The processor's trap flag stops
 * after each instruction; on other processors, under ThreadSanitizer, which keeps signals back, and under
 * AddressSanitizer, with which it takes minutes, nothing is tried.
 */
#ifndef TUNDISH_TESTS_UNIT_STEP_H
#define TUNDISH_TESTS_UNIT_STEP_H

#include <stdbool.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STEP_CAN 1
#else
#define STEP_CAN 0
#endif

typedef void step_fn(void *context);

/*
 * Runs `act`, and `intrude` in a signal handler after instruction number `at` (from 1) of it. False if there were
 * not so many: then it did not run. No memory of the intruder's in common with malloc's or the like.
 */
bool step_intrude(step_fn *act, step_fn *intrude, void *context, unsigned long at);

/* The same, and again every so many instructions after that; how often it came. */
unsigned long step_intrude_often(step_fn *act, step_fn *intrude, void *context, unsigned long at,
                                 unsigned long every);

#endif
