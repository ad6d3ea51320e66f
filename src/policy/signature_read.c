/* SPDX-License-Identifier: MIT */
/*
 * A signature is read in one pass from the left, a word or a sign at a time, and its compact form written on
 * the way. What a type turns out to be is known at its end only: the '*' that makes a pointer of anything,
 * also of what nobody here knows or could pass on, comes last. So complaints about a type wait for that.
 */
#include "policy/signature.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "policy/env.h"

static const char EXAMPLE[] = ": a signature is written like int (pointer, size_t)";
static const char WHY_VECTOR[] = "vector arguments cannot be passed on";
static const char WHY_WIDE[] = "values of this type cannot be passed on";
static const char WHY_UNKNOWN[] =
    "is no known type: write pointer, a type of C such as int, unsigned long or size_t, or "
    "a struct by value as {int, double}";
static const char WHY_TAG[] = "a struct by value is written as its members are, {int, double}; "
                              "its address as pointer";

/* How an integer type of this machine is written in a compact signature. */
#define INTEGER(type)                                                                                        \
    ((type)-1 < (type)1  ? sizeof(type) == 1   ? 'b'                                                         \
                           : sizeof(type) == 2 ? 'h'                                                         \
                           : sizeof(type) == 4 ? 'i'                                                         \
                                               : 'l'                                                         \
     : sizeof(type) == 1 ? 'B'                                                                               \
     : sizeof(type) == 2 ? 'H'                                                                               \
     : sizeof(type) == 4 ? 'I'                                                                               \
                         : 'L')

/* Types of one word. */
static const struct {
    const char *word;
    char type;
} names[] = {
    {"pointer", 'p'},
    {"void", 'v'},
    {"bool", 'B'},
    {"_Bool", 'B'},
    {"wchar_t", INTEGER(wchar_t)},
    {"size_t", INTEGER(size_t)},
    {"ssize_t", INTEGER(ssize_t)},
    {"ptrdiff_t", INTEGER(ptrdiff_t)},
    {"intptr_t", INTEGER(intptr_t)},
    {"uintptr_t", INTEGER(uintptr_t)},
    {"intmax_t", INTEGER(intmax_t)},
    {"uintmax_t", INTEGER(uintmax_t)},
    {"off_t", INTEGER(off_t)},
    {"off64_t", 'l'},
    {"loff_t", 'l'},
    {"time_t", INTEGER(time_t)},
    {"clock_t", INTEGER(clock_t)},
    {"clockid_t", INTEGER(clockid_t)},
    {"pid_t", INTEGER(pid_t)},
    {"uid_t", INTEGER(uid_t)},
    {"gid_t", INTEGER(gid_t)},
    {"mode_t", INTEGER(mode_t)},
    {"dev_t", INTEGER(dev_t)},
    {"ino_t", INTEGER(ino_t)},
    {"socklen_t", 'I'},
    {"int8_t", 'b'},
    {"int16_t", 'h'},
    {"int32_t", 'i'},
    {"int64_t", 'l'},
    {"uint8_t", 'B'},
    {"uint16_t", 'H'},
    {"uint32_t", 'I'},
    {"uint64_t", 'L'},
};

/* Words that make up a type together, in any order. */
enum {
    SIGNED = 1 << 0,
    UNSIGNED = 1 << 1,
    SHORT = 1 << 2,
    LONG = 1 << 3,
    LONG_LONG = 1 << 4,
    INT = 1 << 5,
    CHAR = 1 << 6,
    FLOAT = 1 << 7,
    DOUBLE = 1 << 8,
};

static const struct {
    const char *word;
    unsigned part;
} parts[] = {
    {"signed", SIGNED}, {"unsigned", UNSIGNED}, {"short", SHORT}, {"long", LONG},
    {"int", INT},       {"char", CHAR},         {"float", FLOAT}, {"double", DOUBLE},
};

/* What they make up; an int that may be left out is there, a signed that means nothing is not. */
static const struct {
    unsigned parts;
    char type;
} sums[] = {
    {CHAR, INTEGER(char)},
    {SIGNED | CHAR, 'b'},
    {UNSIGNED | CHAR, 'B'},
    {SHORT | INT, 'h'},
    {UNSIGNED | SHORT | INT, 'H'},
    {INT, 'i'},
    {UNSIGNED | INT, 'I'},
    {LONG | INT, INTEGER(long)},
    {UNSIGNED | LONG | INT, INTEGER(unsigned long)},
    {LONG_LONG | INT, 'l'},
    {UNSIGNED | LONG_LONG | INT, 'L'},
    {FLOAT, 'f'},
    {DOUBLE, 'd'},
    {LONG | DOUBLE, 'e'},
};

static const char *const qualifiers[] = {"const",      "volatile",     "restrict",    "__const",
                                         "__restrict", "__restrict__", "__volatile__"};

/* What no call can be passed on with, however it goes on. */
static const char *const wide_words[] = {"_Complex",   "complex",    "__complex__", "_Imaginary",
                                         "__int128",   "__int128_t", "__uint128_t", "__float128",
                                         "__bf16",     "__fp16",     "__ibm128",    "__float80",
                                         "_Decimal32", "_Decimal64", "_Decimal128"};

static const char *const vector_words[] = {"vector", "__vector", "__vector__", "__attribute__",
                                           "__attribute"};

enum place {
    PLACE_RESULT,
    PLACE_FIXED,
    PLACE_VARIABLE, /* behind the "..." */
    PLACE_MEMBER,
};

/* A signature on its way: the word or sign that is next, and what was written so far. */
struct scan {
    const char *word;
    size_t len; /* 0: the end */
    char *out;
    size_t used;
    bool full; /* `out` was too small */
    char *why;
    size_t why_len;
};

/* The words of one type. */
struct words {
    unsigned parts;
    char type;        /* of a single word */
    const char *last; /* the one that a complaint is about */
    size_t last_len;
    const char *trouble; /* why it is none, unless a '*' follows */
};

/* "'float32x4_t': vector arguments ..." */
static int complain_about(const struct scan *scan, const char *word, size_t len, const char *reason)
{
    struct tdi_text line;
    tdi_text_start(&line, scan->why, scan->why_len);
    tdi_text_add(&line, "'");
    tdi_text_add_item(&line, word, len);
    tdi_text_add(&line, "': ");
    tdi_text_add(&line, reason);
    return -EINVAL;
}

static int complain(const struct scan *scan, const char *reason)
{
    return complain_about(scan, scan->word, scan->len, reason);
}

/* "a type is missing before ')': ..." */
static int complain_missing(const struct scan *scan, const char *what)
{
    struct tdi_text line;
    tdi_text_start(&line, scan->why, scan->why_len);
    tdi_text_add(&line, what);
    tdi_text_add(&line, scan->len > 0 ? " is missing before '" : " is missing at the end");
    tdi_text_add_item(&line, scan->word, scan->len);
    tdi_text_add(&line, scan->len > 0 ? "'" : "");
    tdi_text_add(&line, EXAMPLE);
    return -EINVAL;
}

static int complain_size(const struct scan *scan)
{
    struct tdi_text line;
    tdi_text_start(&line, scan->why, scan->why_len);
    tdi_text_add(&line,
                 "structs by value have too many members: all types and brackets together are at most 159");
    return -EINVAL;
}

/* Bytes beyond ASCII count, so that a complaint shows a whole character. */
static bool is_word_char(char c)
{
    return tdi_text_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c & 0x80) != 0;
}

static void advance(struct scan *scan)
{
    scan->word += scan->len;
    scan->len = 0;
    while (tdi_text_is_blank(*scan->word))
        scan->word++;
    while (is_word_char(scan->word[scan->len]))
        scan->len++;
    if (scan->len == 0 && *scan->word != '\0')
        scan->len = strncmp(scan->word, "...", 3) == 0 ? 3 : 1;
}

static bool is(const struct scan *scan, const char *word)
{
    return tdi_item_is(scan->word, scan->len, word);
}

static bool accept(struct scan *scan, const char *word)
{
    if (!is(scan, word))
        return false;
    advance(scan);
    return true;
}

static bool is_name(const struct scan *scan)
{
    return scan->len > 0 && is_word_char(*scan->word) && !tdi_text_is_digit(*scan->word);
}

static bool is_one_of(const struct scan *scan, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is(scan, list[i]))
            return true;
    return false;
}

static bool is_qualifier(const struct scan *scan)
{
    return is_one_of(scan, qualifiers, sizeof qualifiers / sizeof *qualifiers);
}

static bool is_tag(const struct scan *scan)
{
    return is(scan, "struct") || is(scan, "union") || is(scan, "enum");
}

static unsigned part_of(const struct scan *scan)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (is(scan, parts[i].word))
            return parts[i].part;
    return 0;
}

static char type_of(const struct scan *scan)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is(scan, names[i].word))
            return names[i].type;
    return '\0';
}

static bool begins_with(const struct scan *scan, const char *text)
{
    return scan->len >= strlen(text) && memcmp(scan->word, text, strlen(text)) == 0;
}

/* __m128i, float32x4_t, svint8_t, and the words that make a vector of a type. */
static bool is_vector(const struct scan *scan)
{
    if (is_one_of(scan, vector_words, sizeof vector_words / sizeof *vector_words) ||
        begins_with(scan, "__SV"))
        return true;
    if (begins_with(scan, "__m") && tdi_text_is_digit(scan->word[3]))
        return true;
    if (scan->len < 4 || memcmp(scan->word + scan->len - 2, "_t", 2) != 0)
        return false;
    if (begins_with(scan, "svint") || begins_with(scan, "svuint") || begins_with(scan, "svfloat") ||
        begins_with(scan, "svbool"))
        return true;
    for (size_t i = 1; i + 1 < scan->len; i++)
        if (scan->word[i] == 'x' && tdi_text_is_digit(scan->word[i - 1]) &&
            tdi_text_is_digit(scan->word[i + 1]))
            return true;
    return false;
}

static bool is_wide(const struct scan *scan)
{
    return is_one_of(scan, wide_words, sizeof wide_words / sizeof *wide_words) || begins_with(scan, "_Float");
}

static void emit(struct scan *scan, char c)
{
    if (scan->used < TDI_SIGNATURE_TEXT - 1)
        scan->out[scan->used++] = c;
    else
        scan->full = true;
}

static bool has_type(const struct words *words)
{
    return words->parts != 0 || words->type != '\0' || words->trouble != NULL;
}

static void set_trouble(struct words *words, const struct scan *scan, const char *trouble)
{
    if (words->trouble == NULL) {
        words->trouble = trouble;
        words->last = scan->word;
        words->last_len = scan->len;
    }
}

static void add_part(struct words *words, const struct scan *scan, unsigned part)
{
    if (part == LONG && (words->parts & LONG) != 0) {
        words->parts &= ~(unsigned)LONG;
        part = LONG_LONG;
    }
    if (words->type != '\0' || (words->parts & part) != 0 ||
        (part == LONG && (words->parts & LONG_LONG) != 0))
        set_trouble(words, scan, "does not go with the words before it");
    words->parts |= part;
}

/* "struct foo": afterwards `scan` is at its name. */
static int add_tag(struct words *words, struct scan *scan)
{
    const struct scan tag = *scan;
    const bool is_enum = is(scan, "enum");
    if (has_type(words))
        set_trouble(words, &tag, "does not go with the words before it");
    advance(scan);
    if (!is_name(scan))
        return complain_missing(scan, "the name of a struct");
    if (is_enum)
        words->type = 'i';
    else
        set_trouble(words, &tag, WHY_TAG);
    if (words->last == tag.word)
        words->last_len = (size_t)(scan->word + scan->len - tag.word);
    return 0;
}

/* A word on its own. False if it is no part of the type, but the name of what has it. */
static bool add_word(struct words *words, const struct scan *scan)
{
    const unsigned part = part_of(scan);
    const char type = type_of(scan);
    if (part != 0)
        add_part(words, scan, part);
    else if (is_wide(scan) || begins_with(scan, "__attribute"))
        set_trouble(words, scan, is_wide(scan) ? WHY_WIDE : WHY_VECTOR);
    else if (type != '\0' && has_type(words))
        set_trouble(words, scan, "does not go with the words before it");
    else if (type != '\0')
        words->type = type;
    else if (has_type(words))
        return false;
    else
        set_trouble(words, scan, is_vector(scan) ? WHY_VECTOR : WHY_UNKNOWN);
    return true;
}

static int scan_words(struct scan *scan, struct words *words)
{
    for (; is_name(scan); advance(scan)) {
        if (is_qualifier(scan))
            continue;
        if (is_tag(scan)) {
            int error = add_tag(words, scan);
            if (error)
                return error;
        } else if (!add_word(words, scan)) {
            break;
        }
        if (words->trouble == NULL) {
            words->last = scan->word;
            words->last_len = scan->len;
        }
        if (begins_with(scan, "__attribute"))
            return complain(scan, WHY_VECTOR);
    }
    return has_type(words) ? 0 : complain_missing(scan, "a type");
}

/* The type that the words make up, '\0' if they make none. */
static char sum_up(const struct words *words)
{
    unsigned sum = words->parts;
    if (words->type != '\0')
        return words->type;
    if ((sum & (CHAR | FLOAT | DOUBLE)) == 0)
        sum |= INT;
    if ((sum & INT) != 0 && (sum & UNSIGNED) == 0)
        sum &= ~(unsigned)SIGNED;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (sums[i].parts == sum)
            return sums[i].type;
    return '\0';
}

static const char *why_not_variable(char type)
{
    if (type == 'f')
        return "C passes a float behind \"...\" as double: write double";
    if (type != '\0' && strchr("bBhH", type) != NULL)
        return "C passes a type as short as this behind \"...\" as int: write int";
    return NULL;
}

/* The type that the words make up where they stand. */
static int settle(struct scan *scan, const struct words *words, enum place place)
{
    const char type = sum_up(words);
    const char *trouble = words->trouble;
    if (trouble == NULL && type == '\0')
        trouble = "does not go with the words before it";
    if (trouble == NULL && type == 'v' && place != PLACE_RESULT)
        trouble = "is no type of a value: only a result, or nothing between the brackets, is void";
    if (trouble == NULL && place == PLACE_VARIABLE)
        trouble = why_not_variable(type);
    if (trouble != NULL)
        return complain_about(scan, words->last, words->last_len, trouble);
    emit(scan, type);
    return 0;
}

/* Any number of '*', with qualifiers between them. */
static bool scan_stars(struct scan *scan)
{
    bool any = false;
    for (; is(scan, "*") || is_qualifier(scan); advance(scan))
        any |= is(scan, "*");
    return any;
}

/* What may stand behind a type: a name, but neither an array nor a function. */
static int scan_name(struct scan *scan, enum place place)
{
    if (is_name(scan) && part_of(scan) == 0 && !is_tag(scan) && !begins_with(scan, "__attribute"))
        advance(scan);
    if (begins_with(scan, "__attribute"))
        return complain(scan, WHY_VECTOR);
    if (is(scan, "[") && place == PLACE_MEMBER)
        return complain(scan,
                        "an array in a struct by value is written as its elements are: {int, int, int}");
    if (is(scan, "["))
        return complain(scan, "an array is passed as its address: write pointer");
    if (is(scan, "(") && place != PLACE_RESULT)
        return complain(scan, "a function is passed as its address: write pointer");
    return 0;
}

static int scan_type(struct scan *scan, enum place place, unsigned depth);

/* Behind the '{'. */
static int scan_members(struct scan *scan, unsigned depth)
{
    if (is(scan, "}"))
        return complain(scan, "a struct by value has at least one member: {int, double}");
    do {
        int error = scan_type(scan, PLACE_MEMBER, depth);
        if (error)
            return error;
    } while (accept(scan, ","));
    return accept(scan, "}") ? 0 : complain_missing(scan, "a ',' or '}'");
}

/* A struct by value: also to be written "struct {int, double}". */
static int scan_struct(struct scan *scan, unsigned depth)
{
    const size_t start = scan->used;
    if (depth == TDI_SIGNATURE_DEPTH)
        return complain(scan, "structs by value are nested in each other more than 8 times");
    advance(scan);
    emit(scan, '{');
    int error = scan_members(scan, depth + 1);
    if (error)
        return error;
    emit(scan, '}');
    if (scan_stars(scan)) {
        scan->used = start;
        emit(scan, 'p');
    }
    return 0;
}

static bool is_struct(struct scan *scan)
{
    struct scan ahead = *scan;
    while (is_qualifier(&ahead))
        advance(&ahead);
    if (is(&ahead, "struct"))
        advance(&ahead);
    if (!is(&ahead, "{"))
        return false;
    *scan = ahead;
    return true;
}

static int scan_type(struct scan *scan, enum place place, unsigned depth)
{
    struct words words = {0};
    const bool by_members = is_struct(scan);
    int error = by_members ? scan_struct(scan, depth) : scan_words(scan, &words);
    if (error)
        return error;
    const bool pointer = !by_members && scan_stars(scan);
    if (pointer)
        emit(scan, 'p');
    error = scan_name(scan, place); /* before the type is judged: void (*f)(int) is no mistake about void */
    return error || by_members || pointer ? error : settle(scan, &words, place);
}

/* "..." and a comma that may follow. */
static int scan_dots(struct scan *scan, unsigned args)
{
    if (args == 0)
        return complain(scan,
                        "a variable argument list follows at least one argument: int (pointer, ...int)");
    struct scan dots = *scan;
    advance(scan);
    accept(scan, ",");
    if (is(scan, ")") || scan->len == 0)
        return complain(&dots,
                        "name the types that are really passed behind it, as in int (pointer, ...int): "
                        "an unknown variable argument list cannot be passed on");
    if (is(scan, "..."))
        return complain(scan, "there is one variable argument list at most");
    emit(scan, '.');
    return 0;
}

static bool accept_nothing(struct scan *scan)
{
    struct scan ahead = *scan;
    accept(&ahead, "void");
    if (!accept(&ahead, ")"))
        return false;
    *scan = ahead;
    return true;
}

/* Behind the '('. */
static int scan_parameters(struct scan *scan)
{
    enum place place = PLACE_FIXED;
    unsigned args = 0;
    if (accept_nothing(scan))
        return 0;
    do {
        int error = 0;
        if (is(scan, "...")) {
            if (place == PLACE_VARIABLE)
                return complain(scan, "there is one variable argument list at most");
            place = PLACE_VARIABLE;
            error = scan_dots(scan, args);
        }
        if (error == 0 && args++ == TDI_SIGNATURE_ARGS)
            return complain(scan, "there are more than 32 arguments, which are as many as can be passed on");
        if (error == 0)
            error = scan_type(scan, place, 0);
        if (error)
            return error;
    } while (accept(scan, ","));
    return accept(scan, ")") ? 0 : complain_missing(scan, "a ',' or ')'");
}

static int scan_signature(struct scan *scan)
{
    if (scan->len == 0 || is(scan, "("))
        return complain_missing(scan, "the type of the result");
    int error = scan_type(scan, PLACE_RESULT, 0);
    if (error)
        return error;
    if (!accept(scan, "("))
        return complain_missing(scan, "a '('");
    error = scan_parameters(scan);
    if (error)
        return error;
    if (scan->len > 0)
        return complain(scan, "nothing may stand behind the last ')'");
    return 0;
}

int tdi_signature_parse(const char *text, char out[TDI_SIGNATURE_TEXT], char *why, size_t len)
{
    struct scan scan = {.word = text, .out = out, .why = why, .why_len = len};
    advance(&scan);
    int error = scan_signature(&scan);
    if (error == 0 && scan.full)
        error = complain_size(&scan);
    out[error ? 0 : scan.used] = '\0';
    return error;
}
