/* SPDX-License-Identifier: MIT */
/*
 * Functions that people often want to count: their signatures and natural costs, so that a name is enough;
 * and families, names under which one function is called: open is also open64, openat, __open_2 ...
 */
#ifndef TUNDISH_POLICY_HOOKS_H
#define TUNDISH_POLICY_HOOKS_H

#include <stddef.h>

struct tdi_known_hook {
    const char *name;
    const char *signature; /* as people write it */
    const char *cost;      /* the natural one: "arg3", "calls" */
    const char *family;    /* the name that stands for all of the family, or NULL */
};

extern const struct tdi_known_hook tdi_known_hooks[]; /* sorted by name */
extern const size_t tdi_known_hook_count;

/* NULL if it is not known. */
const struct tdi_known_hook *tdi_known_hook(const char *name);

/* Why a function of this name can never be hooked (it returns twice, or is needed by hooks): NULL if it can. */
const char *tdi_hook_obstacle(const char *name);

#endif
