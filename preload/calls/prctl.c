/* SPDX-License-Identifier: MIT */
/*
 * prctl is wrapped for one thing: a program that enters seccomp is left alone from then on. Everything else
 * is passed on, with as many arguments as the kernel has.
 */
#include <stdarg.h>
#include <sys/prctl.h>

#include "gate.h"
#include "real.h"
#include "rule.h"

TDI_WRAPPER int prctl(int option, ...)
{
    unsigned long argument[4];
    va_list arguments;
    va_start(arguments, option);
    for (int i = 0; i < 4; i++)
        argument[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option == PR_SET_SECCOMP)
        tdi_rules_stand_down();
    int result = tdi_real()->prctl(option, argument[0], argument[1], argument[2], argument[3]);
    if (option == PR_SET_SECCOMP && result != 0)
        tdi_rules_stand_up();
    return result;
}
