/* SPDX-License-Identifier: MIT */
/*
 * Comparisons of our own. Functions are looked up before the program's first instruction, and a program, or a
 * sanitizer's runtime in it, may have a strcmp() that asks for the real one first: which would be looked up.
 */
#ifndef TUNDISH_PRELOAD_TEXT_H
#define TUNDISH_PRELOAD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

static inline bool tdi_text_same(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (*a == '\0')
            return true;
    return false;
}

static inline bool tdi_text_begins(const char *text, const char *start)
{
    for (; *start != '\0'; text++, start++)
        if (*text != *start)
            return false;
    return true;
}

/* Behind the last slash. */
static inline const char *tdi_text_last_part(const char *path)
{
    const char *part = path;
    for (; *path != '\0'; path++)
        if (*path == '/')
            part = path + 1;
    return part;
}

#endif
