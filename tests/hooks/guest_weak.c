/* SPDX-License-Identifier: MIT */
/* A program that has a use for a function which nobody may define: it looks for it, and does without. */
#include <dlfcn.h>
#include <stdio.h>

__attribute__((weak)) int guest_nobody(int value);

int main(int argc, char **argv)
{
    (void)argv;
    printf("found %d\n", dlsym(RTLD_DEFAULT, "guest_nobody") != NULL);
    if (argc > 1)
        printf("weak %d\n", guest_nobody != NULL);
    return 0;
}
