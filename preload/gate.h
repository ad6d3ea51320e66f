/* SPDX-License-Identifier: MIT */
/* The one road from a wrapper to the real call. Every wrapper packs its arguments and comes here. */
#ifndef TUNDISH_PRELOAD_GATE_H
#define TUNDISH_PRELOAD_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TDI_WRAPPER __attribute__((visibility("default")))

struct tdi_call {
    uint32_t kinds; /* TDI_CALL_ bits: what the call is, a send that connects being both */
    int fd;
    int flags;             /* MSG_ */
    size_t length;         /* bytes, 0 for connect */
    bool whole;            /* must not be cut */
    const void *arguments; /* the wrapper's own */
    /* Makes the real call for n bytes from `from` on; all of it when that is the whole length. */
    ssize_t (*real)(const struct tdi_call *call, size_t from, size_t n);
};

/* Whether the rule concerns such a call on this descriptor. If not, the wrapper passes it on untouched. */
bool tdi_gate_concerns(uint32_t kinds, int fd);

/* Matches, waits, calls, gives back. The result and errno are the program's. */
ssize_t tdi_gate(const struct tdi_call *call);

#endif
