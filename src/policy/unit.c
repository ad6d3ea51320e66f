/* SPDX-License-Identifier: MIT */
/*
 * Reading units. Every number is a fraction of two 64-bit integers in lowest terms until the very end, so
 * that 0.1/s, 8kbit/s and 10GB/s come out exact or not at all: nothing is ever rounded, only a burst given as
 * a time is rounded down to whole tokens.
 */
#include "policy/unit.h"

#include <errno.h>
#include <string.h>

/* What a bucket file can hold: see TUNDISH_CAPACITY_MAX and TUNDISH_INTERVAL_US_MAX in the public header. */
static const uint32_t CAPACITY_MAX = UINT32_C(0x7fffffff);
static const uint64_t INTERVAL_US_MAX = UINT64_C(366) * 86400 * 1000000;
/* A bucket leaves room above its capacity for what falls due in this time. */
static const uint64_t HEADROOM_US = 10000;

static const char WHY_DIGITS[] = "has too many digits";
static const char WHY_TOO_LARGE[] = "is too large: a bucket counts at most 4294967295";
static const char WHY_BURST_TOO_LARGE[] =
    "is too large: a bucket holds at most 2147483647, less 10 ms' worth of its rate";
static const char WHY_INEXACT[] =
    "cannot be kept exactly: a rate is at most 4294967295 per whole number of microseconds, up to 366 days";
static const char WHY_KILO[] = "'K' is ambiguous: write kB (1000 bytes) or KiB (1024 bytes)";
static const char WHY_MEGA[] = "'M' is ambiguous: write MB (1000 kB) or MiB (1024 KiB)";
static const char WHY_GIGA[] = "'G' is ambiguous: write GB (1000 MB) or GiB (1024 MiB)";

struct ratio {
    uint64_t num;
    uint64_t den;
};

enum kind {
    KIND_CALLS, /* a number without a unit */
    KIND_BYTES,
    KIND_TIME, /* in nanoseconds */
};

struct unit {
    const char *word;
    enum kind kind;
    uint64_t num;
    uint64_t den;
};

static const struct unit units[] = {
    {"B", KIND_BYTES, 1, 1},
    {"kB", KIND_BYTES, 1000, 1},
    {"MB", KIND_BYTES, 1000000, 1},
    {"GB", KIND_BYTES, 1000000000, 1},
    {"KiB", KIND_BYTES, UINT64_C(1) << 10, 1},
    {"MiB", KIND_BYTES, UINT64_C(1) << 20, 1},
    {"GiB", KIND_BYTES, UINT64_C(1) << 30, 1},
    {"bit", KIND_BYTES, 1, 8},
    {"kbit", KIND_BYTES, 125, 1},
    {"Mbit", KIND_BYTES, 125000, 1},
    {"Gbit", KIND_BYTES, 125000000, 1},
    {"us", KIND_TIME, 1000, 1},
    {"ms", KIND_TIME, 1000000, 1},
    {"s", KIND_TIME, UINT64_C(1000000000), 1},
    {"min", KIND_TIME, UINT64_C(60) * 1000000000, 1},
    {"h", KIND_TIME, UINT64_C(3600) * 1000000000, 1},
    {"d", KIND_TIME, UINT64_C(86400) * 1000000000, 1},
};

/* Words that people write and that mean two things, or nothing here. */
static const struct {
    const char *word;
    const char *why;
} confusions[] = {
    {"K", WHY_KILO},
    {"k", WHY_KILO},
    {"KB", WHY_KILO},
    {"kb", WHY_KILO},
    {"Kb", WHY_KILO},
    {"M", WHY_MEGA},
    {"mb", WHY_MEGA},
    {"Mb", WHY_MEGA},
    {"G", WHY_GIGA},
    {"g", WHY_GIGA},
    {"gb", WHY_GIGA},
    {"Gb", WHY_GIGA},
    {"b", "'b' is ambiguous: write B (bytes) or bit"},
    {"m", "'m' is ambiguous: write min, ms, MB or MiB"},
};

static int fail(int error, const char *sentence, const char **why)
{
    *why = sentence;
    return error;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* *value *= num / den, in lowest terms. False if that takes more than 64 bits. num and den are not 0. */
static bool scale(struct ratio *value, uint64_t num, uint64_t den)
{
    uint64_t across = gcd(value->num, den);
    uint64_t down = gcd(num, value->den);
    struct ratio left = {value->num / across, value->den / down};
    return !__builtin_mul_overflow(left.num, num / down, &value->num) &&
           !__builtin_mul_overflow(left.den, den / across, &value->den);
}

/* floor(refill * us / interval), saturated. */
static uint64_t due_in(const struct tdi_rate *rate, uint64_t us)
{
    __extension__ unsigned __int128 due = us;
    due = due * rate->refill / rate->interval_us;
    return due > UINT64_MAX ? UINT64_MAX : (uint64_t)due;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool push_digit(uint64_t *number, char digit)
{
    return !__builtin_mul_overflow(*number, 10, number) &&
           !__builtin_add_overflow(*number, (uint64_t)(digit - '0'), number);
}

/* DIGITS[.DIGITS] */
static int scan_number(const char **at, struct ratio *out, const char **why)
{
    const char *p = *at;
    uint64_t number = 0, den = 1;
    if (!is_digit(*p))
        return fail(-EINVAL, "is no number: numbers are plain decimals such as 10 or 1.5", why);
    for (; is_digit(*p); p++)
        if (!push_digit(&number, *p))
            return fail(-ERANGE, WHY_DIGITS, why);
    if (*p == '.') {
        if (!is_digit(*++p))
            return fail(-EINVAL, "ends in a point: numbers are plain decimals such as 10 or 1.5", why);
        for (; is_digit(*p); p++)
            if (!push_digit(&number, *p) || __builtin_mul_overflow(den, 10, &den))
                return fail(-ERANGE, WHY_DIGITS, why);
    }
    uint64_t common = gcd(number, den);
    *out = (struct ratio){number / common, den / common};
    *at = p;
    return 0;
}

/* What may follow a number: nothing, or a word of letters, after a space if one likes. NULL for nothing. */
static int scan_unit(const char **at, const struct unit **out, const char **why)
{
    const char *word = *at;
    if (*word == ' ')
        word++;
    size_t len = 0;
    while (is_letter(word[len]))
        len++;
    *out = NULL;
    if (len == 0)
        return 0;
    *at = word + len;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strlen(units[i].word) == len && memcmp(units[i].word, word, len) == 0) {
            *out = &units[i];
            return 0;
        }
    for (size_t i = 0; i < sizeof(confusions) / sizeof(confusions[0]); i++)
        if (strlen(confusions[i].word) == len && memcmp(confusions[i].word, word, len) == 0)
            return fail(-EINVAL, confusions[i].why, why);
    return fail(
        -EINVAL,
        "has an unknown unit: sizes are B kB MB GB KiB MiB GiB bit kbit Mbit Gbit, times us ms s min h d",
        why);
}

/* A number and its unit, multiplied: calls, bytes or nanoseconds. */
static int scan_quantity(const char **at, struct ratio *out, enum kind *kind, const char **why)
{
    const struct unit *unit;
    int error = scan_number(at, out, why);
    if (error == 0)
        error = scan_unit(at, &unit, why);
    if (error)
        return error;
    *kind = unit ? unit->kind : KIND_CALLS;
    if (unit && !scale(out, unit->num, unit->den))
        return fail(-ERANGE, WHY_DIGITS, why);
    return 0;
}

/* The time after the slash of a rate: "s", "2min", "1.5 h". */
static int scan_interval(const char **at, struct ratio *ns, const char **why)
{
    static const char expected[] = "needs a time after the '/': us ms s min h d, as in 10/s or 3/2min";
    enum kind kind;
    int error;
    if (is_digit(**at)) {
        error = scan_quantity(at, ns, &kind, why);
    } else {
        const struct unit *unit;
        error = scan_unit(at, &unit, why);
        kind = unit ? unit->kind : KIND_CALLS;
        *ns = (struct ratio){unit ? unit->num : 0, 1};
    }
    if (error)
        return error;
    if (kind != KIND_TIME)
        return fail(-EINVAL, expected, why);
    if (ns->num == 0)
        return fail(-EINVAL, "is per no time at all: the time after the '/' must be more than 0", why);
    return 0;
}

/*
 * Keeps the interval as written where that is possible, since stepped buckets refill at its end; otherwise
 * the lowest terms, which are the smallest numbers that say the same.
 */
static int settle_rate(struct ratio amount, struct ratio interval_ns, struct tdi_rate *out, const char **why)
{
    struct ratio us = interval_ns;
    struct ratio lowest = amount;
    if (!scale(&us, 1, 1000) || !scale(&lowest, us.den, us.num))
        return fail(-ERANGE, WHY_INEXACT, why);
    if (amount.den == 1 && us.den == 1 && amount.num <= UINT32_MAX)
        lowest = (struct ratio){amount.num, us.num};
    if (lowest.num > UINT32_MAX || lowest.den > INTERVAL_US_MAX)
        return fail(-ERANGE, WHY_INEXACT, why);
    out->refill = (uint32_t)lowest.num;
    out->interval_us = lowest.den;
    if (due_in(out, HEADROOM_US) >= CAPACITY_MAX)
        return fail(-ERANGE, "is too fast: at most 2147483646 per 10 ms", why);
    return 0;
}

int tdi_unit_parse_rate(const char *text, struct tdi_rate *out, const char **why)
{
    struct ratio amount, interval;
    enum kind kind;
    const char *at = text;
    if (*text == '\0')
        return fail(-EINVAL, "is empty: a rate is written like 10/s or 5MiB/s", why);
    int error = scan_quantity(&at, &amount, &kind, why);
    if (error)
        return error;
    if (*at == '\0')
        return fail(-EINVAL, "does not say per what time: a rate is written like 10/s or 5MiB/s", why);
    if (*at != '/' || kind == KIND_TIME)
        return fail(-EINVAL, "is no rate: a rate is written like 10/s or 5MiB/s", why);
    at++;
    error = scan_interval(&at, &interval, why);
    if (error)
        return error;
    if (*at != '\0')
        return fail(-EINVAL, "goes on after the rate: a rate is written like 10/s or 5MiB/s", why);
    if (amount.num == 0)
        return fail(-EINVAL,
                    "is zero: nothing would ever pass; remove the limit or use a small rate such as 1/d",
                    why);
    struct tdi_rate rate = {.bytes = kind == KIND_BYTES};
    error = settle_rate(amount, interval, &rate, why);
    if (error == 0)
        *out = rate;
    return error;
}

static uint64_t most_burst(const struct tdi_rate *rate)
{
    uint64_t headroom = due_in(rate, HEADROOM_US) + 1;
    return headroom < CAPACITY_MAX ? CAPACITY_MAX - headroom : 1;
}

int tdi_unit_parse_burst(const char *text, const struct tdi_rate *rate, uint32_t *out, const char **why)
{
    struct ratio value;
    enum kind kind;
    const char *at = text;
    int error = scan_quantity(&at, &value, &kind, why);
    if (error)
        return error;
    if (*at != '\0')
        return fail(-EINVAL, "is no burst: a burst is a count (20), a size (64KiB) or a time (200ms)", why);
    if (kind == KIND_BYTES && !rate->bytes)
        return fail(-EINVAL, "is a size, but the rate counts calls: give a plain number or a time", why);
    if (value.num == 0)
        return fail(-EINVAL, "is zero: a burst is at least 1", why);
    uint64_t burst = value.num;
    if (kind == KIND_TIME) {
        burst = due_in(rate, value.num / value.den / 1000);
        if (burst == 0)
            burst = 1;
    } else if (value.den != 1) {
        return fail(-EINVAL, "is no whole number", why);
    }
    if (burst > most_burst(rate))
        return fail(-ERANGE, WHY_BURST_TOO_LARGE, why);
    *out = (uint32_t)burst;
    return 0;
}

int tdi_unit_parse_count(const char *text, uint32_t *out, const char **why)
{
    struct ratio value;
    enum kind kind;
    const char *at = text;
    int error = scan_quantity(&at, &value, &kind, why);
    if (error)
        return error;
    if (*at != '\0' || kind == KIND_TIME)
        return fail(-EINVAL, "is no count: a count is a number (20) or a size (64KiB)", why);
    if (value.den != 1)
        return fail(-EINVAL, "is no whole number", why);
    if (value.num > UINT32_MAX)
        return fail(-ERANGE, WHY_TOO_LARGE, why);
    *out = (uint32_t)value.num;
    return 0;
}

int tdi_unit_parse_duration_ns(const char *text, uint64_t *out, const char **why)
{
    struct ratio value;
    enum kind kind;
    const char *at = text;
    int error = scan_quantity(&at, &value, &kind, why);
    if (error)
        return error;
    if (*at != '\0' || kind != KIND_TIME)
        return fail(-EINVAL, "is no time: write its unit, us ms s min h or d, as in 1.5s", why);
    if (value.den != 1)
        return fail(-ERANGE, "is finer than a nanosecond", why);
    *out = value.num;
    return 0;
}

uint32_t tdi_unit_default_burst(const struct tdi_rate *rate)
{
    const uint64_t least = rate->bytes ? 64 * 1024 : 1;
    const uint64_t most = most_burst(rate);
    uint64_t burst = due_in(rate, rate->bytes ? 200000 : 1000000);
    if (burst < least)
        burst = least;
    return (uint32_t)(burst < most ? burst : most);
}

/* A stepped bucket of 100/d that held one second's worth would gain one token a day. */
uint32_t tdi_unit_burst_of(const struct tdi_rate *rate, bool stepped)
{
    const uint32_t burst = tdi_unit_default_burst(rate);
    return stepped && burst < rate->refill && rate->refill <= CAPACITY_MAX ? rate->refill : burst;
}

bool tdi_unit_same_rate(const struct tdi_rate *left, const struct tdi_rate *right)
{
    uint64_t a = gcd(left->refill, left->interval_us);
    uint64_t b = gcd(right->refill, right->interval_us);
    return left->bytes == right->bytes && left->refill / a == right->refill / b &&
           left->interval_us / a == right->interval_us / b;
}
