/* SPDX-License-Identifier: MIT */
/*
 * The hook library (see policy/stub.h), made in memory without a compiler, and a place for it and for other
 * files that a command needs as long as it runs: named after what they hold, so that equal ones are one.
 */
#ifndef TUNDISH_CLI_STUB_H
#define TUNDISH_CLI_STUB_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/stub.h"

enum stub_machine {
    STUB_UNKNOWN, /* no code for it */
    STUB_X86_64,
    STUB_AARCH64,
};

#if defined __x86_64__ && defined __LP64__
#define STUB_HERE STUB_X86_64
#elif defined __aarch64__ && defined __LP64__ && defined __AARCH64EL__
#define STUB_HERE STUB_AARCH64
#else
#define STUB_HERE STUB_UNKNOWN
#endif

/* stub.c */

/*
 * A hook library of these names and of TDI_STUB_ALSO, malloc'ed; their order and repetitions do not matter:
 * the same names are the same bytes. NULL and errno: ENOMEM, or ENOTSUP for STUB_UNKNOWN.
 */
unsigned char *stub_make(enum stub_machine machine, const char *const *names, size_t count, size_t *size);

/* stub_store.c */

enum {
    STUB_PATH = 4096,
};

/*
 * Makes sure that a file of our own holds exactly these bytes, and that nobody else can change it. Its name
 * is `prefix`, a digest and `suffix`, its directory the first that will do: that of bucket names,
 * $XDG_CACHE_HOME/tundish, $HOME/.cache/tundish, /tmp/tundish-UID. An executable one can be mapped as code,
 * and its path can stand in LD_PRELOAD. Where a file is made, those of our prefixes that nobody has used for
 * a month are removed. 0 with its absolute path, or a negative errno, and then `path` has the directories
 * with what is wrong with each: "/run/x is mounted noexec, /tmp/y: Permission denied".
 */
int stub_store(const void *bytes, size_t size, const char *prefix, const char *suffix, bool executable,
               char path[STUB_PATH]);

#endif
