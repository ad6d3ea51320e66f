/* SPDX-License-Identifier: MIT */
/*
 * Functions that a configuration file names, of any library: the second door to the buckets. A hooked call
 * arrives by the hook library (policy/stub.h) and enter.S in a libffi closure, is charged as the rules say that
 * name it, and goes on to the function that the caller would have reached.
 */
#ifndef TUNDISH_PRELOAD_HOOK_H
#define TUNDISH_PRELOAD_HOOK_H

#include <ffi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "find.h"
#include "policy/frozen.h"
#include "rule.h"

#define TDI_HOMES 4 /* how many callers' answers a hook remembers */

/* Where a hook's function is for some callers. Never changes once it is seen. */
struct tdi_home {
    struct tdi_range users;
    tdi_function *function;
    struct tdi_range object; /* that defines it */
    bool meant;              /* it is in the library that the hook is for */
};

struct tdi_hook {
    ffi_go_closure
        closure; /* first: the hook library's entry points here, and enter.S jumps to its first word */
    ffi_cif cif;
    const char *name;
    const struct tdi_frozen_hook *spec; /* NULL: no rule of this program is for it */
    const char *signature;
    bool straight;       /* it needs no libffi to be called */
    const char *library; /* the only one whose function is meant, or NULL */
    uint32_t bit;        /* in tdi_policy_rule.hooks */
    bool bytes;          /* its tokens are bytes */
    const struct tdi_rule
        *only; /* the one rule that is for it, if that has one bucket and nobody listens; or NULL */
    _Atomic uint64_t owed;        /* results whose tokens were not there yet */
    atomic_bool met;              /* a function that is meant was found once */
    _Atomic(tdi_function *) told; /* what dlsym has answered for it, of a library that callers cannot see */
    _Atomic(const struct tdi_home *) home[TDI_HOMES];
};

/* How many entries the hook library has; 0 without one. */
extern uint32_t tdi_hooks;

/* One for each entry. */
extern struct tdi_hook tdi_hook[];

/* Once, from the constructor, when the buckets of the rules are open. */
void tdi_hook_begin(const struct tdi_rules *rules, const struct tdi_frozen *frozen);

/* Only makes names known, so that calls pass. Idempotent. */
void tdi_hook_begin_idle(void);

/* In a forked child: what results have cost is owed by the parent. */
void tdi_hook_after_fork(void);

/*
 * Where the hook's function is for this caller: in what is remembered, or looked up and written to *room.
 * NULL: nowhere. Keeps errno.
 */
const struct tdi_home *tdi_hook_home(struct tdi_hook *hook, const void *caller, struct tdi_home *room);

/* An object may have gone: forget where functions were that are gone with it. */
void tdi_hook_forget(void);

/*
 * Says, at the end, of which rules no function was ever found: those that name this very program, or all of
 * them if it `speaks`.
 */
void tdi_hook_report(const struct tdi_rules *rules, const char *program, bool speaks);

#endif
