/* SPDX-License-Identifier: MIT */
/*
 * Calls each function of the library and says what is wrong with its answer. With --denied memory may not
 * become executable in this process and what it executes, so the program executes itself once more. At the
 * end it looks whether any memory can be both written and executed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "abi.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#define REFUSE_EXEC_GAIN 1

static int failures;
static jmp_buf outside;

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    printf("wrong: %s\n", what);
    failures++;
}

static void jump(void *argument)
{
    longjmp(outside, *(int *)argument);
}

static void note(void *argument)
{
    *(int *)argument = 5;
}

static void check_numbers(void)
{
    check(abi_ten(-1, 250, -3000, 60000, -5, 4000000000U, -7, 8, INT64_C(1) << 40, "j") ==
              -1 + 500 - 9000 + 240000 - 25 + INT64_C(24000000000) - 49 + 64 + 9 * (INT64_C(1) << 40) + 1060,
          "ten integers");
    check(abi_mixed(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) == 650, "integers and doubles");
    check(abi_small(7) == -7 && abi_small(-7) == 7, "a small negative result");
    check(abi_odd(3) && !abi_odd(4), "a bool");
    check(abi_long(1.0L) == 1.0L / 3, "a long double");
}

static void check_structs(void)
{
    const struct abi_large large = {{1, 2, 3, 4, 5}}, expected = {{6, 8, 10, 2, 4}};
    const struct abi_large turned = abi_large(large, 2.0L, 2);
    const struct abi_pair pair = abi_pair(3, (struct abi_pair){2, 0.5});
    const struct abi_floats floats = abi_floats((struct abi_floats){1.5F, -2});
    check(pair.i == 6 && pair.d == 1.5, "a struct of an int and a double");
    check(memcmp(&turned, &expected, sizeof turned) == 0, "a large struct");
    check(floats.x == -2 && floats.y == 1.5F, "a struct of two floats");
}

static void check_rest(void)
{
    int number = 40;
    errno = 99;
    check(abi_sum(2, 1, 2.5, &number) == 86, "variable arguments");
    abi_call(note, &number);
    check(number == 5, "a callback");
    switch (setjmp(outside)) {
    case 0:
        abi_call(jump, &number);
        check(false, "a callback that jumps");
        break;
    case 5:
        break;
    default:
        check(false, "where a callback jumps to");
    }
    check(errno == 99, "errno");
}

static void check_memory(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    check(maps != NULL, "/proc/self/maps");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        check(strstr(line, " rwx") == NULL && strstr(line, " -wx") == NULL, line);
    if (maps != NULL)
        fclose(maps);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--denied") == 0) {
        if (prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
            return 77;
        argv[1] = NULL;
        execv("/proc/self/exe", argv);
        return 1;
    }
    check_numbers();
    check_structs();
    check_rest();
    if (argc < 2) /* --anywhere: emulators have such memory of their own */
        check_memory();
    return failures > 0;
}
