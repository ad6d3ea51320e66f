/* SPDX-License-Identifier: MIT */
/*
 * Keeps signals away for a moment: one that a system call of ours may raise (SIGPIPE, SIGXFSZ) from the program we
 * are in, or all of them, where a handler must not come.
 */
#ifndef TUNDISH_PLAT_QUIET_H
#define TUNDISH_PLAT_QUIET_H

#include <signal.h>
#include <stdbool.h>

struct tdi_quiet {
    sigset_t mask; /* as it was */
    bool pending;  /* the signal was there before: it is the program's */
};

/* Blocks the signal for the calling thread. */
void tdi_quiet_begin(struct tdi_quiet *quiet, int signal_number);

/* Takes back what was raised since, and unblocks. Keeps errno. */
void tdi_quiet_end(const struct tdi_quiet *quiet, int signal_number);

/* Blocks all signals for the calling thread, and lets in again those that were. Signal-safe. */
void tdi_quiet_begin_all(sigset_t *former);
void tdi_quiet_end_all(const sigset_t *former);

#endif
