/* SPDX-License-Identifier: MIT */
/* Sleeping on a word, for rooms that see no further than this one. */
#ifndef TUNDISH_LIB_SLEEP_H
#define TUNDISH_LIB_SLEEP_H

#include "plat/futex.h" // IWYU pragma: export

#endif
