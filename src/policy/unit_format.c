/* SPDX-License-Identifier: MIT */
/*
 * Writing units: rates and counts exactly and in as few characters as that takes, so that what is printed can
 * be typed back; durations for the eye, rounded up so that nobody comes back too early.
 */
#include "policy/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct scale {
    const char *word;
    uint64_t size;
};

enum {
    COUNT_TEXT = 64, /* 20 digits, a point, two more, a space and a unit, with room */
};

/* size / unit with no more than two decimals, or an empty text if that would not be exact. */
static void format_in(char text[COUNT_TEXT], uint64_t size, const struct scale *unit)
{
    uint64_t whole = size / unit->size, rest = size % unit->size;
    text[0] = '\0';
    if (rest == 0)
        snprintf(text, COUNT_TEXT, "%" PRIu64 " %s", whole, unit->word);
    else if (whole > 0 && rest * 10 % unit->size == 0)
        snprintf(text, COUNT_TEXT, "%" PRIu64 ".%" PRIu64 " %s", whole, rest * 10 / unit->size, unit->word);
    else if (whole > 0 && rest * 100 % unit->size == 0)
        snprintf(text, COUNT_TEXT, "%" PRIu64 ".%02" PRIu64 " %s", whole, rest * 100 / unit->size,
                 unit->word);
}

static void format_bytes(char text[COUNT_TEXT], uint64_t size)
{
    static const struct scale scales[] = {
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"kB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
    };
    snprintf(text, COUNT_TEXT, "%" PRIu64 " B", size);
    for (size_t i = 0; size > 0 && i < sizeof(scales) / sizeof(scales[0]); i++) {
        char other[COUNT_TEXT];
        format_in(other, size, &scales[i]);
        if (other[0] && strlen(other) <= strlen(text))
            memcpy(text, other, sizeof(other));
    }
}

void tdi_unit_format_count(char *buf, size_t len, uint64_t count, bool bytes)
{
    char text[COUNT_TEXT];
    if (bytes)
        format_bytes(text, count);
    else
        snprintf(text, sizeof(text), "%" PRIu64, count);
    snprintf(buf, len, "%s", text);
}

/* "s", "5min", "250ms": the largest unit of which the interval is a whole number. */
static void format_interval(char *buf, size_t len, uint64_t interval_us)
{
    static const struct scale scales[] = {
        {"d", UINT64_C(86400000000)},
        {"h", UINT64_C(3600000000)},
        {"min", 60000000},
        {"s", 1000000},
        {"ms", 1000},
    };
    static const struct scale least = {"us", 1};
    const struct scale *unit = &least;
    for (size_t i = 0; unit == &least && i < sizeof(scales) / sizeof(scales[0]); i++)
        if (interval_us % scales[i].size == 0)
            unit = &scales[i];
    if (interval_us == unit->size)
        snprintf(buf, len, "%s", unit->word);
    else
        snprintf(buf, len, "%" PRIu64 "%s", interval_us / unit->size, unit->word);
}

void tdi_unit_format_rate(char *buf, size_t len, const struct tdi_rate *rate)
{
    char count[COUNT_TEXT], interval[COUNT_TEXT];
    uint64_t amount = rate->refill, interval_us = rate->interval_us;
    uint64_t per_second = amount * 1000000;
    if (interval_us % 1000 != 0 && per_second % interval_us == 0) {
        amount = per_second / interval_us;
        interval_us = 1000000;
    }
    tdi_unit_format_count(count, sizeof(count), amount, rate->bytes);
    format_interval(interval, sizeof(interval), interval_us);
    snprintf(buf, len, "%s/%s", count, interval);
}

static uint64_t divide_up(uint64_t amount, uint64_t by)
{
    return amount / by + (amount % by != 0);
}

/* Below two minutes: one number. False if it rounds up to the next unit. */
static bool format_short(char *buf, size_t len, uint64_t ns, const struct scale *unit, uint64_t limit)
{
    uint64_t hundredths = divide_up(ns, unit->size / 100);
    if (hundredths < 1000) {
        snprintf(buf, len, "%" PRIu64 ".%02" PRIu64 " %s", hundredths / 100, hundredths % 100, unit->word);
        return true;
    }
    uint64_t whole = divide_up(ns, unit->size);
    snprintf(buf, len, "%" PRIu64 " %s", whole, unit->word);
    return whole < limit;
}

static void format_long(char *buf, size_t len, uint64_t seconds)
{
    static const struct scale scales[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    size_t i = 0;
    while (seconds < 2 * scales[i].size && i < 2)
        i++;
    uint64_t parts = divide_up(seconds, scales[i + 1].size);
    uint64_t ratio = scales[i].size / scales[i + 1].size;
    if (parts % ratio == 0)
        snprintf(buf, len, "%" PRIu64 " %s", parts / ratio, scales[i].word);
    else
        snprintf(buf, len, "%" PRIu64 " %s %" PRIu64 " %s", parts / ratio, scales[i].word, parts % ratio,
                 scales[i + 1].word);
}

void tdi_unit_format_duration(char *buf, size_t len, uint64_t ns)
{
    static const struct scale scales[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    if (ns == 0)
        snprintf(buf, len, "0 s");
    else if (ns == UINT64_MAX)
        snprintf(buf, len, "never");
    else if (!format_short(buf, len, ns, &scales[0], 1000) && !format_short(buf, len, ns, &scales[1], 1000) &&
             !format_short(buf, len, ns, &scales[2], 120))
        format_long(buf, len, divide_up(ns, 1000000000));
}
