/* SPDX-License-Identifier: MIT */
/* Functions of so many arguments that are the system call of their name. */
#ifndef TUNDISH_PRELOAD_RAW_MACROS_H
#define TUNDISH_PRELOAD_RAW_MACROS_H

#include <sys/syscall.h>
#include <unistd.h>

#define RAW3(type, name, A, B, C)                                                                            \
    static type raw_##name(A a, B b, C c)                                                                    \
    {                                                                                                        \
        return (type)syscall(SYS_##name, a, b, c);                                                           \
    }
#define RAW4(type, name, A, B, C, D)                                                                         \
    static type raw_##name(A a, B b, C c, D d)                                                               \
    {                                                                                                        \
        return (type)syscall(SYS_##name, a, b, c, d);                                                        \
    }
#define RAW5(type, name, A, B, C, D, E)                                                                      \
    static type raw_##name(A a, B b, C c, D d, E e)                                                          \
    {                                                                                                        \
        return (type)syscall(SYS_##name, a, b, c, d, e);                                                     \
    }
#define RAW6(type, name, A, B, C, D, E, F)                                                                   \
    static type raw_##name(A a, B b, C c, D d, E e, F f)                                                     \
    {                                                                                                        \
        return (type)syscall(SYS_##name, a, b, c, d, e, f);                                                  \
    }

#endif
