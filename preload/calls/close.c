/* SPDX-License-Identifier: MIT */
/* close, close_range, closefrom: what was known of the numbers is forgotten. They cost a look at a table. */
#include <limits.h>
#include <unistd.h>

#include "calls/gone.h"
#include "gate.h"
#include "real.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

/* Numbers too high to be known are few, and found out by their keys. */
static void all_gone(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd <= last && fd < TDI_KNOWN_FDS; fd++)
        if (tdi_gone_matters((int)fd))
            tdi_gone((int)fd);
    tdi_known_forget_range(first, last);
}

TDI_WRAPPER int close(int fd)
{
    tdi_gone(fd);
    return tdi_real()->close(fd);
}

TDI_WRAPPER int close_range(unsigned first, unsigned last, int flags)
{
    if (first <= last && (flags & (int)CLOSE_RANGE_CLOEXEC) == 0)
        all_gone(first, last);
    return tdi_real()->close_range(first, last, flags);
}

TDI_WRAPPER void closefrom(int first)
{
    all_gone(first < 0 ? 0 : (unsigned)first, UINT_MAX);
    tdi_real()->closefrom(first);
}
