/* SPDX-License-Identifier: MIT */
/*
 * Costs and refusals. The types of the arguments that a cost looks at are copied into it when it is read, so
 * that a call does not have to walk through its signature.
 */
#include "policy/cost.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "policy/env.h"
#include "policy/names.h"
#include "policy/signature.h"

enum {
    TOKENS_MAX = INT32_MAX, /* as many as a bucket can hold */
    IOV_ELEMENTS = 1024,    /* IOV_MAX of Linux */
    WORD_TEXT = 24,         /* a number of 64 bits, or the name of an error */
};

static const char KINDS[] =
    "a cost is calls, a number, argN, argN * argM, strlen(argN), iov(argN, argM) or result";

/* A cost or a refusal on its way: the word or sign that is next. */
struct scan {
    const char *word;
    size_t len; /* 0: the end */
    const char *signature;
    char *why;
    size_t why_len;
};

/* "'arg9': there are 3 arguments" */
static int complain(const struct scan *scan, const char *reason, const char *more)
{
    struct tdi_text line;
    tdi_text_start(&line, scan->why, scan->why_len);
    if (scan->len > 0) {
        tdi_text_add(&line, "'");
        tdi_text_add_item(&line, scan->word, scan->len);
        tdi_text_add(&line, "': ");
    }
    tdi_text_add(&line, reason);
    tdi_text_add(&line, more);
    return -EINVAL;
}

/* A '-' belongs to the number behind it; bytes beyond ASCII to words. */
static bool is_word_char(char c)
{
    return tdi_text_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
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
        scan->len = 1;
}

static bool accept(struct scan *scan, const char *word)
{
    if (!tdi_item_is(scan->word, scan->len, word))
        return false;
    advance(scan);
    return true;
}

static int expect(struct scan *scan, const char *sign, const char *form)
{
    if (accept(scan, sign))
        return 0;
    return complain(
        scan, scan->len > 0 ? "does not belong here: the cost is written " : "the cost is written ", form);
}

static bool is_integer(char type)
{
    return type != '\0' && strchr("bhilBHIL", type) != NULL;
}

static const char *word_for(char type)
{
    switch (type) {
    case 'v':
        return "void";
    case 'p':
        return "a pointer";
    case 'f':
        return "a float";
    case 'd':
        return "a double";
    case 'e':
        return "a long double";
    case '{':
        return "a struct";
    default:
        return "an integer";
    }
}

/* All of the word as a number of at most `most`, and no digits but decimal ones. */
static bool read_digits(const char *word, size_t len, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        if (!tdi_text_is_digit(word[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(word[i] - '0'), &value) || value > most)
            return false;
    *out = value;
    return len > 0;
}

static int complain_beyond(const struct scan *scan, unsigned args)
{
    char count[WORD_TEXT + 40];
    if (args == 0)
        return complain(scan, "the function has no arguments", "");
    snprintf(count, sizeof count, "%u argument%s, the first of which is arg1", args, args == 1 ? "" : "s");
    return complain(scan, "the function has ", count);
}

/* "arg3": its place and type. */
static int scan_arg(struct scan *scan, bool pointer, uint8_t *place, char *type)
{
    const unsigned args = tdi_signature_args(scan->signature);
    uint64_t number;
    if (scan->len < 4 || memcmp(scan->word, "arg", 3) != 0 ||
        !read_digits(scan->word + 3, scan->len - 3, UINT64_MAX, &number))
        return complain(scan, scan->len > 0 ? "is no argument: " : "an argument is missing: ", KINDS);
    if (number == 0 || number > args)
        return complain_beyond(scan, args);
    *place = (uint8_t)(number - 1);
    *type = *tdi_signature_type(scan->signature, (int)number - 1);
    if (pointer && *type != 'p')
        return complain(scan, "has to be a pointer here, but is ", word_for(*type));
    if (!pointer && !is_integer(*type))
        return complain(scan, "has to be an integer here, but is ", word_for(*type));
    advance(scan);
    return 0;
}

static int scan_number(struct scan *scan, struct tdi_cost *cost)
{
    uint64_t tokens;
    if (!read_digits(scan->word, scan->len, TOKENS_MAX, &tokens) || tokens == 0)
        return complain(scan, "a number of tokens is from 1 to 2147483647", "");
    cost->kind = TDI_COST_TOKENS;
    cost->tokens = (uint32_t)tokens;
    advance(scan);
    return 0;
}

/* "arg3", "arg3 * arg4" */
static int scan_args(struct scan *scan, struct tdi_cost *cost)
{
    int error = scan_arg(scan, false, &cost->a, &cost->a_type);
    cost->kind = TDI_COST_ARG;
    if (error || !accept(scan, "*"))
        return error;
    cost->kind = TDI_COST_PRODUCT;
    return scan_arg(scan, false, &cost->b, &cost->b_type);
}

static int scan_strlen(struct scan *scan, struct tdi_cost *cost)
{
    static const char form[] = "strlen(argN)";
    cost->kind = TDI_COST_STRLEN;
    int error = expect(scan, "(", form);
    if (error == 0)
        error = scan_arg(scan, true, &cost->a, &cost->a_type);
    return error ? error : expect(scan, ")", form);
}

static int scan_iov(struct scan *scan, struct tdi_cost *cost)
{
    static const char form[] = "iov(argN, argM): the array and the number of its elements";
    cost->kind = TDI_COST_IOV;
    int error = expect(scan, "(", form);
    if (error == 0)
        error = scan_arg(scan, true, &cost->a, &cost->a_type);
    if (error == 0)
        error = expect(scan, ",", form);
    if (error == 0)
        error = scan_arg(scan, false, &cost->b, &cost->b_type);
    return error ? error : expect(scan, ")", form);
}

static int scan_result(struct scan *scan, struct tdi_cost *cost)
{
    cost->kind = TDI_COST_RESULT;
    cost->a_type = *scan->signature;
    if (!is_integer(cost->a_type))
        return complain(scan, "has to be an integer to be a cost, but is ", word_for(cost->a_type));
    advance(scan);
    return 0;
}

static int scan_cost(struct scan *scan, struct tdi_cost *cost)
{
    if (scan->len == 0)
        return complain(scan, "nothing is written: ", KINDS);
    if (tdi_text_is_digit(*scan->word))
        return scan_number(scan, cost);
    if (tdi_item_is(scan->word, scan->len, "result"))
        return scan_result(scan, cost);
    if (accept(scan, "calls")) {
        *cost = (struct tdi_cost){.kind = TDI_COST_TOKENS, .tokens = 1};
        return 0;
    }
    if (accept(scan, "strlen"))
        return scan_strlen(scan, cost);
    if (accept(scan, "iov"))
        return scan_iov(scan, cost);
    if (scan->len > 3 && memcmp(scan->word, "arg", 3) == 0)
        return scan_args(scan, cost);
    return complain(scan, "is no cost: ", KINDS);
}

int tdi_cost_parse(const char *text, const char *signature, struct tdi_cost *out, char *why, size_t len)
{
    struct scan scan = {.word = text, .signature = signature, .why = why, .why_len = len};
    struct tdi_cost cost = {0};
    advance(&scan);
    int error = scan_cost(&scan, &cost);
    if (error == 0 && scan.len > 0)
        error = complain(&scan, "stands behind the cost: ", KINDS);
    if (error == 0)
        *out = cost;
    return error;
}

static bool has_arg(const char *signature, unsigned place, char type)
{
    return type != '\0' && place < tdi_signature_args(signature) &&
           *tdi_signature_type(signature, (int)place) == type;
}

bool tdi_cost_is_sound(const struct tdi_cost *cost, const char *signature)
{
    const bool a = has_arg(signature, cost->a, cost->a_type);
    const bool b = has_arg(signature, cost->b, cost->b_type) && is_integer(cost->b_type);
    switch (cost->kind) {
    case TDI_COST_TOKENS:
        return cost->tokens > 0 && cost->tokens <= TOKENS_MAX;
    case TDI_COST_ARG:
        return a && is_integer(cost->a_type);
    case TDI_COST_PRODUCT:
        return a && b && is_integer(cost->a_type);
    case TDI_COST_STRLEN:
        return a && cost->a_type == 'p';
    case TDI_COST_IOV:
        return a && b && cost->a_type == 'p';
    case TDI_COST_RESULT:
        return is_integer(cost->a_type) && cost->a_type == *signature;
    default:
        return false;
    }
}

void tdi_cost_format(char *buf, size_t len, const struct tdi_cost *cost)
{
    const unsigned a = cost->a + 1u, b = cost->b + 1u;
    if (cost->kind == TDI_COST_TOKENS && cost->tokens != 1)
        snprintf(buf, len, "%" PRIu32, cost->tokens);
    else if (cost->kind == TDI_COST_ARG)
        snprintf(buf, len, "arg%u", a);
    else if (cost->kind == TDI_COST_PRODUCT)
        snprintf(buf, len, "arg%u * arg%u", a, b);
    else if (cost->kind == TDI_COST_STRLEN)
        snprintf(buf, len, "strlen(arg%u)", a);
    else if (cost->kind == TDI_COST_IOV)
        snprintf(buf, len, "iov(arg%u, arg%u)", a, b);
    else
        snprintf(buf, len, "%s", cost->kind == TDI_COST_RESULT ? "result" : "calls");
}

static inline uint64_t at_least_zero(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

/* An integer of this type, where an argument lies. */
static inline uint64_t amount(char type, const void *at)
{
    switch (type) {
    case 'i':
        return at_least_zero(*(const int32_t *)at);
    case 'l':
        return at_least_zero(*(const int64_t *)at);
    case 'L':
        return *(const uint64_t *)at;
    case 'I':
        return *(const uint32_t *)at;
    case 'h':
        return at_least_zero(*(const int16_t *)at);
    case 'H':
        return *(const uint16_t *)at;
    case 'b':
        return at_least_zero(*(const int8_t *)at);
    case 'B':
        return *(const uint8_t *)at;
    default:
        return 0;
    }
}

static uint64_t product(uint64_t left, uint64_t right)
{
    uint64_t value;
    return __builtin_mul_overflow(left, right, &value) ? UINT64_MAX : value;
}

static uint64_t length(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

static uint64_t bytes_in(const struct iovec *iov, uint64_t elements)
{
    uint64_t bytes = 0;
    if (iov == NULL)
        return 0;
    for (uint64_t i = 0; i < elements && i < IOV_ELEMENTS; i++)
        if (__builtin_add_overflow(bytes, iov[i].iov_len, &bytes))
            return UINT64_MAX;
    return bytes;
}

uint64_t tdi_cost_before(const struct tdi_cost *cost, void *const *args)
{
    switch (cost->kind) {
    case TDI_COST_TOKENS:
        return cost->tokens;
    case TDI_COST_ARG:
        return amount(cost->a_type, args[cost->a]);
    case TDI_COST_PRODUCT:
        return product(amount(cost->a_type, args[cost->a]), amount(cost->b_type, args[cost->b]));
    case TDI_COST_STRLEN:
        return length(*(const char *const *)args[cost->a]);
    case TDI_COST_IOV:
        return bytes_in(*(const struct iovec *const *)args[cost->a], amount(cost->b_type, args[cost->b]));
    default:
        return 0;
    }
}

/* The low bits of the register are the value, whatever the order of its bytes. */
uint64_t tdi_cost_after(const struct tdi_cost *cost, const void *result)
{
    uint64_t value;
    if (cost->kind != TDI_COST_RESULT)
        return 0;
    memcpy(&value, result, sizeof value);
    switch (cost->a_type) {
    case 'b':
        return at_least_zero((int8_t)value);
    case 'h':
        return at_least_zero((int16_t)value);
    case 'i':
        return at_least_zero((int32_t)value);
    case 'l':
        return at_least_zero((int64_t)value);
    case 'B':
        return (uint8_t)value;
    case 'H':
        return (uint16_t)value;
    case 'I':
        return (uint32_t)value;
    default:
        return value;
    }
}

/* What a result of this type can be; that of a floating point type is a whole number here. */
static int64_t least_of(char type)
{
    switch (type) {
    case 'b':
        return INT8_MIN;
    case 'h':
        return INT16_MIN;
    case 'i':
        return INT32_MIN;
    case 'l':
    case 'f':
    case 'd':
    case 'e':
        return INT64_MIN;
    default:
        return 0;
    }
}

static uint64_t most_of(char type)
{
    switch (type) {
    case 'b':
        return INT8_MAX;
    case 'h':
        return INT16_MAX;
    case 'i':
        return INT32_MAX;
    case 'B':
        return UINT8_MAX;
    case 'H':
        return UINT16_MAX;
    case 'I':
        return UINT32_MAX;
    case 'L':
        return UINT64_MAX;
    case 'p':
        return 0;
    default:
        return INT64_MAX;
    }
}

static int complain_range(const struct scan *scan, char type)
{
    char range[2 * WORD_TEXT + 8];
    if (type == 'p')
        return complain(scan, "a refused call of a function that returns a pointer returns NULL", "");
    if (strchr("fde", type) != NULL)
        return complain(scan, "a floating point result is refused with a whole number of at most 64 bits",
                        "");
    snprintf(range, sizeof range, "%" PRId64 " to %" PRIu64, least_of(type), most_of(type));
    return complain(scan, "is not what the function can return: ", range);
}

/* A number with a fraction is one word, so that all of it is refused. */
static void take_fraction(struct scan *scan)
{
    scan->len += scan->word[scan->len] == '.';
    while (is_word_char(scan->word[scan->len]))
        scan->len++;
}

/* The result of a refused call; one of 64 bits without a sign is kept by its bits. */
static int scan_value(struct scan *scan, struct tdi_refusal *refusal)
{
    const char type = *scan->signature;
    const bool minus = scan->len > 0 && *scan->word == '-';
    uint64_t most = minus ? UINT64_C(0) - (uint64_t)least_of(type) : most_of(type);
    const bool number = scan->len > 0 && tdi_text_is_digit(scan->word[minus]);
    uint64_t value = 0;
    if (number)
        take_fraction(scan);
    if (!number) {
        if (type != 'p' || !tdi_item_is(scan->word, scan->len, "NULL"))
            return complain(scan, "what a refused call returns is written like -1 EAGAIN, 0 or NULL ENOMEM",
                            "");
    } else if (!read_digits(scan->word + minus, scan->len - minus, most, &value)) {
        return complain_range(scan, type);
    }
    refusal->value = (int64_t)(minus ? UINT64_C(0) - value : value);
    advance(scan);
    return 0;
}

static int scan_error(struct scan *scan, struct tdi_refusal *refusal)
{
    char name[WORD_TEXT] = "";
    if (scan->len < sizeof name)
        memcpy(name, scan->word, scan->len);
    refusal->error = tdi_names_errno(name);
    if (refusal->error == 0)
        return complain(scan, "is no error that a call can be refused with, such as EAGAIN, EACCES or ENOMEM",
                        "");
    advance(scan);
    return 0;
}

static int scan_refusal(struct scan *scan, struct tdi_refusal *refusal)
{
    const char type = *scan->signature;
    if (type == '{')
        return complain(
            scan, "the function returns a struct, which cannot be made up: its calls can only wait", "");
    if (type == 'v') {
        if (scan->len == 0 || tdi_text_is_digit(*scan->word) || *scan->word == '-')
            return complain(scan, "the function returns nothing: write an error such as EAGAIN, or nothing",
                            "");
        return accept(scan, "nothing") ? 0 : scan_error(scan, refusal);
    }
    int error = scan_value(scan, refusal);
    return error || scan->len == 0 ? error : scan_error(scan, refusal);
}

int tdi_refusal_parse(const char *text, const char *signature, struct tdi_refusal *out, char *why, size_t len)
{
    struct scan scan = {.word = text, .signature = signature, .why = why, .why_len = len};
    struct tdi_refusal refusal = {.stated = 1};
    advance(&scan);
    int error = scan_refusal(&scan, &refusal);
    if (error == 0 && scan.len > 0)
        error = complain(&scan, "is one word too many: what a refused call returns is written like -1 EAGAIN",
                         "");
    if (error == 0)
        *out = refusal;
    return error;
}

bool tdi_refusal_is_sound(const struct tdi_refusal *refusal, const char *signature)
{
    const char type = *signature;
    if (refusal->stated == 0)
        return true;
    if (refusal->stated != 1 || type == '{' || type == '\0' ||
        (refusal->error != 0 && tdi_names_errno_name(refusal->error) == NULL))
        return false;
    if (type == 'v')
        return refusal->value == 0;
    if (type == 'L')
        return true;
    return refusal->value >= least_of(type) &&
           (refusal->value <= 0 || (uint64_t)refusal->value <= most_of(type));
}

void tdi_refusal_format(char *buf, size_t len, const struct tdi_refusal *refusal, const char *signature)
{
    const char *error = refusal->error != 0 ? tdi_names_errno_name(refusal->error) : NULL;
    char value[WORD_TEXT];
    if (error == NULL)
        error = "";
    if (*signature == 'L')
        snprintf(value, sizeof value, "%" PRIu64, (uint64_t)refusal->value);
    else if (*signature == 'p')
        snprintf(value, sizeof value, "NULL");
    else
        snprintf(value, sizeof value, "%" PRId64, refusal->value);
    if (refusal->stated == 0)
        snprintf(buf, len, "%s", "");
    else if (*signature == 'v')
        snprintf(buf, len, "%s", *error != '\0' ? error : "nothing");
    else
        snprintf(buf, len, "%s%s%s", value, *error != '\0' ? " " : "", error);
}

void tdi_refusal_write(const struct tdi_refusal *refusal, const char *signature, void *result)
{
    switch (*signature) {
    case 'f':
        *(float *)result = (float)refusal->value;
        break;
    case 'd':
        *(double *)result = (double)refusal->value;
        break;
    case 'e':
        *(long double *)result = (long double)refusal->value;
        break;
    case 'v':
    case '{':
        break;
    default:
        *(int64_t *)result = refusal->value;
        break;
    }
}
