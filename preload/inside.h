/* SPDX-License-Identifier: MIT */
/*
 * Per-thread marks of the guest. Their storage is static (initial-exec), so touching them allocates nothing
 * and is safe in signal handlers and before any constructor.
 */
#ifndef TUNDISH_PRELOAD_INSIDE_H
#define TUNDISH_PRELOAD_INSIDE_H

struct tdi_inside {
    int house; /* > 0: our own housekeeping runs (dlsym, opening buckets); its calls are passed on as they are
                */
    int road;  /* > 0: a call of the program is on the road; a forked child must keep what that call holds */
};

extern _Thread_local struct tdi_inside tdi_inside;

#endif
