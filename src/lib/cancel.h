/* SPDX-License-Identifier: MIT */
/* Cancellation points and functions that are none. tdi_cleanup_push and _pop are for the former. */
#ifndef TUNDISH_LIB_CANCEL_H
#define TUNDISH_LIB_CANCEL_H

#include <pthread.h>

#include "plat/cleanup.h"

/* Returns what tdi_cancel_restore wants. */
static inline int tdi_cancel_disable(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void tdi_cancel_restore(int state)
{
    int unused;
    pthread_setcancelstate(state, &unused);
}

#endif
