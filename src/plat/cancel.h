/* SPDX-License-Identifier: MIT */
/*
 * What is to be done if a call is left by other ways than its end: the thread is cancelled, or a signal
 * handler jumps out of it, as timeouts made with alarm() do.
 *
 * glibc's pthread_cleanup_push is a setjmp whose buffer stays registered after such a jump, and a thread that
 * later ends by pthread_exit crashes on it. Its older functions behind the same idea know jumps and run what
 * was pushed. They are exported for good, but not declared.
 */
#ifndef TUNDISH_PLAT_CANCEL_H
#define TUNDISH_PLAT_CANCEL_H

#include <pthread.h>

/* For functions that are no cancellation points, around system calls that are. Returns what restore wants. */
static inline int tdi_cancel_disable(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void tdi_cancel_restore(int state)
{
    int unused;
    pthread_setcancelstate(state, &unused);
}

#ifdef __GLIBC__

extern void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*routine)(void *),
                                  void *argument);
extern void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

/* A pair, as pthread_cleanup_push and _pop are. */
#define tdi_cleanup_push(routine, argument)                                                                  \
    {                                                                                                        \
        struct _pthread_cleanup_buffer tdi_cleanup_buffer;                                                   \
        _pthread_cleanup_push(&tdi_cleanup_buffer, (routine), (argument))
#define tdi_cleanup_pop()                                                                                    \
    _pthread_cleanup_pop(&tdi_cleanup_buffer, 0);                                                            \
    }

#else

#define tdi_cleanup_push(routine, argument) pthread_cleanup_push(routine, argument)
#define tdi_cleanup_pop() pthread_cleanup_pop(0)

#endif
#endif
