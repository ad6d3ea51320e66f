/* SPDX-License-Identifier: MIT */
/*
 * Match, walk, leave. A thread cancelled on the way, or jumping out of it, gives back all that it holds.
 */
#include "gate.h"

#include <errno.h>
#include <limits.h>

#include "fd.h"
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
    tdi_inside.road--;
}

/* What the kernel will refuse for its size alone is not to wait for that many tokens. */
static bool is_hopeless(const struct tdi_call *call)
{
    bool sends = (call->kinds & TDI_CALLS_DOWN) == 0;
    return call->length > SSIZE_MAX ||
           (sends && call->length > DATAGRAM_MAX && tdi_fd_type(call->fd) == SOCK_DGRAM);
}

/* The peer is another one now, or is known from now on. */
static void note_connect(const struct tdi_call *call, ssize_t result)
{
    if (tdi_road_connects(call) && (result >= 0 || errno == EINPROGRESS))
        tdi_known_forget_peer(call->fd);
}

/* false if there is nothing to walk for; then *result is the program's. */
static bool set_out(struct tdi_road *road, const struct tdi_call *call, ssize_t *result)
{
    const struct tdi_rules *rules = tdi_rules();
    road->call = call;
    road->toll.count = 0;
    if (rules != NULL && !rules->broken && !is_hopeless(call)) /* NULL: seccomp, by another thread just now */
        tdi_toll_of(&road->toll, rules, call);
    if (rules != NULL && rules->broken) { /* perhaps only since this destination's bucket was looked for */
        errno = EACCES;
        *result = -1;
        return false;
    }
    if (road->toll.count == 0) {
        *result = call->real(call, 0, call->length);
        return false;
    }
    road->waited = road->blocking = road->owes = false;
    road->key = 0;
    tdi_wait_init(&road->wait, &road->toll);
    tdi_tally_add(&tdi_tally.calls, 1);
    return true;
}

/* What a plain call has taken. */
struct fare {
    struct tundish *bucket;
    uint32_t tokens;
};

static void return_fare(void *argument)
{
    const struct fare *fare = argument;
    tundish_release(fare->bucket, fare->tokens);
    tdi_inside.road--;
}

static ssize_t ride(const struct tdi_call *call, struct fare *fare, bool bytes)
{
    ssize_t result;
    tdi_inside.road++;
    tdi_cleanup_push(return_fare, fare);
    result = call->real(call, 0, call->length);
    tdi_cleanup_pop();
    tdi_inside.road--;
    if (result != (ssize_t)call->length && (bytes || result < 0))
        tundish_release(fare->bucket, fare->tokens - (bytes && result > 0 ? (uint32_t)result : 0));
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
    const struct tdi_rules *rules = tdi_rules();
    if (tdi_likely(is_plain(rules, call))) {
        bool bytes = rules->rule[0].bytes;
        struct fare fare = {rules->plain, bytes ? (uint32_t)call->length : 1};
        if (tdi_likely(tundish_try_acquire(fare.bucket, fare.tokens) == 0))
            return ride(call, &fare, bytes);
    }
    struct tdi_call bounded = *call;
    struct tdi_road road;
    ssize_t result;
    bounded.length = call->length < ONE_CALL_MAX || call->length > SSIZE_MAX ? call->length : ONE_CALL_MAX;
    if (set_out(&road, &bounded, &result)) {
        tdi_inside.road++;
        tdi_cleanup_push(give_all_back, &road);
        result = tdi_road_send(&road);
        tdi_cleanup_pop();
        tdi_inside.road--;
    }
    note_connect(call, result);
    return result;
}

ssize_t tdi_gate_receive(const struct tdi_call *call)
{
    struct tdi_road road;
    ssize_t result;
    if (set_out(&road, call, &result)) {
        tdi_inside.road++;
        tdi_cleanup_push(give_all_back, &road);
        result = tdi_road_receive(&road);
        tdi_cleanup_pop();
        tdi_inside.road--;
    }
    return result;
}
