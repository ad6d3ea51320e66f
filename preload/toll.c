/* SPDX-License-Identifier: MIT */
/*
 * A call with an address of its own is matched by that; any other by its descriptor's peer, which is known
 * beforehand. Firm shares stand first, so that whoever acquires has them in one piece.
 */
#include "toll.h"

#include <stddef.h>

#include "fd.h"
#include "key.h"
#include "lib/handle.h"

/* The kernel ignores the address that a send on a connected stream comes with: no rule is evaded by one. */
static bool heeds_address(const struct tdi_call *call)
{
    return (call->kinds & TDI_CALL_CONNECT) != 0 || tdi_fd_type(call->fd) != SOCK_STREAM;
}

/* The rules that concern it, a bit each, and the number of its destination. */
static uint32_t match(const struct tdi_rules *rules, const struct tdi_call *call, uint32_t *key)
{
    uint64_t word = tdi_known(rules, call->fd);
    struct tdi_place place;
    if (call->to != NULL && rules->placed && heeds_address(call) &&
        tdi_fd_place_of(call->to, call->to_len, &place)) {
        *key = tdi_key_of(rules, &place);
        return tdi_key_rules(rules, &place) & (uint32_t)(word & 0xff);
    }
    if ((word & TDI_KNOWN_PEER) == 0) /* it was not connected when it was asked about */
        word = tdi_known_ask(rules, call->fd);
    *key = (uint32_t)(word >> 32) & 0xffff;
    return (uint32_t)(word >> 8) & 0xff;
}

static bool is_same_bucket(const struct tundish *a, const struct tundish *b)
{
    return a == b || (a->inode != 0 && a->inode == b->inode && a->device == b->device);
}

/*
 * Rules that share a bucket are charged once: twice might be more than it can ever hold. Whether what is
 * there already stands for this share too; a dry run's makes room for a firm one.
 */
static bool is_stood_for(struct tdi_toll *toll, const struct tdi_share *share)
{
    for (uint32_t i = 0; i < toll->count; i++) {
        struct tdi_share *there = &toll->share[i];
        if (!is_same_bucket(there->bucket, share->bucket))
            continue;
        if (i >= toll->firm && share->manner != TDI_EMPTY_OBSERVE) {
            *there = toll->share[--toll->count];
            return false;
        }
        there->bytes |= share->bytes;
        there->calls = there->bytes ? 0 : there->calls > share->calls ? there->calls : share->calls;
        toll->bytes |= i < toll->firm && share->bytes;
        return true;
    }
    return false;
}

static void add_share(struct tdi_toll *toll, const struct tdi_share *share)
{
    uint32_t at = toll->count;
    if (at == TDI_POLICY_ALL_BUCKETS)
        return;
    if (share->manner != TDI_EMPTY_OBSERVE) {
        at = toll->firm++;
        toll->share[toll->count] = toll->share[at];
        toll->bytes |= share->bytes;
    }
    toll->share[at] = *share;
    toll->count++;
}

/* The rule's buckets take such a share each; `key` is the destination's number. */
static void add_rule(struct tdi_toll *toll, const struct tdi_rule *rule, struct tdi_share share, uint32_t key)
{
    const struct tdi_policy_rule *policy = rule->policy;
    share.manner = (uint8_t)policy->when_empty;
    for (uint32_t i = 0; i < rule->buckets; i++) {
        share.bucket = rule->bucket[i] != NULL ? rule->bucket[i] : tdi_key_bucket(rule, i, key);
        if (share.bucket != NULL && !is_stood_for(toll, &share))
            add_share(toll, &share);
    }
    toll->refuse |= policy->when_empty == TDI_EMPTY_REFUSE;
    toll->drop |= policy->when_empty == TDI_EMPTY_DROP;
    if (policy->when_empty == TDI_EMPTY_REFUSE || policy->max_wait_ns < toll->max_wait_ns)
        toll->refuse_errno = policy->refuse_errno;
    if (policy->max_wait_ns < toll->max_wait_ns)
        toll->max_wait_ns = policy->max_wait_ns;
}

static struct tdi_share share_of(const struct tdi_rule *rule, uint32_t kinds)
{
    const bool connects = (kinds & TDI_CALL_CONNECT) != 0;
    const bool transfers = (kinds & ~(uint32_t)TDI_CALL_CONNECT) != 0;
    if (rule->bytes)
        return (struct tdi_share){.bytes = transfers};
    return (struct tdi_share){.calls = (uint8_t)(connects + transfers)};
}

static void clear(struct tdi_toll *toll)
{
    toll->firm = toll->count = 0;
    toll->bytes = toll->refuse = toll->drop = false;
    toll->refuse_errno = 0;
    toll->max_wait_ns = UINT64_MAX;
}

void tdi_toll_of(struct tdi_toll *toll, const struct tdi_rules *rules, const struct tdi_call *call)
{
    uint32_t key;
    uint32_t mask = match(rules, call, &key);
    clear(toll);
    for (uint32_t r = 0; mask != 0; r++, mask >>= 1) {
        uint32_t kinds = rules->rule[r].calls & call->kinds;
        if ((mask & 1) != 0 && kinds != 0)
            add_rule(toll, &rules->rule[r], share_of(&rules->rule[r], kinds), key);
    }
}

void tdi_toll_of_hook(struct tdi_toll *toll, const struct tdi_rules *rules, uint32_t bit, bool per_call)
{
    clear(toll);
    for (uint32_t r = 0; r < rules->count; r++) {
        const struct tdi_rule *rule = &rules->rule[r];
        const bool takes_cost = rule->bytes || per_call;
        if ((rule->policy->hooks & bit) != 0)
            add_rule(toll, rule, (struct tdi_share){.bytes = takes_cost, .calls = !takes_cost}, 0);
    }
}

bool tdi_toll_same(const struct tdi_toll *a, const struct tdi_toll *b)
{
    if (a->firm != b->firm)
        return false;
    for (uint32_t i = 0; i < a->firm; i++)
        if (a->share[i].bucket != b->share[i].bucket || a->share[i].bytes != b->share[i].bytes ||
            a->share[i].calls != b->share[i].calls)
            return false;
    return true;
}
