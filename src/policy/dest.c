/* SPDX-License-Identifier: MIT */
/*
 * A destination is read in one pass from the left: address, then /prefix, then :port. The colons of an IPv6
 * address would take the port's for one of theirs, so an address with a port has brackets.
 */
#include "policy/dest.h"

#include <errno.h>
#include <string.h>

#include "policy/address.h"
#include "policy/env.h"

static const struct {
    const char *word;
    enum tdi_kind kind;
} kinds[] = {
    {"unix", TDI_KIND_UNIX},
    {"pipe", TDI_KIND_PIPE},
    {"file", TDI_KIND_FILE},
    {"tty", TDI_KIND_TTY},
};

/* One element on its way: what is left of it, and where a complaint goes. */
struct scan {
    const char *at, *end;
    const char *item;
    size_t len;
    char *why;
    size_t why_len;
};

/* "'10.0.0.1/8' " and the reason in up to two parts. */
static int complain(const struct scan *scan, const char *reason, const char *more)
{
    struct tdi_text line;
    tdi_text_start(&line, scan->why, scan->why_len);
    tdi_text_add(&line, "'");
    tdi_text_add_item(&line, scan->item, scan->len);
    tdi_text_add(&line, "' ");
    tdi_text_add(&line, reason);
    tdi_text_add(&line, more);
    return -EINVAL;
}

/* A decimal number without leading zeros, at most `most`; -1 if there is none. */
static int32_t scan_number(struct scan *scan, int32_t most)
{
    int32_t value = 0;
    const char *start = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9' && value <= most)
        value = value * 10 + (*scan->at++ - '0');
    if (scan->at == start || value > most || (*start == '0' && scan->at - start > 1))
        return -1;
    return value;
}

static bool scan_char(struct scan *scan, char c)
{
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* Up to any of these. */
static size_t span_before(const struct scan *scan, const char *stops)
{
    size_t n = 0;
    while (scan->at + n < scan->end && strchr(stops, scan->at[n]) == NULL)
        n++;
    return n;
}

static bool has_letter(const struct scan *scan)
{
    for (size_t i = 0; i < scan->len; i++)
        if ((scan->item[i] | 32) >= 'a' && (scan->item[i] | 32) <= 'z')
            return true;
    return false;
}

/* Two colons: an IPv6 address, or a mistake. */
static bool is_bare6(const struct scan *scan)
{
    const char *colon = memchr(scan->item, ':', scan->len);
    return colon != NULL && memchr(colon + 1, ':', (size_t)(scan->end - colon - 1)) != NULL;
}

static int no_address(const struct scan *scan)
{
    if (has_letter(scan) && scan->item[0] != '[' && !is_bare6(scan))
        return complain(scan, "is a name: a destination is an address (10.0.0.0/8, [2001:db8::]/32:443), ",
                        "a port (:443), or unix, pipe, file, tty or inet");
    return complain(scan, "is no address: write 10.0.0.0/8, 10.0.0.1:443, [2001:db8::]/32 or :443", "");
}

static int scan_address(struct scan *scan, struct tdi_dest *dest)
{
    bool bracket = scan_char(scan, '[');
    bool six = bracket || is_bare6(scan);
    size_t n = span_before(scan, bracket ? "]" : six ? "/" : "/:");
    dest->kind = six ? TDI_KIND_INET6 : TDI_KIND_INET;
    dest->prefix = six ? 128 : 32;
    bool good =
        six ? tdi_address_parse6(scan->at, n, dest->address) : tdi_address_parse4(scan->at, n, dest->address);
    scan->at += n;
    return good && (!bracket || scan_char(scan, ']')) ? 0 : no_address(scan);
}

static void clear_host_bits(uint8_t *address, size_t bytes, unsigned prefix)
{
    for (unsigned i = 0; i < bytes; i++) {
        unsigned kept = prefix > 8 * i ? prefix - 8 * i : 0;
        if (kept < 8)
            address[i] &= (uint8_t)(0xff00 >> kept);
    }
}

/* "10.0.0.0/8" */
static void add_network(struct tdi_text *line, const struct tdi_dest *dest, const uint8_t *address)
{
    char text[TDI_ADDRESS_TEXT];
    const char digits[] = {(char)('0' + dest->prefix / 100), (char)('0' + dest->prefix / 10 % 10),
                           (char)('0' + dest->prefix % 10), '\0'};
    const bool six = dest->kind == TDI_KIND_INET6;
    if (six)
        tdi_address_format6(text, address);
    else
        tdi_address_format4(text, address);
    tdi_text_add(line, six ? "[" : "");
    tdi_text_add(line, text);
    tdi_text_add(line, six ? "]/" : "/");
    tdi_text_add(line, digits + (dest->prefix < 10 ? 2 : dest->prefix < 100 ? 1 : 0));
}

static int check_network(const struct scan *scan, const struct tdi_dest *dest)
{
    uint8_t network[sizeof dest->address];
    char text[TDI_ADDRESS_TEXT + 8];
    struct tdi_text line;
    memcpy(network, dest->address, sizeof network);
    clear_host_bits(network, dest->kind == TDI_KIND_INET6 ? 16 : 4, dest->prefix);
    if (memcmp(network, dest->address, sizeof network) == 0)
        return 0;
    tdi_text_start(&line, text, sizeof text);
    add_network(&line, dest, network);
    return complain(scan, "has bits beyond its prefix: the network is ", text);
}

static int scan_prefix(struct scan *scan, struct tdi_dest *dest)
{
    const bool six = dest->kind == TDI_KIND_INET6;
    if (!scan_char(scan, '/'))
        return 0;
    int32_t prefix = scan_number(scan, six ? 128 : 32);
    if (prefix < 0)
        return complain(scan, "needs a number of bits after the '/': 0 to ", six ? "128" : "32");
    dest->prefix = (uint8_t)prefix;
    return check_network(scan, dest);
}

static int scan_port(struct scan *scan, struct tdi_dest *dest)
{
    if (!scan_char(scan, ':'))
        return 0;
    if (scan->item[0] != '[' && dest->kind == TDI_KIND_INET6)
        return complain(scan, "an IPv6 address with a port is in brackets: [2001:db8::]/32:443", "");
    int32_t port = scan_number(scan, UINT16_MAX);
    if (port <= 0)
        return complain(scan, "needs a port after the ':', a number from 1 to 65535", "");
    dest->port = (uint16_t)port;
    return 0;
}

/* ::ffff:10.0.0.0/104 is 10.0.0.0/8. */
static void unmap(struct tdi_dest *dest)
{
    if (dest->kind != TDI_KIND_INET6 || dest->prefix < 96 || !tdi_address_is_mapped(dest->address))
        return;
    dest->kind = TDI_KIND_INET;
    dest->prefix = (uint8_t)(dest->prefix - 96);
    memmove(dest->address, dest->address + 12, 4);
    memset(dest->address + 4, 0, 12);
}

/* Both families, any address. */
static int both(struct tdi_dest dest[2], uint16_t port)
{
    dest[0] = (struct tdi_dest){.kind = TDI_KIND_INET, .port = port};
    dest[1] = (struct tdi_dest){.kind = TDI_KIND_INET6, .port = port};
    return 2;
}

/* ":443", "*:443" */
static int parse_any(struct scan *scan, struct tdi_dest dest[2])
{
    struct tdi_dest any = {.kind = TDI_KIND_INET};
    int error = scan_port(scan, &any);
    if (error == 0 && (scan->at < scan->end || any.port == 0))
        error = complain(scan, "needs a port: *:443", "");
    return error ? error : both(dest, any.port);
}

static int parse_network(struct scan *scan, struct tdi_dest *dest)
{
    *dest = (struct tdi_dest){0};
    int error = scan_address(scan, dest);
    if (error == 0)
        error = scan_prefix(scan, dest);
    if (error == 0)
        error = scan_port(scan, dest);
    if (error == 0 && scan->at < scan->end)
        error = no_address(scan);
    if (error)
        return error;
    unmap(dest);
    return 1;
}

int tdi_dest_parse(const char *item, size_t len, struct tdi_dest dest[2], char *why, size_t why_len)
{
    struct scan scan = {
        .at = item, .end = item + len, .item = item, .len = len, .why = why, .why_len = why_len};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (tdi_item_is(item, len, kinds[i].word)) {
            *dest = (struct tdi_dest){.kind = (uint8_t)kinds[i].kind};
            return 1;
        }
    if (tdi_item_is(item, len, "inet"))
        return both(dest, 0);
    if (scan_char(&scan, '*') || (len > 0 && item[0] == ':' && !is_bare6(&scan)))
        return parse_any(&scan, dest);
    return parse_network(&scan, dest);
}

static bool has_prefix(const uint8_t *address, const uint8_t *network, unsigned prefix)
{
    const unsigned whole = prefix / 8, rest = prefix % 8;
    return memcmp(address, network, whole) == 0 &&
           (rest == 0 || (address[whole] ^ network[whole]) >> (8 - rest) == 0);
}

bool tdi_dest_reaches(const struct tdi_dest *dest, enum tdi_kind kind)
{
    return dest->kind == kind || (dest->kind == TDI_KIND_INET && kind == TDI_KIND_INET6);
}

bool tdi_dest_matches(const struct tdi_dest *dest, enum tdi_kind kind, const uint8_t *address, uint16_t port)
{
    if (kind == TDI_KIND_INET6 && dest->kind == TDI_KIND_INET && address != NULL &&
        tdi_address_is_mapped(address)) {
        kind = TDI_KIND_INET;
        address += 12;
    }
    if (dest->kind != kind)
        return false;
    if (kind != TDI_KIND_INET && kind != TDI_KIND_INET6)
        return true;
    if (address == NULL)
        return dest->prefix == 0 && dest->port == 0;
    return (dest->port == 0 || dest->port == port) && has_prefix(address, dest->address, dest->prefix);
}
