/* SPDX-License-Identifier: MIT */
/* One of the objects that ld.so has loaded: the program, a library. Allocates nothing. */
#ifndef TUNDISH_PRELOAD_OBJECT_H
#define TUNDISH_PRELOAD_OBJECT_H

#include <link.h>
#include <stdbool.h>

#include "find.h"

/* An object as its program headers describe it. */
struct tdi_object {
    uintptr_t base;
    struct tdi_range range;
    const char *path;
    const ElfW(Dyn) * dynamic;
};

struct tdi_object tdi_object_of(const struct dl_phdr_info *info);

/* Whether the object defines the function; found->function and found->home then say where. */
bool tdi_object_look_up(const struct tdi_object *object, const char *name, struct tdi_found *found);

/* Whether it goes by that name: its path, the last part of it, or its soname. */
bool tdi_object_is_named(const struct tdi_object *object, const char *name);

/* The next name of an object that this one needs, behind *at, which begins as NULL. NULL at the end. */
const char *tdi_object_needs(const struct tdi_object *object, const ElfW(Dyn) * *at);

#endif
