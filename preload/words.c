/* SPDX-License-Identifier: MIT */
#include "words.h"

#include <limits.h>

#include "lib/name.h"

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

bool tdi_words_is_us(const char *entry, size_t len)
{
    size_t from = len;
    while (from > 0 && entry[from - 1] != '/')
        from--;
    return strlen(tdi_words.file) == len - from && memcmp(entry + from, tdi_words.file, len - from) == 0;
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

/* Our entry as somebody wrote it: it may name us in a way that only ld.so can resolve. */
static bool keep_entry(const char *list)
{
    size_t len;
    for (; (len = tdi_words_next(&list)) > 0; list += len)
        if (tdi_words.entry == NULL && tdi_words_is_us(list, len) &&
            (tdi_words.entry = keep("", list, len)) == NULL)
            return false;
    return true;
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
