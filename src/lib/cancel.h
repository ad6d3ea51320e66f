/* SPDX-License-Identifier: MIT */
/* Thread cancellation, for rooms that see no further than this one. */
#ifndef TUNDISH_LIB_CANCEL_H
#define TUNDISH_LIB_CANCEL_H

#include "plat/cancel.h" // IWYU pragma: export

#endif
