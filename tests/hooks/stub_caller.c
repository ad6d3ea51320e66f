/* SPDX-License-Identifier: MIT */
/*
 * A program for a hook library in LD_PRELOAD that hooks `first`, `second` and `unlink`. Exit status 0: each
 * call came with its entry; 1: one did not; 2: nothing is hooked.
 */
#include <string.h>
#include <unistd.h>

#include "hooks/stub_enter.h"

const struct tdi_stub_entry *first(void) __attribute__((weak));
const struct tdi_stub_entry *second(int, int) __attribute__((weak));

static int early = 2;

static int is_entry(const struct tdi_stub_entry *entry, const char *name)
{
    return strcmp(entry->name, name) == 0 && !entry->hook;
}

/* Before main, as constructors of libraries may. */
__attribute__((constructor)) static void call_early(void)
{
    if (first)
        early = is_entry(first(), "first") ? 0 : 1;
}

int main(void)
{
    if (early != 0 || !second)
        return early;
    return is_entry(second(1, 2), "second") && unlink("/nonexistent/file") != -1 ? 0 : 1;
}
