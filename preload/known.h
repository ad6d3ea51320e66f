/* SPDX-License-Identifier: MIT */
/*
 * What is known of the program's descriptors: whether any rule is for what they lead to. Asking the kernel
 * costs more than many a write, so the answer is kept, one word for each number, until the number is closed
 * or given away. A number may also be reused behind our back (raw system calls, libc's own fclose): so the
 * answer decides only about charging, and whoever is about to hold a call asks the kernel again.
 */
#ifndef TUNDISH_PRELOAD_KNOWN_H
#define TUNDISH_PRELOAD_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rule.h"

#define TDI_KNOWN_FDS 65536 /* numbers above are asked about each time */

/*
 * One word. 0: nothing known.
 *   bits 0-7   reach: the rules that are for this kind of descriptor
 *   bits 8-15  rules: those that are for its peer
 *   bits 16-23 enum tdi_kind
 *   bit 24     KIND: kind and reach are set
 *   bit 25     PEER: rules and key are set
 *   bit 26     WATCHED: it has been in an epoll, or in debt: closing it needs more than forgetting
 *   bits 32-47 key of its destination, see key.h; 0: none
 *   bits 48-63 turn: how often the number was forgotten
 */
#define TDI_KNOWN_KIND (UINT64_C(1) << 24)
#define TDI_KNOWN_PEER (UINT64_C(1) << 25)
#define TDI_KNOWN_WATCHED (UINT64_C(1) << 26)

extern _Atomic(uint64_t) tdi_known_words[TDI_KNOWN_FDS];

/* Asks the kernel, and remembers. errno kept, signal-safe. */
uint64_t tdi_known_ask(const struct tdi_rules *rules, int fd);

/* The word of a descriptor, at least its kind. */
static inline uint64_t tdi_known(const struct tdi_rules *rules, int fd)
{
    if ((unsigned)fd < TDI_KNOWN_FDS) {
        uint64_t word = atomic_load_explicit(&tdi_known_words[fd], memory_order_relaxed);
        if ((word & TDI_KNOWN_KIND) != 0)
            return word;
    }
    return tdi_known_ask(rules, fd);
}

/* The rules that are for this kind of descriptor. */
static inline uint32_t tdi_known_reach(const struct tdi_rules *rules, int fd)
{
    return (uint32_t)(tdi_known(rules, fd) & 0xff);
}

static inline enum tdi_kind tdi_known_kind(uint64_t word)
{
    return (enum tdi_kind)((word >> 16) & 0xff);
}

/* The number means something else from now on: it was closed, dup2'ed onto, connected or made. */
void tdi_known_forget(int fd);

/* It leads somewhere else from now on, but is the same socket. */
void tdi_known_forget_peer(int fd);

/* All numbers of a range, both ends included. */
void tdi_known_forget_range(unsigned first, unsigned last);

/* Its closing needs more than forgetting. */
void tdi_known_mark_watched(int fd);

/* What is known is this process's, to use and to change: at its start, and in a forked child. */
void tdi_known_own(void);

/* Whether this is the process itself, and not a child that lives in its memory (vfork) or was made unseen. */
bool tdi_known_is_ours(void);

#endif
