/* SPDX-License-Identifier: MIT */
/* Calls that need no libffi: see straight.c. */
#ifndef TUNDISH_PRELOAD_STRAIGHT_H
#define TUNDISH_PRELOAD_STRAIGHT_H

#include <stdbool.h>

#include "find.h"

/* Whether calls of this compact signature can be made so. */
bool tdi_straight_suits(const char *signature);

/* Makes the call as ffi_call would. */
void tdi_straight_call(tdi_function *function, const char *signature, void *result, void **arguments);

#endif
