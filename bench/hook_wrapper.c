/* SPDX-License-Identifier: MIT */
/* What a C programmer would write for one function: a library that defines it too, and is found first. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <tundish/tundish.h>

#include "hook_library.h"

static struct tundish *bucket;
static int (*real_send)(void *, const void *, int);

static void prepare(void)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(1000000000, 2000000000);
    void *symbol = dlsym(RTLD_NEXT, "send_wrapped");
    if (symbol == NULL || tundish_create_private(&bucket, &options) != 0)
        return;
    memcpy(&real_send, &symbol, sizeof symbol);
}

__attribute__((visibility("default"))) int send_wrapped(void *handle, const void *buf, int length)
{
    int saved_errno = errno;
    if (real_send == NULL)
        prepare();
    if (tundish_acquire(bucket, (uint32_t)length) != 0)
        return -1;
    errno = saved_errno;
    return real_send(handle, buf, length);
}
