/* SPDX-License-Identifier: MIT */
/* See step.h. The kernel takes the trap flag away while a handler runs, so the intruder runs at full speed. */
#include "unit/step.h"

#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#if STEP_CAN

#define TRAP_FLAG 0x100

static struct {
    step_fn *intrude;
    void *context;
    unsigned long at;
    unsigned long every; /* 0: once */
    unsigned long steps;
    unsigned long came;
} now;

static void on_step(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    (void)signal, (void)info;
    if (++now.steps != now.at)
        return;
    now.at += now.every;
    if (now.every == 0)
        interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    now.came++;
    now.intrude(now.context);
}

/* What lies below the stack pointer is the caller's to keep: 128 bytes. */
#define CHANGE_FLAGS(change)                                                                                 \
    __asm__ __volatile__("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" change                                       \
                         ", (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::                                    \
                             : "memory", "cc")

unsigned long step_intrude_often(step_fn *act, step_fn *intrude, void *context, unsigned long at,
                                 unsigned long every)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_RESTART}, before;
    now.intrude = intrude;
    now.context = context;
    now.at = at;
    now.every = every;
    now.steps = now.came = 0;
    sigaction(SIGTRAP, &action, &before);
    CHANGE_FLAGS("orq $0x100");
    act(context);
    CHANGE_FLAGS("andq $~0x100");
    sigaction(SIGTRAP, &before, NULL);
    return now.came;
}

#else

unsigned long step_intrude_often(step_fn *act, step_fn *intrude, void *context, unsigned long at,
                                 unsigned long every)
{
    (void)intrude, (void)at, (void)every;
    act(context);
    return 0;
}

#endif

bool step_intrude(step_fn *act, step_fn *intrude, void *context, unsigned long at)
{
    return step_intrude_often(act, intrude, context, at, 0) > 0;
}
