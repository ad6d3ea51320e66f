/* SPDX-License-Identifier: MIT */
/* Signatures as libffi wants them. */
#ifndef TUNDISH_PRELOAD_SIG_H
#define TUNDISH_PRELOAD_SIG_H

#include <ffi.h>
#include <stdbool.h>

/*
 * Makes a call interface of a compact signature (policy/signature.h), out of memory that is never given back:
 * for the start of the process, one thread. false if libffi cannot do it, or the memory is used up.
 */
bool tdi_sig_prepare(ffi_cif *cif, const char *signature);

#endif
