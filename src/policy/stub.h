/* SPDX-License-Identifier: MIT */
/*
 * What the hook library and the preloaded library know of each other. The hook library is a small ELF shared
 * object that the launcher writes: it defines the hooked names, nothing else, and stands before the preloaded
 * library in LD_PRELOAD. Each of its functions loads the address of its entry into a scratch register (x86-64:
 * r10, aarch64: x17) and jumps to where TDI_STUB_ENTER, a function of the preloaded library, is.
 */
#ifndef TUNDISH_POLICY_STUB_H
#define TUNDISH_POLICY_STUB_H

#include <stddef.h>
#include <stdint.h>

#define TDI_STUB_ENTER "tundish_preload_hook_enter" /* defined by the preloaded library */
#define TDI_STUB_TABLE "tundish_preload_hook_table" /* defined by the hook library: struct tdi_stub_entry[] */
#define TDI_STUB_FILE ".tundish-hooks-"             /* its file's name begins with this */

struct tdi_stub_entry {
    void *hook;       /* NULL until the preloaded library has filled it */
    const char *name; /* NULL in the last entry */
};

/* Names that every hook library defines besides: by them a program gets and drops functions. */
#define TDI_STUB_ALSO                                                                                        \
    {                                                                                                        \
        "dlclose", "dlsym", "dlvsym"                                                                         \
    }

#endif
