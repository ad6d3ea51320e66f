/* SPDX-License-Identifier: MIT */
#include "words.h"

#include <limits.h>

#include "lib/name.h"
#include "policy/stub.h"

struct tdi_words tdi_words;

bool tdi_words_same(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return strncmp(a, b, len) == 0 && b[len] == '=';
}

size_t tdi_words_next(const char **at)
{
    *at += strspn(*at, " :");
    return strcspn(*at, " :");
}

/* Where the last part of a path begins. */
static size_t last_part(const char *entry, size_t len)
{
    size_t from = len;
    while (from > 0 && entry[from - 1] != '/')
        from--;
    return from;
}

bool tdi_words_is_us(const char *entry, size_t len)
{
    size_t from = last_part(entry, len);
    return strlen(tdi_words.file) == len - from && memcmp(entry + from, tdi_words.file, len - from) == 0;
}

bool tdi_words_is_hooks(const char *entry, size_t len)
{
    size_t from = last_part(entry, len), start = strlen(TDI_STUB_FILE);
    return len - from > start && memcmp(entry + from, TDI_STUB_FILE, start) == 0;
}

/* Copies a string of len bytes behind the others, after `start`. NULL if it does not fit. */
static const char *keep(const char *start, const char *from, size_t len)
{
    size_t start_len = strlen(start);
    char *kept = tdi_words.text + tdi_words.used;
    if (start_len + len >= TDI_WORDS_TEXT - tdi_words.used)
        return NULL;
    memcpy(kept, start, start_len);
    memcpy(kept + start_len, from, len);
    kept[start_len + len] = '\0';
    tdi_words.used += start_len + len + 1;
    return kept;
}

static bool keep_word(const char *start, const char *from)
{
    const char *kept = tdi_words.words < TDI_WORDS ? keep(start, from, strlen(from)) : NULL;
    if (kept == NULL)
        return false;
    tdi_words.word[tdi_words.words++] = kept;
    return true;
}

/* As getenv sees it: the first one counts. */
static bool is_kept_already(const char *word)
{
    for (uint32_t i = 0; i < tdi_words.words; i++)
        if (tdi_words_same(word, tdi_words.word[i]))
            return true;
    return false;
}

/* The first entry that is one of us, and where it ends. */
static const char *find_entry(const char *list, bool (*is_it)(const char *, size_t), size_t *len)
{
    for (; (*len = tdi_words_next(&list)) > 0; list += *len)
        if (is_it(list, *len))
            return list;
    return NULL;
}

/* Our entry as somebody wrote it: it may name us in a way that only ld.so can resolve. */
static bool keep_entry(const char *list)
{
    char both[2 * PATH_MAX];
    size_t len, hooks_len;
    const char *us = find_entry(list, tdi_words_is_us, &len);
    const char *hooks = find_entry(list, tdi_words_is_hooks, &hooks_len);
    if (us == NULL || tdi_words.entry != NULL)
        return true;
    if (hooks == NULL)
        return (tdi_words.entry = keep("", us, len)) != NULL;
    if (hooks_len + len + 1 >= sizeof both)
        return false;
    memcpy(both, hooks, hooks_len);
    both[hooks_len] = ':';
    both[hooks_len + 1] = '\0';
    tdi_words.hooks = true;
    return (tdi_words.entry = keep(both, us, len)) != NULL;
}

bool tdi_words_keep(char *const *words)
{
    bool fits = true, directory = false;
    for (; words != NULL && *words != NULL; words++) {
        const char *word = *words;
        directory = directory || tdi_words_start(word, DIRECTORY);
        if (tdi_words_start(word, PREFIX) && strchr(word, '=') != NULL && !is_kept_already(word))
            fits = fits && keep_word("", word);
        if (tdi_words_start(word, PRELOAD))
            fits = fits && keep_entry(word + strlen(PRELOAD));
        if (tdi_words_start(word, RUNTIME) && tdi_words.runtime == NULL)
            fits = fits && (tdi_words.runtime = keep("", word, strlen(word))) != NULL;
    }
    char path[PATH_MAX];
    tdi_words.directory = TDI_WORDS;
    if (fits && !directory && tdi_name_directory(TDI_NAME_ONLY, path, sizeof path) == 0) {
        tdi_words.directory = tdi_words.words;
        fits = keep_word(DIRECTORY, path);
    }
    return fits;
}
