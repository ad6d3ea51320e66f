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

/* Where a hook's function is for some callers. */
struct tdi_home {
    struct tdi_range users;
    tdi_function *function;
    struct tdi_range object; /* that defines it */
    bool meant;              /* it is in the library that the hook is for */
};

#define TDI_MEMORIES 8     /* how many callers' answers a hook remembers */
#define TDI_MEMORY_WORDS 6 /* a home's */

/* A home that is remembered as long as no library is closed, see home.c. */
struct tdi_memory {
    _Atomic(uint32_t) version;  /* odd while it is written, 0 never yet */
    _Atomic(uint32_t) closings; /* of libraries before this was found */
    _Atomic(uintptr_t) word[TDI_MEMORY_WORDS];
};

struct tdi_hook {
    /* First: the hook library's entry points here, and enter.S jumps to its first word. */
    ffi_go_closure closure;
    ffi_cif cif;
    const char *name;
    const struct tdi_frozen_hook *spec; /* NULL: no rule of this program is for it */
    const char *signature;
    bool straight;               /* it needs no libffi to be called */
    const char *library;         /* the only one whose function is meant, or NULL */
    uint32_t bit;                /* in tdi_policy_rule.hooks */
    bool bytes;                  /* its tokens are bytes */
    const struct tdi_rule *only; /* the one rule for it, if that has one bucket and nobody listens; or NULL */
    _Atomic uint64_t owed;       /* results whose tokens were not there yet */
    atomic_bool met;             /* a function that is meant was found once */
    atomic_bool missed;          /* it was called, and was nowhere, and that was said */
    _Atomic(tdi_function *) told; /* what dlsym has answered for it, of a library that callers cannot see */
    struct tdi_home common;       /* the same for all callers, once has_common is set */
    atomic_flag common_taken;
    atomic_bool has_common;
    struct tdi_memory memory[TDI_MEMORIES];
    _Atomic(uint32_t) next_memory;
};

/* How many entries the hook library has; 0 without one, and until they are known. */
extern _Atomic(uint32_t) tdi_hooks;

/* One for each entry. */
extern struct tdi_hook tdi_hook[];

/* Once, from the constructor, when the buckets of the rules are open. */
void tdi_hook_begin(const struct tdi_rules *rules, const struct tdi_frozen *frozen);

/* Only makes names known, so that calls pass. Idempotent. */
void tdi_hook_begin_idle(void);

/* The same from the constructor, and watches forks. */
void tdi_hook_begin_all(void);

/*
 * Where the hook's function is for this caller: in what is remembered, or looked up and written to *room.
 * NULL: nowhere. Keeps errno.
 */
const struct tdi_home *tdi_hook_home(struct tdi_hook *hook, const void *caller, struct tdi_home *room);

/* Only functions of this library are meant: what was found by the name alone does not count. At the start. */
void tdi_hook_take_from(struct tdi_hook *hook, const char *library);

/* Around the closing of a library: what is remembered of others than those of the start does not hold any more. */
void tdi_hook_closing_begins(void);
void tdi_hook_closing_ends(void);
void tdi_hook_closing_after_fork(void);

/*
 * Says, at the end, of which rules no function was ever found: those that name this very program, or all of
 * them if it `speaks`.
 */
void tdi_hook_report(const struct tdi_rules *rules, const char *program, bool speaks);

#endif
