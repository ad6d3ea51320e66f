/* SPDX-License-Identifier: MIT */
/* Keeping signals of our own system calls from the program, for rooms that see no further than this one. */
#ifndef TUNDISH_LIB_QUIET_H
#define TUNDISH_LIB_QUIET_H

#include "plat/quiet.h" // IWYU pragma: export

#endif
