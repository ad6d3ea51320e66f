/* SPDX-License-Identifier: MIT */
/* The ways by which a program gets functions at run time, see caught.c. */
#ifndef TUNDISH_PRELOAD_CAUGHT_H
#define TUNDISH_PRELOAD_CAUGHT_H

#include <stdbool.h>

#include "hook.h"

/* enter.S */
void tdi_catch_dlsym(void);
void tdi_catch_dlvsym(void);

/* Whether the entry is one of them; it is ready then. */
bool tdi_caught_begin(struct tdi_hook *hook);

#endif
