/* SPDX-License-Identifier: MIT */
/*
 * The instruction is our own where we know the machine; elsewhere libc's syscall() makes it, looked up without
 * anything being allocated.
 */
#include "raw.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define HIGHEST_ERRNO 4095

#if defined __x86_64__ && defined __LP64__

static long instruction(long number, const long *a)
{
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    register long r9 __asm__("r9") = a[5];
    long result;
    __asm__ __volatile__("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
}

#elif defined __aarch64__

static long instruction(long number, const long *a)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a[0];
    register long x1 __asm__("x1") = a[1];
    register long x2 __asm__("x2") = a[2];
    register long x3 __asm__("x3") = a[3];
    register long x4 __asm__("x4") = a[4];
    register long x5 __asm__("x5") = a[5];
    __asm__ __volatile__("svc 0"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                         : "memory");
    return x0;
}

#else

static long instruction(long number, const long *a)
{
    long (*libcs)(long, ...) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "syscall");
    memcpy(&libcs, &symbol, sizeof symbol);
    long result = libcs(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return result == -1 ? -errno : result;
}

#endif

long tdi_raw_syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    long result = instruction(number, a);
    if (result >= 0 || result < -HIGHEST_ERRNO)
        return result;
    errno = (int)-result;
    return -1;
}
