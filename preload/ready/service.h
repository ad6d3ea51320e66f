/* SPDX-License-Identifier: MIT */
/* What the helper thread does, and whoever stands in for it. */
#ifndef TUNDISH_PRELOAD_READY_SERVICE_H
#define TUNDISH_PRELOAD_READY_SERVICE_H

#include <stdint.h>

/* Looks after all debts. Returns when the next look is worth while, UINT64_MAX if there are none. */
uint64_t tdi_service(void);

#endif
