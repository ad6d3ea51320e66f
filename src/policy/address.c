/* SPDX-License-Identifier: MIT */
/*
 * An IPv6 address is read group by group from the left; where "::" stands is remembered, and in the end what
 * came after it moves to the right edge.
 */
#include "policy/address.h"

#include <string.h>

#include "policy/env.h"

enum {
    GROUPS = 8,
    BYTES6 = 16,
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The value of a hexadecimal digit, or -1. */
static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool tdi_address_parse4(const char *text, size_t len, uint8_t address[4])
{
    const char *at = text, *const end = text + len;
    for (int i = 0; i < 4; i++) {
        unsigned value = 0;
        const char *start = at;
        while (at < end && is_digit(*at) && at - start < 3)
            value = value * 10 + (unsigned)(*at++ - '0');
        if (at == start || value > 255 || (*start == '0' && at - start > 1))
            return false;
        address[i] = (uint8_t)value;
        if (i < 3 && (at == end || *at++ != '.'))
            return false;
    }
    return at == end;
}

/* Up to four hexadecimal digits; how many, 0 if there is none. */
static size_t scan_group(const char *at, const char *end, unsigned *value)
{
    size_t digits = 0;
    *value = 0;
    while (at + digits < end && digits < 4 && hex_value(at[digits]) >= 0)
        *value = *value * 16 + (unsigned)hex_value(at[digits++]);
    return digits;
}

/* Puts what comes after the gap at the right edge. False if the gap would be empty, or is missing. */
static bool close_gap(uint8_t address[BYTES6], size_t used, size_t gap)
{
    if (gap == SIZE_MAX)
        return used == BYTES6;
    if (used == BYTES6)
        return false;
    size_t behind = used - gap;
    memmove(address + BYTES6 - behind, address + gap, behind);
    memset(address + gap, 0, BYTES6 - used);
    return true;
}

bool tdi_address_parse6(const char *text, size_t len, uint8_t address[BYTES6])
{
    const char *at = text, *const end = text + len;
    size_t used = 0, gap = SIZE_MAX; /* in bytes */
    if (len >= 2 && at[0] == ':' && at[1] == ':') {
        gap = 0;
        at += 2;
    }
    while (at < end) {
        unsigned value;
        size_t digits = scan_group(at, end, &value);
        if (at + digits < end && at[digits] == '.')
            return used + 4 <= BYTES6 && tdi_address_parse4(at, (size_t)(end - at), address + used) &&
                   close_gap(address, used + 4, gap);
        if (digits == 0 || used == BYTES6)
            return false;
        address[used++] = (uint8_t)(value >> 8);
        address[used++] = (uint8_t)value;
        at += digits;
        if (at == end)
            break;
        if (*at++ != ':' || at == end)
            return false;
        if (*at != ':')
            continue;
        if (gap != SIZE_MAX)
            return false;
        gap = used;
        at++;
    }
    return close_gap(address, used, gap);
}

static void add_number(struct tdi_text *line, unsigned value, unsigned base)
{
    char digits[8];
    size_t n = sizeof digits;
    digits[--n] = '\0';
    do
        digits[--n] = "0123456789abcdef"[value % base];
    while ((value /= base) > 0);
    tdi_text_add(line, digits + n);
}

static void add4(struct tdi_text *line, const uint8_t *address)
{
    for (int i = 0; i < 4; i++) {
        tdi_text_add(line, i > 0 ? "." : "");
        add_number(line, address[i], 10);
    }
}

static unsigned group(const uint8_t *address, size_t i)
{
    return (unsigned)(address[2 * i] << 8 | address[2 * i + 1]);
}

/* The first longest run of two or more zero groups: where, and how many. */
static size_t find_gap(const uint8_t *address, size_t *length)
{
    size_t best = GROUPS;
    *length = 1;
    for (size_t i = 0; i < GROUPS; i++) {
        size_t run = 0;
        while (i + run < GROUPS && group(address, i + run) == 0)
            run++;
        if (run > *length) {
            best = i;
            *length = run;
        }
    }
    return best;
}

static void add6(struct tdi_text *line, const uint8_t *address)
{
    size_t length;
    const size_t gap = find_gap(address, &length);
    for (size_t i = 0; i < GROUPS; i++) {
        if (i == gap) {
            tdi_text_add(line, "::");
            i += length - 1;
            continue;
        }
        tdi_text_add(line, i > 0 && i != gap + length ? ":" : "");
        add_number(line, group(address, i), 16);
    }
}

bool tdi_address_is_mapped(const uint8_t address[BYTES6])
{
    static const uint8_t start[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(address, start, sizeof start) == 0;
}

void tdi_address_format4(char buf[TDI_ADDRESS_TEXT], const uint8_t address[4])
{
    struct tdi_text line;
    tdi_text_start(&line, buf, TDI_ADDRESS_TEXT);
    add4(&line, address);
}

void tdi_address_format6(char buf[TDI_ADDRESS_TEXT], const uint8_t address[BYTES6])
{
    struct tdi_text line;
    tdi_text_start(&line, buf, TDI_ADDRESS_TEXT);
    if (tdi_address_is_mapped(address)) {
        tdi_text_add(&line, "::ffff:");
        add4(&line, address + 12);
    } else {
        add6(&line, address);
    }
}
