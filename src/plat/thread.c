/* SPDX-License-Identifier: MIT */
/* See thread.h. */
#include "plat/thread.h"

#include <signal.h>
#include <stddef.h>

#define STACK_BYTES (256 * 1024) /* a policy's callbacks run on it */

int tdi_thread_start(pthread_t *out, const char *name, void *(*run)(void *))
{
    pthread_attr_t attributes;
    sigset_t all, mask;
    int error = pthread_attr_init(&attributes);
    if (error)
        return -error;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask); /* the new thread inherits it */
    error = pthread_create(out, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_attr_destroy(&attributes);
    if (!error)
        pthread_setname_np(*out, name);
    return -error;
}
