/* SPDX-License-Identifier: MIT */
/* The ways by which a program gets functions at run time, see caught.c. */
#ifndef TUNDISH_PRELOAD_CAUGHT_H
#define TUNDISH_PRELOAD_CAUGHT_H

#include <stdbool.h>

#include "hook.h"

/* enter.S */
void tdi_catch_dlsym(void);
void tdi_catch_dlvsym(void);

enum tdi_caught {
    TDI_CAUGHT_ALWAYS,     /* dlclose: where functions are is remembered for every program */
    TDI_CAUGHT_WITH_HOOKS, /* the others, for programs that a hook is for */
};

/* Whether the entry is one of those; it is ready then. */
bool tdi_caught_begin(struct tdi_hook *hook, enum tdi_caught which);

#endif
