/* SPDX-License-Identifier: MIT */
/*
 * Places where a test build may kill the process, to prove that whatever is left behind is valid. Nothing in
 * any other build.
 */
#ifndef TUNDISH_PLAT_CRASH_H
#define TUNDISH_PLAT_CRASH_H

enum tdi_crash_point {
    TDI_CRASH_CLAIMED,   /* a slot, nothing in it */
    TDI_CRASH_REQUESTED, /* the request is written */
    TDI_CRASH_TICKETED,  /* a ticket is taken */
    TDI_CRASH_ARRIVED,   /* in line, not announced */
    TDI_CRASH_AWAKE,     /* about to look */
    TDI_CRASH_ANNOUNCED, /* Q is set */
    TDI_CRASH_DRAWN,     /* tokens taken, still in line */
    TDI_CRASH_REFUNDED,  /* tokens given back, still in line */
    TDI_CRASH_PROMISED,  /* about to sleep */
    TDI_CRASH_LEFT,      /* out of the line, those behind not told */
    TDI_CRASH_RUNG,      /* bells incremented, sleepers not woken */
    TDI_CRASH_CLIMBED,   /* the word is settled a step ahead, the hint is not there yet */
    TDI_CRASH_POINTS,
};

#ifdef TUNDISH_CRASH_POINTS
void tdi_crash_here(enum tdi_crash_point point); /* the test's */
#else
static inline void tdi_crash_here(enum tdi_crash_point point)
{
    (void)point;
}
#endif

#endif
