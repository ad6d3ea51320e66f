/* SPDX-License-Identifier: MIT */
/*
 * A library that is linked with one of the two plugins, loaded where nobody else sees it. It calls hooked
 * functions when it is loaded and when it is unloaded, too.
 */
#include <stdio.h>

#include "guest.h"

int plugin_answer(int value);
int USER(int value);

__attribute__((constructor)) static void begin(void)
{
    printf("begins with %d %zu\n", plugin_answer(7), guest_send("", 2));
}

__attribute__((destructor)) static void end(void)
{
    printf("ends with %d %zu\n", plugin_answer(8), guest_send("", 2));
}

int USER(int value)
{
    return plugin_answer(value);
}
