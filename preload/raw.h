/* SPDX-License-Identifier: MIT */
/* The kernel itself, past libc and every library: for the moments before the real functions are known. */
#ifndef TUNDISH_PRELOAD_RAW_H
#define TUNDISH_PRELOAD_RAW_H

#include "real.h"

/*
 * What `syscall` means in this module: the linker is told so (--wrap), or our own questions to the kernel
 * would go through the wrapper of that name. Sets errno; no cancellation point; async-signal-safe.
 */
long tdi_raw_syscall(long number, ...) __asm__("__wrap_syscall");

/* A system call behind each name. */
extern const struct tdi_real tdi_raw;

#endif
