/* SPDX-License-Identifier: MIT */
/*
 * A blocking stream socket gets everything sent, in pieces as tokens come; a non-blocking one gets one piece,
 * never none; what must not be cut is waited for as a whole. After each real call, what the kernel did not
 * take is given back. A thread cancelled on the way, or jumping out of it, gives back all that it holds.
 */
#include "gate.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "fd.h"
#include "inside.h"
#include "lib/cancel.h"
#include "rule.h"
#include "wait.h"

#define DATAGRAM_MAX 65535
#define ONE_CALL_MAX ((size_t)0x7ffff000) /* the kernel takes no more in one call */

struct road {
    const struct tdi_call *call;
    uint32_t kinds; /* of the call, as far as the rule names them */
    bool waited;    /* what follows was asked for */
    bool blocking;
    uint64_t cookie;
    struct tdi_wait wait;
};

static uint32_t calls_worth(uint32_t kinds)
{
    return (uint32_t)((kinds & TDI_CALL_CONNECT) != 0) + (uint32_t)((kinds & TDI_CALLS_UP) != 0);
}

static uint32_t cost(const struct road *road, size_t bytes)
{
    if (!road->wait.rule->bytes)
        return calls_worth(road->kinds);
    return (road->kinds & TDI_CALLS_UP) != 0 ? (uint32_t)bytes : 0;
}

/* A failed connect that still sent something, or may have. */
static bool knocked(int error)
{
    return error == EINPROGRESS || error == EINTR || error == ECONNREFUSED || error == ECONNRESET ||
           error == ETIMEDOUT || error == EHOSTUNREACH;
}

/* What a real call with this result was worth, at most what is held. */
static uint64_t used(const struct road *road, ssize_t result)
{
    uint64_t worth = 0;
    if (result >= 0)
        worth = cost(road, (size_t)result);
    else if (!road->wait.rule->bytes && (road->kinds & TDI_CALL_CONNECT) != 0 && knocked(errno))
        worth = 1;
    return worth < road->wait.held ? worth : road->wait.held;
}

static void settle(struct road *road, ssize_t result)
{
    uint64_t tokens = used(road, result);
    tdi_wait_give_back(&road->wait, road->wait.held - tokens);
    road->wait.held = 0;
    atomic_fetch_add_explicit(&tdi_tally.tokens, tokens, memory_order_relaxed);
}

static void give_all_back(void *argument)
{
    struct road *road = argument;
    tdi_wait_give_back(&road->wait, road->wait.held);
    tdi_inside.road--;
}

/* TCP is never told EAGAIN for a connect: nearly every program takes that for a final failure. */
static int refusal(const struct road *road)
{
    int configured = road->wait.rule->policy.refuse_errno;
    if ((road->call->kinds & TDI_CALL_CONNECT) != 0 && (configured == 0 || configured == EAGAIN))
        return ECONNREFUSED;
    return configured != 0 ? configured : EAGAIN;
}

static uint64_t later(uint64_t now_ns, uint64_t duration_ns)
{
    return duration_ns < UINT64_MAX - now_ns ? now_ns + duration_ns : UINT64_MAX;
}

/* What is only worth asking once a call has to wait. */
static void prepare_to_wait(struct road *road)
{
    const struct tdi_call *call = road->call;
    const struct tdi_policy *policy = &road->wait.rule->policy;
    struct tdi_wait *wait = &road->wait;
    uint64_t now_ns = tundish_now_ns();
    road->waited = true;
    road->blocking = (call->flags & MSG_DONTWAIT) == 0 && !tdi_fd_nonblocking(call->fd);
    road->cookie = tdi_fd_cookie(call->fd);
    wait->divisible = wait->rule->bytes && !call->whole && tdi_fd_type(call->fd) == SOCK_STREAM;
    wait->interruptible = road->blocking;
    wait->refuse = policy->when_empty == TDI_EMPTY_REFUSE;
    wait->deadline_ns = later(now_ns, policy->max_wait_ns);
    wait->late_errno = refusal(road);
    if (!road->blocking || (call->kinds & TDI_CALLS_UP) == 0)
        return;
    uint64_t timeout_ns = tdi_fd_send_timeout_ns(call->fd);
    if (timeout_ns == 0)
        return;
    wait->never_restart = true;
    if (later(now_ns, timeout_ns) < wait->deadline_ns) {
        wait->deadline_ns = later(now_ns, timeout_ns);
        wait->late_errno = EAGAIN;
    }
}

/* Takes tokens for the rest of the call or a piece of it, *granted bytes. 0 or an errno. */
static int acquire(struct road *road, size_t done, size_t *granted)
{
    size_t rest = road->call->length - done;
    uint32_t tokens = cost(road, rest);
    *granted = rest;
    if (tdi_wait_try(&road->wait, tokens))
        return 0;
    if (road->wait.rule->policy.when_empty == TDI_EMPTY_OBSERVE) {
        tdi_wait_take_some(&road->wait, tokens);
        return 0;
    }
    if (!road->waited)
        prepare_to_wait(road);
    int error = tdi_wait(&road->wait, tokens);
    if (error != 0 && error == road->wait.late_errno)
        atomic_fetch_add_explicit(&tdi_tally.refused, 1, memory_order_relaxed);
    if (error == 0 && road->cookie != 0 && tdi_fd_cookie(road->call->fd) != road->cookie)
        error = EBADF; /* closed meanwhile, and the number may already be somebody else's */
    if (error == 0 && done > 0 && tdi_fd_broken(road->call->fd))
        error =
            EPIPE; /* never seen: the next call is to find what went wrong, this one says how much went out */
    if (error == 0 && road->wait.divisible)
        *granted = (size_t)road->wait.held;
    return error;
}

static ssize_t walk(struct road *road)
{
    const struct tdi_call *call = road->call;
    int saved_errno = errno;
    size_t done = 0;
    for (;;) {
        size_t granted;
        int error = acquire(road, done, &granted);
        ssize_t result = -1;
        if (error == 0) {
            result = call->real(call, done, granted);
            settle(road, result);
        } else {
            tdi_wait_give_back(&road->wait, road->wait.held);
            errno = error;
        }
        if (result < 0 && done == 0)
            return -1;
        if (result > 0)
            done += (size_t)result;
        road->wait.refuse = false; /* only what has not begun is refused */
        if (result < (ssize_t)granted || done == call->length || !road->blocking) {
            errno = saved_errno;
            return (ssize_t)done;
        }
    }
}

bool tdi_gate_concerns(uint32_t kinds, int fd)
{
    const struct tdi_rule *rule = tdi_rule();
    return rule != NULL && (rule->calls & kinds) != 0 && tdi_inside.house == 0 && tdi_fd_in_reach(fd);
}

/* What the kernel will refuse for its size alone is not to wait for that many tokens. */
static bool is_hopeless(const struct tdi_call *call)
{
    return call->length > SSIZE_MAX || (call->length > DATAGRAM_MAX && tdi_fd_type(call->fd) == SOCK_DGRAM);
}

ssize_t tdi_gate(const struct tdi_call *call)
{
    const struct tdi_rule *rule = tdi_rule();
    if (rule == NULL || is_hopeless(call)) /* NULL: another thread has just entered seccomp */
        return call->real(call, 0, call->length);
    if (rule->broken) {
        errno = EACCES;
        return -1;
    }
    struct tdi_call bounded = *call;
    bounded.length = call->length < ONE_CALL_MAX ? call->length : ONE_CALL_MAX;
    struct road road = {.call = &bounded, .kinds = call->kinds & rule->calls, .wait.rule = rule};
    ssize_t result;
    atomic_fetch_add_explicit(&tdi_tally.calls, 1, memory_order_relaxed);
    tdi_inside.road++;
    tdi_cleanup_push(give_all_back, &road);
    result = walk(&road);
    tdi_cleanup_pop();
    tdi_inside.road--;
    return result;
}
