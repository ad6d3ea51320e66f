/* SPDX-License-Identifier: MIT */
/*
 * The function that hook libraries jump to, as a test has it: it returns the address that came in the scratch
 * register. The program must export its symbols.
 */
#ifndef TUNDISH_TESTS_HOOKS_STUB_ENTER_H
#define TUNDISH_TESTS_HOOKS_STUB_ENTER_H

#include "policy/stub.h"

#if defined __x86_64__
#define STUB_ENTER_CODE "endbr64\n mov %r10, %rax\n ret\n"
#elif defined __aarch64__
#define STUB_ENTER_CODE "hint #34\n mov x0, x17\n ret\n"
#endif

#ifdef STUB_ENTER_CODE
__asm__(".text\n"
        ".globl " TDI_STUB_ENTER "\n"
        ".type " TDI_STUB_ENTER ", %function\n" TDI_STUB_ENTER ":\n" STUB_ENTER_CODE ".size " TDI_STUB_ENTER
        ", . - " TDI_STUB_ENTER "\n");
#endif

#endif
