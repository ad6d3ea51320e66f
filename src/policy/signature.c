/* SPDX-License-Identifier: MIT */
/*
 * The compact form of a signature: walked through, judged and written as C again. Nothing here looks beyond
 * the terminator, however broken a compact form is; types are taken one after the other, brackets counted.
 */
#include "policy/signature.h"

#include <string.h>

#include "policy/env.h"

/* Behind a sound type, or NULL. */
static const char *skip_sound(const char *type, unsigned depth)
{
    if (*type != '{')
        return *type != '\0' && strchr("pbhilBHILfde", *type) != NULL ? type + 1 : NULL;
    if (depth == TDI_SIGNATURE_DEPTH || *++type == '}')
        return NULL;
    while (type != NULL && *type != '}')
        type = skip_sound(type, depth + 1);
    return type != NULL ? type + 1 : NULL;
}

bool tdi_signature_is_sound(const char *signature)
{
    const char *at = *signature == 'v' ? signature + 1 : skip_sound(signature, 0);
    bool variable = false;
    unsigned args = 0;
    while (at != NULL && *at != '\0') {
        if (*at == '.') {
            if (variable || args == 0 || *++at == '\0')
                return false;
            variable = true;
        }
        if (args++ == TDI_SIGNATURE_ARGS || (variable && strchr("fbBhH", *at) != NULL))
            return false;
        at = skip_sound(at, 0);
    }
    return at != NULL && at - signature < TDI_SIGNATURE_TEXT;
}

const char *tdi_signature_next(const char *type)
{
    unsigned depth = 0;
    while (*type != '\0') {
        depth += *type == '{';
        depth -= *type == '}' && depth > 0;
        type++;
        if (depth == 0)
            break;
    }
    return type;
}

const char *tdi_signature_type(const char *signature, int i)
{
    const char *type = signature;
    for (; i >= 0 && *type != '\0'; i--) {
        type = tdi_signature_next(type);
        if (*type == '.')
            type++;
    }
    return type;
}

unsigned tdi_signature_args(const char *signature)
{
    unsigned args = 0;
    for (const char *at = tdi_signature_next(signature); *at != '\0'; at = tdi_signature_next(at))
        args += *at != '.';
    return args;
}

unsigned tdi_signature_fixed(const char *signature)
{
    unsigned args = 0;
    for (const char *at = tdi_signature_next(signature); *at != '\0' && *at != '.';
         at = tdi_signature_next(at))
        args++;
    return args;
}

static const char *word_for(char type)
{
    static const struct {
        char type;
        const char *word;
    } words[] = {
        {'v', "void"},
        {'p', "pointer"},
        {'b', "signed char"},
        {'h', "short"},
        {'i', "int"},
        {'B', "unsigned char"},
        {'I', "unsigned"},
        {'f', "float"},
        {'H', "unsigned short"},
        {'e', "long double"},
        {'d', "double"},
        {'l', sizeof(long) == 8 ? "long" : "int64_t"},
        {'L', sizeof(size_t) == 8 ? "size_t" : "uint64_t"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].type == type)
            return words[i].word;
    return "?";
}

/* A list of types, up to a '}' or the end, in one go: brackets and commas follow from what is next. */
static void add_types(struct tdi_text *line, const char *at)
{
    bool first = true;
    for (; *at != '\0'; at++) {
        if (!first && *at != '}')
            tdi_text_add(line, ", ");
        if (*at == '.') {
            tdi_text_add(line, "...");
            first = true;
            continue;
        }
        tdi_text_add(line, *at == '{' ? "{" : *at == '}' ? "}" : word_for(*at));
        first = *at == '{';
    }
}

void tdi_signature_format(char *buf, size_t len, const char *signature)
{
    char result[TDI_SIGNATURE_TEXT];
    const char *args = tdi_signature_next(signature);
    size_t n = (size_t)(args - signature);
    struct tdi_text line;
    tdi_text_start(&line, buf, len);
    if (n >= sizeof result)
        n = sizeof result - 1;
    memcpy(result, signature, n);
    result[n] = '\0';
    add_types(&line, result);
    tdi_text_add(&line, " (");
    add_types(&line, args);
    tdi_text_add(&line, ")");
}
