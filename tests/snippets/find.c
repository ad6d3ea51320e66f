/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "snippets.h"

const struct snippet *const snippets[] = {
    &snippet_connect, &snippet_write, &snippet_writev, &snippet_send, &snippet_sendto, &snippet_sendmsg, NULL,
};

const struct snippet *snippet_find(const char *name)
{
    for (size_t i = 0; snippets[i] != NULL; i++)
        if (strcmp(snippets[i]->name, name) == 0)
            return snippets[i];
    return NULL;
}
