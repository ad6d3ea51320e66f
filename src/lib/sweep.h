/* SPDX-License-Identifier: MIT */
/* Removing the buckets of runs that are over. */
#ifndef TUNDISH_LIB_SWEEP_H
#define TUNDISH_LIB_SWEEP_H

#define TDI_SWEEP_PREFIX "run-"

/*
 * Removes the buckets `run-*` of the default directory that no living process has open: the number removed,
 * or a negative errno. One sweeper at a time; a second one removes nothing. What a sweeper that was killed had
 * in hand is removed, or gets its name back.
 */
int tdi_sweep(void);

#endif
