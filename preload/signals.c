/* SPDX-License-Identifier: MIT */
#include "signals.h"

#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What a program does to itself. Runtimes (Rust, Java, sanitizers) handle these without SA_RESTART. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

/*
 * What is often ignored, by default or by nohup, a shell's "&", and most servers. Asking about all takes
 * time.
 */
static const int often_ignored[] = {SIGCHLD, SIGURG,  SIGWINCH, SIGCONT, SIGPIPE, SIGHUP,
                                    SIGINT,  SIGQUIT, SIGTSTP,  SIGTTIN, SIGTTOU};

static bool is_fault(int number)
{
    for (size_t i = 0; i < COUNT(faults); i++)
        if (faults[i] == number)
            return true;
    return false;
}

static bool is_caught(int number, struct sigaction *action)
{
    return sigaction(number, NULL, action) == 0 && action->sa_handler != SIG_DFL &&
           action->sa_handler != SIG_IGN;
}

void tdi_signals_to_keep_out(sigset_t *set)
{
    struct sigaction action;
    sigfillset(set);
    sigdelset(set, SIGKILL);
    sigdelset(set, SIGSTOP);
    for (size_t i = 0; i < COUNT(faults); i++)
        sigdelset(set, faults[i]);
    for (size_t i = 0; i < COUNT(often_ignored); i++)
        if (!is_caught(often_ignored[i], &action))
            sigdelset(set, often_ignored[i]);
}

bool tdi_signals_is_caught(int number)
{
    struct sigaction action;
    return is_caught(number, &action);
}

bool tdi_signals_interrupts(int number)
{
    struct sigaction action;
    return is_caught(number, &action) && (action.sa_flags & SA_RESTART) == 0;
}

bool tdi_signals_some_interrupts(void)
{
    for (int number = 1; number < NSIG; number++)
        if (!is_fault(number) && tdi_signals_interrupts(number))
            return true;
    return false;
}
