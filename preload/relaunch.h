/* SPDX-License-Identifier: MIT */
/*
 * A program that was preloaded by hand with TUNDISH_CONFIG naming a text file: nothing here parses one, so the
 * launcher takes the program's place, reads the file, makes buckets and hooks, and starts the program again,
 * in the same process, with the same arguments. That happens before main and before the constructors of other
 * libraries, when the program has done nothing yet.
 */
#ifndef TUNDISH_PRELOAD_RELAUNCH_H
#define TUNDISH_PRELOAD_RELAUNCH_H

#define TDI_RELAUNCHED                                                                                       \
    "TUNDISH_RELAUNCHED=" /* in the launcher's environment: its own calls are not to be limited */

/* Returns only if it fails: why, a static sentence. */
const char *tdi_relaunch(const char *path, int argc, char *const *argv, char *const *words);

#endif
