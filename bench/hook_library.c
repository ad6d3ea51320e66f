/* SPDX-License-Identifier: MIT */
/* A library as users have them: functions that take a handle, a buffer and its length, and do nothing. */
#include "hook_library.h"

#define DEFINE(name)                                                                                         \
    __attribute__((visibility("default"), noinline)) int name(void *handle, const void *buf, int length)     \
    {                                                                                                        \
        (void)handle;                                                                                        \
        (void)buf;                                                                                           \
        return length;                                                                                       \
    }

DEFINE(send_bare)
DEFINE(send_wrapped)
DEFINE(send_hooked)
DEFINE(send_passed)
