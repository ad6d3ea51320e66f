/* SPDX-License-Identifier: MIT */
/*
 * Destinations as people write them: a network, a port, both, or a kind of descriptor. Pure text work: no
 * allocation, no locale, no errno.
 */
#ifndef TUNDISH_POLICY_DEST_H
#define TUNDISH_POLICY_DEST_H

#include "policy/policy.h"

/*
 * Reads one element of a list, the `len` bytes at `item`: how many destinations it stands for, one or two (a
 * port alone is for both families), or -EINVAL with a sentence in `why`. What is written in IPv4-mapped form
 * becomes the IPv4 network that it means.
 */
int tdi_dest_parse(const char *item, size_t len, struct tdi_dest dest[2], char *why, size_t why_len);

/* Whether a descriptor of this kind could be there. */
bool tdi_dest_reaches(const struct tdi_dest *dest, enum tdi_kind kind);

/* As tdi_policy_matches. Without an address (NULL) only what is for any address and port is matched. */
bool tdi_dest_matches(const struct tdi_dest *dest, enum tdi_kind kind, const uint8_t *address, uint16_t port);

#endif
