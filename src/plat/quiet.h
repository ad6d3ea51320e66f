/* SPDX-License-Identifier: MIT */
/* Keeps a signal that a system call of ours may raise (SIGPIPE, SIGXFSZ) from the program we are in. */
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

#endif
