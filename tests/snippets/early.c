/* SPDX-License-Identifier: MIT */
/*
 * A library that the guest needs. Its constructor runs before those of most preloaded libraries, and makes
 * the call if SNIPPET_EARLY names one. Failure ends the process: there is nobody to tell yet.
 */
#include <string.h>
#include <unistd.h>

#include "snippets.h"

void snippet_early(void);

/* Something for the guest to need. */
void snippet_early(void)
{
}

__attribute__((constructor)) static void early(int argc, char **argv, char **words)
{
    (void)argc;
    (void)argv;
    for (; *words != NULL; words++)
        if (strncmp(*words, "SNIPPET_EARLY=", 14) == 0 && snippet_find(*words + 14)->run() != 0)
            _exit(99);
}
