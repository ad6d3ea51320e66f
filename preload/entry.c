/* SPDX-License-Identifier: MIT */
/*
 * The only constructor, and the only destructor. With -z initfirst it usually runs before every other one,
 * libc's included: then libc does not know the environment and the program's name yet, and gets here what it
 * will set itself in a moment, because opening a bucket asks for both.
 */
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "inside.h"
#include "policy/policy.h"
#include "ready/debt.h"
#include "real.h"
#include "rule.h"
#include "say.h"

__attribute__((constructor)) static void enter(int argc, char **argv, char **environ_words)
{
    int saved_errno = errno;
    if (environ == NULL)
        environ = environ_words;
    if (argc > 0 && argv[0] != NULL &&
        (program_invocation_short_name == NULL || *program_invocation_short_name == '\0')) {
        program_invocation_name = argv[0];
        program_invocation_short_name = argv[0] + (tdi_policy_program(argv[0]) - argv[0]);
    }
    (void)tdi_real();
    tdi_say_to();
    tdi_inside.house++;
    tdi_rules_open(argc, argv, environ_words);
    tdi_inside.house--;
    errno = saved_errno;
}

__attribute__((destructor)) static void leave(void)
{
    tdi_rules_report();
    tdi_debt_leave();
    tdi_rules_leave();
}
