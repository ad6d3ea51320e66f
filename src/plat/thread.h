/* SPDX-License-Identifier: MIT */
/* A thread of our own in somebody's process: it takes no signals, needs little stack, and is joined at the end. */
#ifndef TUNDISH_PLAT_THREAD_H
#define TUNDISH_PLAT_THREAD_H

#include <pthread.h>

/* Starts run(NULL) under that name (15 bytes at most): 0 or a negative errno. Signals are blocked in it. */
int tdi_thread_start(pthread_t *out, const char *name, void *(*run)(void *));

#endif
