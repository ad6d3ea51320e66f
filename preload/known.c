/* SPDX-License-Identifier: MIT */
/*
 * A word also holds a turn, which every forgetting counts on. Who asked the kernel stores the answer only if
 * the turn is still the one from before: an answer about what was closed meanwhile is not remembered.
 *
 * A child of vfork closes and opens numbers of its own, but its memory is its parent's: it remembers nothing.
 */
#include "known.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fd.h"
#include "key.h"

#define TURN_SHIFT 48
#define TURN (UINT64_C(1) << TURN_SHIFT)

_Atomic(uint64_t) tdi_known_words[TDI_KNOWN_FDS];

static _Atomic(int) owner; /* process whose descriptors these are */

static bool is_owner(void)
{
    return atomic_load_explicit(&owner, memory_order_relaxed) == (int)syscall(SYS_getpid);
}

bool tdi_known_is_ours(void)
{
    return is_owner();
}

void tdi_known_own(void)
{
    atomic_store_explicit(&owner, (int)syscall(SYS_getpid), memory_order_relaxed);
}

static uint64_t find_peer(const struct tdi_rules *rules, int fd, enum tdi_kind kind, uint64_t reach)
{
    struct tdi_place place = {.kind = kind};
    if (!rules->placed)
        return TDI_KNOWN_PEER | reach << 8;
    if ((kind == TDI_KIND_INET || kind == TDI_KIND_INET6) && !tdi_fd_peer(fd, &place))
        return 0;
    return TDI_KNOWN_PEER | (uint64_t)tdi_key_rules(rules, &place) << 8 |
           (uint64_t)tdi_key_of(rules, &place) << 32;
}

uint64_t tdi_known_ask(const struct tdi_rules *rules, int fd)
{
    bool kept = fd >= 0 && (unsigned)fd < TDI_KNOWN_FDS && is_owner();
    uint64_t before = kept ? atomic_load_explicit(&tdi_known_words[fd], memory_order_relaxed) : 0;
    enum tdi_kind kind;
    uint64_t reach = 0;
    if (!tdi_fd_kind(fd, rules->files, &kind))
        return 0;
    if (rules->broken && (kind == TDI_KIND_INET || kind == TDI_KIND_INET6))
        reach = 1; /* all of them are to fail */
    for (uint32_t i = 0; i < rules->count; i++)
        if (tdi_policy_reaches(&rules->policy, rules->rule[i].policy, kind))
            reach |= UINT64_C(1) << i;
    uint64_t word = TDI_KNOWN_KIND | (uint64_t)kind << 16 | reach;
    if (reach != 0)
        word |= find_peer(rules, fd, kind, reach);
    else
        word |= TDI_KNOWN_PEER;
    word |= before & (TDI_KNOWN_WATCHED | ~(TURN - 1));
    if (kept)
        atomic_compare_exchange_strong_explicit(&tdi_known_words[fd], &before, word, memory_order_relaxed,
                                                memory_order_relaxed);
    return word;
}

static void forget(_Atomic(uint64_t) *word, uint64_t kept)
{
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t after;
    /* A child of vfork closes copies: its parent has them still, and must not forget to end debts. */
    if ((before & TDI_KNOWN_WATCHED) != 0 && !is_owner())
        return;
    do
        after = (before & (kept | ~(TURN - 1))) + TURN;
    while (!atomic_compare_exchange_weak_explicit(word, &before, after, memory_order_relaxed,
                                                  memory_order_relaxed));
}

void tdi_known_forget(int fd)
{
    if (fd >= 0 && (unsigned)fd < TDI_KNOWN_FDS)
        forget(&tdi_known_words[fd], 0);
}

void tdi_known_forget_peer(int fd)
{
    if (fd >= 0 && (unsigned)fd < TDI_KNOWN_FDS)
        forget(&tdi_known_words[fd], TDI_KNOWN_WATCHED);
}

void tdi_known_forget_range(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd < TDI_KNOWN_FDS && fd <= last; fd++)
        if (atomic_load_explicit(&tdi_known_words[fd], memory_order_relaxed) != 0)
            forget(&tdi_known_words[fd], 0);
}

void tdi_known_mark_watched(int fd)
{
    if (fd >= 0 && (unsigned)fd < TDI_KNOWN_FDS)
        atomic_fetch_or_explicit(&tdi_known_words[fd], TDI_KNOWN_WATCHED, memory_order_relaxed);
}
