/* SPDX-License-Identifier: MIT */
/*
 * IP addresses to and from text, without libc, so that it also runs before main. Addresses are in network
 * order. The parsers take what inet_pton(3) takes and nothing else; no terminator is needed.
 */
#ifndef TUNDISH_POLICY_ADDRESS_H
#define TUNDISH_POLICY_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TDI_ADDRESS_TEXT 48 /* the longest with its terminator, and room */

/* "10.0.0.1": four decimal numbers without leading zeros. */
bool tdi_address_parse4(const char *text, size_t len, uint8_t address[4]);

/* The forms of RFC 4291: "2001:db8::1", "::", "::ffff:10.0.0.1". No zone. */
bool tdi_address_parse6(const char *text, size_t len, uint8_t address[16]);

/* "10.0.0.1" */
void tdi_address_format4(char buf[TDI_ADDRESS_TEXT], const uint8_t address[4]);

/* "2001:db8::1", as RFC 5952 has it; "::ffff:10.0.0.1" */
void tdi_address_format6(char buf[TDI_ADDRESS_TEXT], const uint8_t address[16]);

/* Whether it is ::ffff:a.b.c.d: the last four bytes are then an IPv4 address. */
bool tdi_address_is_mapped(const uint8_t address[16]);

#endif
