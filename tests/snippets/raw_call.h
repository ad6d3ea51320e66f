/* SPDX-License-Identifier: MIT */
/* The kernel itself, past libc and whatever stands before it: what is called here no library sees. */
#ifndef TUNDISH_TESTS_RAW_CALL_H
#define TUNDISH_TESTS_RAW_CALL_H

#include <stdint.h>
#include <sys/syscall.h>

/* A word of a system call: RAW(pointer) for those that are pointers. */
#define RAW(pointer) ((long)(uintptr_t)(pointer))

/* The kernel's own result: a negative errno on failure. errno stays. */
#if defined __x86_64__ && defined __LP64__

static inline long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ __volatile__("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
}

#elif defined __aarch64__

static inline long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ __volatile__("svc 0"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                         : "memory");
    return x0;
}

#else
#error "a system call on this machine is to be written here"
#endif
#endif
