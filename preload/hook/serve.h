/* SPDX-License-Identifier: MIT */
/* A hooked call on its way. */
#ifndef TUNDISH_PRELOAD_SERVE_H
#define TUNDISH_PRELOAD_SERVE_H

#include <ffi.h>

#include "hook.h"
#include "policy/stub.h"

/* Of the hook library. */
extern struct tdi_stub_entry tundish_preload_hook_table[] __attribute__((weak));

/* What libffi calls with a hooked call's arguments; `hook` is a struct tdi_hook. */
void tdi_hook_serve(ffi_cif *cif, void *result, void **arguments, void *hook);

/* Where enter.S is to pass a call on to that has no hook. */
tdi_function *tdi_hook_pass(const struct tdi_stub_entry *entry, const void *caller);

/* What enter.S notes for the thread: where the call returns to, and where on the stack that is written. */
struct tdi_hook_mark {
    const void *caller;
    const void *stack;
};

extern _Thread_local struct tdi_hook_mark tdi_hook_mark;

#endif
