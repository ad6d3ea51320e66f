/* SPDX-License-Identifier: MIT */
/*
 * A plugin, built twice with other answers: both copies export the same names, and each must be reached by
 * whoever asks this copy. plugin_ask_itself() calls its own plugin_answer as an exported function.
 */
#include <dlfcn.h>

#include "guest.h"

int plugin_answer(int value);
int plugin_ask_itself(int value);
size_t plugin_send(size_t len);
void *plugin_next(const char *name);

int plugin_answer(int value)
{
    return 10 * value + ANSWER;
}

int plugin_ask_itself(int value)
{
    return plugin_answer(value);
}

/* Calls a library that the program has, too. */
size_t plugin_send(size_t len)
{
    return guest_send("", len);
}

/* What comes after the plugin, as it sees it. */
void *plugin_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}
