/* SPDX-License-Identifier: MIT */
/* The words of the environment that this process was given, kept for those it executes; see heritage.h. */
#ifndef TUNDISH_PRELOAD_WORDS_H
#define TUNDISH_PRELOAD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TDI_WORDS 96               /* eight rules of ten words, and what is of no rule */
#define TDI_WORDS_TEXT (16 * 1024) /* of all words; the policy itself holds less */

#define PREFIX "TUNDISH_"
#define DIRECTORY "TUNDISH_DIR="
#define PRELOAD "LD_PRELOAD="
#define RUNTIME "XDG_RUNTIME_DIR="

/* What this process was given itself. Written at its start and never again. */
struct tdi_words {
    const char *file;    /* last part of our file's name; an LD_PRELOAD entry that ends in it is us */
    const char *entry;   /* our entry as it was written, the hook library's before it; NULL: none is known */
    bool hooks;          /* there is one of those in it */
    const char *runtime; /* our XDG_RUNTIME_DIR word, on which the default directory depends; NULL: none */
    uint32_t directory;  /* which word names that default; TDI_WORDS: none, TUNDISH_DIR was set */
    uint32_t words;
    const char *word[TDI_WORDS];
    size_t used;
    char text[TDI_WORDS_TEXT];
};

extern struct tdi_words tdi_words;

static inline bool tdi_words_start(const char *word, const char *start)
{
    return strncmp(word, start, strlen(start)) == 0;
}

/* Two words of the same name. */
bool tdi_words_same(const char *a, const char *b);

/* The next entry of a list as ld.so reads it: its length, 0 at the end. */
size_t tdi_words_next(const char **at);

/* Whether an LD_PRELOAD entry is this library. */
bool tdi_words_is_us(const char *entry, size_t len);

/* Whether it is a hook library, whichever. */
bool tdi_words_is_hooks(const char *entry, size_t len);

/* Copies them; false if they do not fit. tdi_words.file must be set. */
bool tdi_words_keep(char *const *words);

#endif
