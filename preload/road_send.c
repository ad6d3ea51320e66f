/* SPDX-License-Identifier: MIT */
/*
 * Sending. A blocking stream gets everything sent, in pieces as tokens come; what must not be cut is waited
 * for as a whole. A non-blocking one gets what is there; if that is not all, its socket is in debt: the
 * program is told EAGAIN, or a short count, and is owed an event for when its tokens have come (ready/).
 * Where it cannot be owed one the call waits here, for one piece.
 *
 * After each real call, what the kernel did not take is given back.
 */
#include <errno.h>
#include <sys/socket.h>

#include "fd.h"
#include "ready/company.h"
#include "ready/debt.h"
#include "road.h"

/* What acquiring came to, beside 0 and an errno. */
#define PASS (-1)          /* the real call is to be made without tokens */
#define REFUSALS_MOST 3    /* in a row, before a thread that does not wait for events is held */
#define HOLD_NS 20000000UL /* how long */
#define DROP (-2)          /* the datagram is lost, as a network would lose it */

/* A failed connect that still sent something, or may have. */
static bool knocked(const struct tdi_call *call, int error)
{
    return tdi_road_connects(call) && (error == EINPROGRESS || error == EINTR || error == ECONNREFUSED ||
                                       error == ECONNRESET || error == ETIMEDOUT || error == EHOSTUNREACH);
}

/* What a real call with this result was worth is used; the rest of what is held is given back. */
static void settle(struct tdi_road *road, ssize_t result)
{
    struct tdi_wait *wait = &road->wait;
    bool counts = result >= 0 || knocked(road->call, errno);
    bool first = !wait->calls_paid && counts;
    uint64_t used = result > 0 ? (uint64_t)result : 0;
    if (road->toll.count > road->toll.firm)
        tdi_road_observe(&road->toll, used, first);
    if (used > wait->held)
        used = wait->held;
    if (road->toll.bytes)
        tdi_tally_add(&tdi_tally.bytes, used);
    else if (first && road->toll.firm > 0)
        tdi_tally_add(&tdi_tally.counted, tdi_wait_call_tokens(wait, &road->toll.share[0]));
    if (wait->held > used || (wait->calls_held && !counts))
        tdi_wait_give_back(wait, wait->held - used, !counts);
    wait->held = 0;
    wait->calls_paid |= counts;
    wait->calls_held = false;
}

static int wait_in_call(struct tdi_road *road, uint32_t rest, bool begun)
{
    int error = tdi_wait(&road->wait, rest);
    if (error != 0 && error == road->wait.late_errno)
        tdi_tally_add(&tdi_tally.refused, 1);
    if (error == 0 && !tdi_road_is_still_there(road))
        error = EBADF;
    if (error == 0 && begun && tdi_fd_broken(road->call->fd))
        error = EPIPE; /* never seen: the next call is to find what is wrong, this one says how much went */
    return error;
}

/* Only what counts bytes alone: a call that is counted as such is counted when it is made. */
static bool goes_ahead(const struct tdi_road *road, uint32_t n)
{
    for (uint32_t i = 0; i < road->toll.firm; i++)
        if (!road->toll.share[i].bytes)
            return false;
    return tdi_debt_go_ahead(&road->toll, n);
}

/* Then the thread is held for a moment, and its socket needs no event. */
static bool serves_nobody_else(const struct tdi_road *road, uint32_t rest)
{
    return road->wait.divisible && tdi_company_is_alone() && tdi_wait_is_short(&road->wait, rest);
}

/* A non-blocking call is short of tokens. */
static int acquire_or_owe(struct tdi_road *road, uint32_t rest, bool begun)
{
    const struct tdi_call *call = road->call;
    if (serves_nobody_else(road, rest))
        return wait_in_call(road, rest, begun);
    if (road->wait.divisible && tdi_wait_take_piece(&road->wait, rest))
        return 0;
    if (road->type == SOCK_STREAM ? tdi_fd_broken(call->fd) : tdi_fd_troubled(call->fd))
        return PASS;
    if (!road->wait.refuse && !begun && goes_ahead(road, rest))
        return PASS;
    if (!road->wait.refuse && tdi_debt_begin(call->fd, road->key, TDI_OUT, &road->wait, rest))
        return EAGAIN;
    return wait_in_call(road, rest, begun);
}

/* Takes tokens for the rest of the call or a piece of it, *granted bytes. 0, an errno, PASS or DROP. */
static int acquire(struct tdi_road *road, size_t done, size_t *granted)
{
    struct tdi_wait *wait = &road->wait;
    uint32_t rest = (uint32_t)(road->call->length - done);
    int error = 0;
    *granted = rest;
    if (road->toll.firm == 0 || tdi_wait_try(wait, rest))
        return road->waited && !tdi_road_is_still_there(road) ? EBADF : 0;
    if (!tdi_road_prepare(road, SO_SNDTIMEO))
        return PASS;
    if (road->toll.drop && road->type == SOCK_DGRAM)
        return DROP;
    if (road->blocking || tdi_road_connects(road->call))
        error = wait_in_call(road, rest, done > 0);
    else
        error = acquire_or_owe(road, rest, done > 0);
    if (error == 0 && wait->divisible)
        *granted = (size_t)wait->held;
    return error;
}

/* Whether the thread asks for the same socket again and again, without ever waiting for an event. */
static bool is_impatient(uint64_t key)
{
    struct tdi_inside *inside = &tdi_inside;
    if (inside->refused_key != key || inside->refused_at != inside->waits)
        inside->refusals = 0;
    inside->refused_key = key;
    inside->refused_at = inside->waits;
    return ++inside->refusals > REFUSALS_MOST;
}

/* A program that spins on EAGAIN is held instead, for 20 ms at a time. */
static enum tdi_debt claim_patiently(struct tdi_road *road)
{
    enum tdi_debt state = tdi_debt_claim(road->key, TDI_OUT, &road->wait);
    if (state != TDI_DEBT_PENDING || !is_impatient(road->key))
        return state;
    uint64_t until_ns = tundish_now_ns() + HOLD_NS;
    while (state == TDI_DEBT_PENDING && tundish_now_ns() < until_ns) {
        tdi_debt_sleep(road->key, TDI_OUT, until_ns);
        state = tdi_debt_claim(road->key, TDI_OUT, &road->wait);
    }
    return state;
}

/* The socket was left in debt by an earlier call: what was reserved since, or what that call is told now. */
static int claim(struct tdi_road *road, size_t *granted)
{
    struct tdi_wait *wait = &road->wait;
    const struct tdi_call *call = road->call;
    if (!tdi_road_prepare(road, SO_SNDTIMEO))
        return PASS;
    if (road->blocking || tdi_road_connects(call)) {
        (void)tdi_debt_take_over(road->key, TDI_OUT, wait);
        wait->calls_paid = false;
        return acquire(road, 0, granted);
    }
    switch (claim_patiently(road)) {
    case TDI_DEBT_PENDING:
        return (road->type == SOCK_STREAM ? tdi_fd_broken(call->fd) : tdi_fd_troubled(call->fd)) ? PASS
                                                                                                 : EAGAIN;
    case TDI_DEBT_LATE:
        tdi_tally_add(&tdi_tally.refused, 1);
        if (wait->late_errno != EAGAIN)
            return wait->late_errno;
        break; /* told EAGAIN, it waits for an event, and so is to be owed one again */
    case TDI_DEBT_GRANTED:
        *granted = call->length;
        if (!road->toll.bytes || wait->held >= call->length)
            return 0;
        if (wait->divisible) {
            (void)tdi_wait_take_some(wait, (uint32_t)(call->length - wait->held));
            *granted = (size_t)wait->held;
            return 0;
        }
        tdi_wait_give_back(wait, wait->held, true); /* another message than the one it was for */
        break;
    case TDI_DEBT_NONE:
        break;
    }
    return acquire(road, 0, granted);
}

/*
 * Tokens ran out in the middle of what a non-blocking call wanted to send: an event is owed, or a loop that
 * takes a short count for a full socket would wait for ever. Whether that is seen to; if not, the call goes
 * on.
 */
static bool owe_rest(struct tdi_road *road, size_t done)
{
    uint32_t rest = (uint32_t)(road->call->length - done);
    if (!road->wait.divisible || road->toll.refuse || !tdi_ready_is_used() || serves_nobody_else(road, rest))
        return true;
    return tdi_debt_begin(road->call->fd, road->key, TDI_OUT, &road->wait, rest);
}

ssize_t tdi_road_send(struct tdi_road *road)
{
    const struct tdi_call *call = road->call;
    int saved_errno = errno;
    size_t done = 0;
    for (;;) {
        size_t granted = call->length - done;
        int error = done == 0 && tdi_ready_any() ? claim(road, &granted) : acquire(road, done, &granted);
        ssize_t result = -1;
        if (error == 0 || error == PASS) {
            result = call->real(call, done, granted);
            settle(road, result);
        } else if (error == DROP) {
            tdi_tally_add(&tdi_tally.dropped, 1);
            result = (ssize_t)call->length;
        } else {
            tdi_wait_give_back(&road->wait, road->wait.held, true);
            errno = error;
        }
        if (result < 0 && done == 0)
            return -1;
        if (result > 0)
            done += (size_t)result;
        road->wait.refuse = false; /* only what has not begun is refused */
        bool complete = result < (ssize_t)granted || done == call->length;
        if (!complete && (road->blocking || !owe_rest(road, done)))
            continue;
        errno = saved_errno;
        return (ssize_t)done;
    }
}
