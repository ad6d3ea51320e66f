/* SPDX-License-Identifier: MIT */
#include "road.h"

#include <errno.h>
#include <sys/socket.h>

#include "fd.h"
#include "ready/ready.h"

/* TCP is never told EAGAIN for a connect: nearly every program takes that for a final failure. */
static int refusal(const struct tdi_road *road)
{
    int configured = road->toll.refuse_errno;
    if (tdi_road_connects(road->call) && (configured == 0 || configured == EAGAIN))
        return ECONNREFUSED;
    return configured != 0 ? configured : EAGAIN;
}

static uint64_t later(uint64_t now_ns, uint64_t duration_ns)
{
    return duration_ns < UINT64_MAX - now_ns ? now_ns + duration_ns : UINT64_MAX;
}

static bool is_stream(const struct tdi_road *road, const struct tdi_rules *rules)
{
    enum tdi_kind kind = tdi_known_kind(tdi_known(rules, road->call->fd));
    return road->type == SOCK_STREAM || kind == TDI_KIND_PIPE || kind == TDI_KIND_FILE;
}

bool tdi_road_prepare(struct tdi_road *road, int timeout)
{
    const struct tdi_call *call = road->call;
    struct tdi_wait *wait = &road->wait;
    uint64_t now_ns = tundish_now_ns();
    const struct tdi_rules *rules = tdi_rules();
    if (road->waited)
        return true;
    if (rules == NULL || (tdi_known_ask(rules, call->fd) & 0xff) == 0)
        return false;
    road->waited = true;
    road->blocking = !call->now && !tdi_fd_nonblocking(call->fd);
    road->type = tdi_fd_type(call->fd);
    road->key = tdi_fd_key(call->fd);
    wait->divisible = road->toll.bytes && !call->whole && is_stream(road, rules);
    wait->interruptible = road->blocking;
    wait->refuse = road->toll.refuse;
    wait->deadline_ns = later(now_ns, road->toll.max_wait_ns);
    wait->late_errno = refusal(road);
    uint64_t timeout_ns =
        road->blocking && call->kinds != TDI_CALL_CONNECT ? tdi_fd_timeout_ns(call->fd, timeout) : 0;
    if (timeout_ns == 0)
        return true;
    wait->never_restart = true;
    if (later(now_ns, timeout_ns) < wait->deadline_ns) {
        wait->deadline_ns = later(now_ns, timeout_ns);
        wait->late_errno = EAGAIN;
    }
    return true;
}

bool tdi_road_is_still_there(const struct tdi_road *road)
{
    return road->key == 0 || tdi_fd_key(road->call->fd) == road->key;
}

void tdi_road_observe(const struct tdi_toll *toll, uint64_t bytes, bool calls)
{
    const uint32_t most = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
    bool late = false;
    for (uint32_t i = toll->firm; i < toll->count; i++) {
        const struct tdi_share *share = &toll->share[i];
        uint32_t tokens = share->bytes ? most : calls ? share->calls : 0;
        tdi_tally_add(share->bytes ? &tdi_tally.bytes : &tdi_tally.counted, tokens);
        if (tundish_try_acquire(share->bucket, tokens) == 0)
            continue;
        uint32_t available = tundish_available(share->bucket);
        (void)tundish_try_acquire(share->bucket, available < tokens ? available : tokens);
        late = true;
    }
    if (late)
        tdi_tally_add(&tdi_tally.late, 1);
}
