/* SPDX-License-Identifier: MIT */
/* What the compiler and the processor offer beyond C11: wide products, a pause for spinning, hints. */
#ifndef TUNDISH_PLAT_ATOM_H
#define TUNDISH_PLAT_ATOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Words written by different cores stay apart by this much. */
#define TDI_LINE_SIZE 64

#define tdi_likely(condition) __builtin_expect(!!(condition), 1)
#define tdi_unlikely(condition) __builtin_expect(!!(condition), 0)

/* For what is a handful of instructions where it is used and more than a call would cost elsewhere; and for what
   must not be put there. */
#define TDI_INLINE static inline __attribute__((always_inline))
#define TDI_APART __attribute__((noinline, cold))

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

/*
 * Adds to a word that only one thread writes and anybody reads: one instruction, so that a signal handler of
 * that thread which adds to it as well is not lost. Relaxed.
 */
static inline void tdi_atom_add_own(_Atomic(uint64_t) *word, uint64_t n)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    __asm__ __volatile__("addq %1, %0" : "+m"(*word) : "er"(n) : "cc");
#else
    atomic_fetch_add_explicit(word, n, memory_order_relaxed);
#endif
}

/* Swaps such a word: false if a signal handler changed it. */
static inline bool tdi_atom_swap_own(_Atomic(uint64_t) *word, uint64_t expected, uint64_t desired)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    bool swapped;
    __asm__ __volatile__("cmpxchgq %3, %0" : "+m"(*word), "=@cce"(swapped), "+a"(expected) : "r"(desired));
    return swapped;
#else
    return atomic_compare_exchange_strong_explicit(word, &expected, desired, memory_order_relaxed,
                                                   memory_order_relaxed);
#endif
}

/*
 * Takes n from such a word if there are so many. For a moment it may be less than 0, which a signal handler that
 * comes then takes for nothing, too.
 */
TDI_INLINE bool tdi_atom_spend_own(_Atomic(uint64_t) *word, uint64_t n)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    bool negative;
    __asm__ __volatile__("subq %2, %0" : "+m"(*word), "=@ccs"(negative) : "er"(n));
#else
    bool negative = (int64_t)(atomic_fetch_sub_explicit(word, n, memory_order_relaxed) - n) < 0;
#endif
    if (tdi_unlikely(negative) && (int64_t)atomic_load_explicit(word, memory_order_relaxed) < 0)
        tdi_atom_add_own(word, n); /* else a handler forked, and this is the child, whose word is 0 */
    return !negative;
}

/*
 * Words of thread-local storage by their distance from the thread pointer, which is the same in all threads for
 * what has the model initial-exec.
 */
static inline char *tdi_atom_thread(void)
{
#if defined(__x86_64__)
    char *thread;
    __asm__("movq %%fs:0, %0" : "=r"(thread));
    return thread;
#else
    return __builtin_thread_pointer();
#endif
}

/* Loads the word at distance + offset; these loads stay in their order. */
#if defined(__x86_64__)
#define tdi_atom_own_word(out, distance, offset)                                                             \
    __asm__ __volatile__("movq %%fs:%c2(%1), %0" : "=r"(*(out)) : "r"(distance), "i"(offset))
#else
#define tdi_atom_own_word(out, distance, offset)                                                             \
    (*(out) = *(uint64_t *)(void *)(tdi_atom_thread() + (distance) + (offset)))
#endif

#endif
