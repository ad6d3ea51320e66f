/* SPDX-License-Identifier: MIT */
/*
 * What programs that this one executes are given of us: TUNDISH_INHERIT. Nothing here allocates or changes
 * what other threads see; all of it is signal-safe and may run in a vfork child or before our constructor.
 */
#ifndef TUNDISH_PRELOAD_HERITAGE_H
#define TUNDISH_PRELOAD_HERITAGE_H

#include <stdatomic.h>

#include "policy/policy.h"

/* Whether this process has forked, or executed or spawned anything. */
extern atomic_bool tdi_heritage_started;

/*
 * Remembers what there is to hand on, before the program can change its environment. Once, from the
 * constructor, with libc's environ set. Says one line if it is too much; then nothing is re-added.
 */
void tdi_heritage_note(enum tdi_inherit how, char *const *environ_words);

/* Executes or spawns with this environment; its result and errno are the program's. */
typedef int tdi_heritage_fn(const void *arguments, char *const *envp);

/*
 * Calls go(arguments, E) once and returns its result. E is envp itself if nothing is missing in it or too
 * much, else a copy with that put right, which lives as long as the call. An envp of NULL is an empty one.
 */
int tdi_heritage_hand_on(char *const *envp, tdi_heritage_fn *go, const void *arguments);

#endif
