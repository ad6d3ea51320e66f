/* SPDX-License-Identifier: MIT */
/* What the compiler and the processor offer beyond C11: wide products, a pause for spinning, hints. */
#ifndef TUNDISH_PLAT_ATOM_H
#define TUNDISH_PLAT_ATOM_H

#include <stdint.h>

/* Words written by different cores stay apart by this much. */
#define TDI_LINE_SIZE 64

#define tdi_likely(condition) __builtin_expect(!!(condition), 1)
#define tdi_unlikely(condition) __builtin_expect(!!(condition), 0)

__extension__ typedef unsigned __int128 tdi_wide;

/* The high half of a 64 x 64 bit product. */
static inline uint64_t tdi_atom_mul_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((tdi_wide)a * b >> 64);
}

/* Tells the processor that this is a spin loop. */
static inline void tdi_atom_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

#endif
