/* SPDX-License-Identifier: MIT */
/*
 * Which signals to keep out of a wait that is made of several sleeps, so that none is handled unnoticed
 * between two of them; the sleeps let in what the program's mask lets in.
 */
#ifndef TUNDISH_PRELOAD_SIGNALS_H
#define TUNDISH_PRELOAD_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/*
 * All but these: what a program does to itself (kept out, it would die of it); what cannot be kept out; and
 * what it ignores, for an ignored signal that is kept out waits, and then ends a sleep as if it had been
 * handled.
 */
void tdi_signals_to_keep_out(sigset_t *set);

/* Whether a handler is there for it. */
bool tdi_signals_is_caught(int number);

/* Whether a handler without SA_RESTART is there for it. */
bool tdi_signals_interrupts(int number);

/* For any, but what a program does to itself. The kernel does not say which signal ended a sleep. */
bool tdi_signals_some_interrupts(void);

#endif
