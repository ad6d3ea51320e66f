/* SPDX-License-Identifier: MIT */
/*
 * Small readers for the words of the environment. All take text and touch nothing else: no allocation, no
 * locale, no errno.
 */
#ifndef TUNDISH_POLICY_ENV_H
#define TUNDISH_POLICY_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool tdi_text_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bool tdi_text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A line put together in a caller's buffer; what does not fit is cut, always terminated. */
struct tdi_text {
    char *at;
    size_t left; /* the terminator's place included */
};

static inline void tdi_text_start(struct tdi_text *line, char *buf, size_t len)
{
    line->at = buf;
    line->left = len;
    if (len > 0)
        *buf = '\0';
}

static inline void tdi_text_add(struct tdi_text *line, const char *text)
{
    while (*text != '\0' && line->left > 1) {
        *line->at++ = *text++;
        line->left--;
    }
    if (line->left > 0)
        *line->at = '\0';
}

/* The first `len` bytes of text; what would disturb a terminal becomes a '?'. */
static inline void tdi_text_add_item(struct tdi_text *line, const char *text, size_t len)
{
    for (; len > 0 && line->left > 1; len--, text++, line->left--)
        *line->at++ = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
    if (line->left > 0)
        *line->at = '\0';
}

/* The next element of a comma list: false at the end. Surrounding blanks are not part of it. */
static inline bool tdi_list_next(const char **rest, const char **item, size_t *len)
{
    const char *start = *rest;
    if (start == NULL)
        return false;
    const char *end = strchr(start, ',');
    *rest = end != NULL ? end + 1 : NULL;
    if (end == NULL)
        end = start + strlen(start);
    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    while (end > start && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *item = start;
    *len = (size_t)(end - start);
    return true;
}

/* Whether the len bytes at item are exactly `word`. */
static inline bool tdi_item_is(const char *item, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(item, word, len) == 0;
}

#endif
