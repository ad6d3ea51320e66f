/* SPDX-License-Identifier: MIT */
/* The one road from a wrapper to the real call. Every wrapper packs its arguments and comes here. */
#ifndef TUNDISH_PRELOAD_GATE_H
#define TUNDISH_PRELOAD_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "inside.h"
#include "known.h"
#include "policy/policy.h"
#include "rule.h"

#define TDI_WRAPPER __attribute__((visibility("default")))

struct tdi_call {
    uint32_t kinds; /* TDI_CALL_ bits: what the call is, a send that connects being both */
    int fd;
    int flags;     /* MSG_ */
    bool now;      /* the call's own flags forbid it to block: MSG_DONTWAIT, SPLICE_F_NONBLOCK, RWF_NOWAIT */
    bool whole;    /* must not be cut */
    size_t length; /* bytes at most, 0 for connect */
    const struct sockaddr *to; /* where the call itself says it goes, readable for to_len; NULL: the peer */
    socklen_t to_len;
    const void *arguments; /* the wrapper's own */
    /*
     * Makes the real call for n bytes from `from` on; all of it, with the program's very arguments, when that
     * is the whole length. Returns the bytes, or -1 with errno.
     */
    ssize_t (*real)(const struct tdi_call *call, size_t from, size_t n);
};

/* Whether a rule may concern such a call on this descriptor. If not, the wrapper passes it on untouched. */
static inline bool tdi_gate_concerns(uint32_t kinds, int fd)
{
    const struct tdi_rules *rules = tdi_rules();
    return rules != NULL && (rules->calls & kinds) != 0 && tdi_inside.house == 0 &&
           tdi_known_reach(rules, fd) != 0;
}

/* Sends and connects: matches, waits, calls, gives back. The result and errno are the program's. */
ssize_t tdi_gate(const struct tdi_call *call);

/*
 * Receives: waits until what the last ones brought is paid for, calls, and charges what came. `real` is
 * called once, for the whole length or, from a stream, for as much as the bucket holds.
 */
ssize_t tdi_gate_receive(const struct tdi_call *call);

#endif
