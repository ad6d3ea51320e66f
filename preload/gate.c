/* SPDX-License-Identifier: MIT */
/*
 * Match, walk, leave. A thread cancelled on the way, or jumping out of it, gives back all that it holds.
 */
#include "gate.h"

#include <errno.h>
#include <limits.h>

#include "fd.h"
#include "lib/acquire.h"
#include "lib/cancel.h"
#include "ready/ready.h"
#include "road.h"

#define DATAGRAM_MAX 65535
#define ONE_CALL_MAX ((size_t)0x7ffff000) /* the kernel takes no more in one call */

static void give_all_back(void *argument)
{
    struct tdi_road *road = argument;
    tdi_wait_give_back(&road->wait, road->wait.held, true);
    tdi_road_leave_debt(road);
    tdi_step_off();
}

/* What the kernel will refuse for its size alone is not to wait for that many tokens. */
static bool is_hopeless(const struct tdi_rules *rules, const struct tdi_call *call)
{
    if (call->length > SSIZE_MAX)
        return true;
    if ((call->kinds & TDI_CALLS_DOWN) != 0 || call->length <= DATAGRAM_MAX)
        return false;
    enum tdi_kind kind = tdi_known_kind(tdi_known(rules, call->fd));
    return (kind == TDI_KIND_INET || kind == TDI_KIND_INET6) && tdi_fd_type(call->fd) == SOCK_DGRAM;
}

/* The peer is another one now, or is known from now on. */
static void note_connect(const struct tdi_call *call, ssize_t result)
{
    if (tdi_road_connects(call) && (result >= 0 || errno == EINPROGRESS))
        tdi_known_forget_peer(call->fd);
}

/* false if there is nothing to walk for. The rules are NULL after seccomp, by another thread just now. */
static bool set_out(struct tdi_road *road, const struct tdi_rules *rules, const struct tdi_call *call)
{
    road->call = call;
    road->toll.count = 0;
    if (rules != NULL && !rules->broken && !is_hopeless(rules, call))
        tdi_toll_of(&road->toll, rules, call);
    if (road->toll.count == 0 || rules->broken) /* the latter by opening this destination's bucket just now */
        return false;
    road->waited = road->blocking = road->owes = false;
    road->key = 0;
    tdi_wait_init(&road->wait, &road->toll);
    tdi_tally_add(&tdi_tally.calls, 1);
    return true;
}

/* The end of a call without a walk: nothing is asked of it, or no rule can be obeyed any more. */
static ssize_t pass(const struct tdi_rules *rules, const struct tdi_call *call)
{
    tdi_step_off();
    if (rules == NULL || !rules->broken)
        return call->real(call, 0, call->length);
    errno = EACCES;
    return -1;
}

static ssize_t walk(struct tdi_road *road, ssize_t (*how)(struct tdi_road *road))
{
    ssize_t result;
    tdi_cleanup_push(give_all_back, road);
    result = how(road);
    tdi_cleanup_pop();
    tdi_step_off();
    return result;
}

/* What a plain call has taken, and tdi_forks when it did. */
struct fare {
    struct tundish *bucket;
    uint32_t tokens;
    uint32_t forks;
};

/* What a call in a child holds that was forked within it is the parent's to return. */
static void return_part(const struct fare *fare, uint32_t tokens)
{
    if (fare->forks == tdi_forks_now())
        tundish_release(fare->bucket, tokens);
}

static void return_fare(void *argument)
{
    const struct fare *fare = argument;
    return_part(fare, fare->tokens);
    tdi_step_off();
}

static ssize_t ride(const struct tdi_call *call, struct fare *fare, bool bytes)
{
    ssize_t result;
    tdi_cleanup_push(return_fare, fare);
    result = call->real(call, 0, call->length);
    tdi_cleanup_pop();
    if (result != (ssize_t)call->length && (bytes || result < 0)) {
        uint32_t used = bytes && result > 0 ? (uint32_t)result : 0;
        if (used < fare->tokens) /* more is used where another thread made the vector longer meanwhile */
            return_part(fare, fare->tokens - used);
    }
    tdi_step_off();
    return result;
}

/*
 * By far the most calls: a send under a single rule, with tokens enough. Taken here at once, and nothing else
 * is asked; anything but that goes the long way. The rule is matched already if its words say so.
 */
static bool is_plain(const struct tdi_rules *rules, const struct tdi_call *call)
{
    const uint64_t matched = TDI_KNOWN_KIND | TDI_KNOWN_PEER | UINT64_C(1) << 8;
    return rules != NULL && rules->plain != NULL && !tdi_road_connects(call) &&
           call->length <= DATAGRAM_MAX && !(call->to != NULL && rules->placed) && !tdi_ready_any() &&
           (rules->calls & call->kinds) != 0 && (tdi_known(rules, call->fd) & matched) == matched;
}

ssize_t tdi_gate(const struct tdi_call *call)
{
    tdi_set_foot();
    const struct tdi_rules *rules = tdi_rules();
    if (tdi_likely(is_plain(rules, call))) {
        bool bytes = rules->rule[0].bytes;
        struct fare fare = {rules->plain, bytes ? (uint32_t)call->length : 1, tdi_forks_now()};
        if (tdi_likely(tdi_acquire_try(fare.bucket, fare.tokens, TDI_KIND_TRY) == 0))
            return ride(call, &fare, bytes);
    }
    struct tdi_call bounded = *call;
    struct tdi_road road;
    bounded.length = call->length < ONE_CALL_MAX || call->length > SSIZE_MAX ? call->length : ONE_CALL_MAX;
    ssize_t result = set_out(&road, rules, &bounded) ? walk(&road, tdi_road_send) : pass(rules, &bounded);
    note_connect(call, result);
    return result;
}

ssize_t tdi_gate_receive(const struct tdi_call *call)
{
    struct tdi_road road;
    tdi_set_foot();
    const struct tdi_rules *rules = tdi_rules();
    return set_out(&road, rules, call) ? walk(&road, tdi_road_receive) : pass(rules, call);
}
