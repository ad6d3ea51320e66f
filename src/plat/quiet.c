/* SPDX-License-Identifier: MIT */
/* Both signals are raised by the very call, for the calling thread: it is pending when the call returns. */
#include "plat/quiet.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

static bool is_pending(int signal_number)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, signal_number) == 1;
}

void tdi_quiet_begin(struct tdi_quiet *quiet, int signal_number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    pthread_sigmask(SIG_BLOCK, &one, &quiet->mask);
    quiet->pending = is_pending(signal_number);
}

void tdi_quiet_end(const struct tdi_quiet *quiet, int signal_number)
{
    const struct timespec at_once = {0, 0};
    int saved = errno;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    if (!quiet->pending && is_pending(signal_number))
        sigtimedwait(&one, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &quiet->mask, NULL);
    errno = saved;
}

void tdi_quiet_begin_all(sigset_t *former)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, former);
}

void tdi_quiet_end_all(const sigset_t *former)
{
    pthread_sigmask(SIG_SETMASK, former, NULL);
}
