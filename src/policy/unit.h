/* SPDX-License-Identifier: MIT */
/*
 * The units people write: rates, bursts, durations, and back. Pure text work: no allocation, no locale, no
 * errno, so that it also runs before main inside somebody else's program.
 */
#ifndef TUNDISH_POLICY_UNIT_H
#define TUNDISH_POLICY_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * `refill` tokens per `interval_us`; bytes or calls. The interval is the one written where that is exact
 * (10/s is 10 per second, which is what a stepped bucket adds at once), else the lowest terms are taken.
 */
struct tdi_rate {
    uint32_t refill;
    uint64_t interval_us;
    bool bytes;
};

/*
 * Each parser takes the whole of `text` or fails: 0, or -EINVAL / -ERANGE with *why set to a static sentence
 * that says what is wrong and what would be right. *out is untouched on failure. Numbers are decimal with an
 * optional fraction and are converted exactly: 0.5/s is 1 per 2 s, 8kbit/s is 1000 B per s.
 */

/* "10/s", "1.5MiB/s", "3/2min", "100/d": NUM[unit]/[NUM](us|ms|s|min|h|d). */
int tdi_unit_parse_rate(const char *text, struct tdi_rate *out, const char **why);

/* A number of bytes or calls ("64KiB", "20") or a time worth of rate ("200ms"), at least 1. */
int tdi_unit_parse_burst(const char *text, const struct tdi_rate *rate, uint32_t *out, const char **why);

/* A plain count of tokens, or of bytes with a unit. */
int tdi_unit_parse_count(const char *text, uint32_t *out, const char **why);

/* "1.5s", "200ms", "2min". A bare number is an error that names the units. */
int tdi_unit_parse_duration_ns(const char *text, uint64_t *out, const char **why);

/* The burst of a rate given without one: bytes 200 ms' worth, at least 64 KiB; calls 1 s' worth, at least 1.
 */
uint32_t tdi_unit_default_burst(const struct tdi_rate *rate);

/* The same for a bucket that may be stepped: that one holds a whole step, if any bucket can. */
uint32_t tdi_unit_burst_of(const struct tdi_rate *rate, bool stepped);

/* Whether two rates are the same, however written: 60/min is 1/s. Bytes and calls differ. */
bool tdi_unit_same_rate(const struct tdi_rate *left, const struct tdi_rate *right);

/* "2 MB/s", "10/s", "1/2s", "100/d": exact, can be parsed back; cut to len, always terminated. */
void tdi_unit_format_rate(char *buf, size_t len, const struct tdi_rate *rate);

/* "64 KiB", "100 kB", "17". */
void tdi_unit_format_count(char *buf, size_t len, uint64_t count, bool bytes);

/* "1.50 s", "20 ms", "2 h 5 min"; rounded up. "never" for UINT64_MAX. */
void tdi_unit_format_duration(char *buf, size_t len, uint64_t ns);

#endif
