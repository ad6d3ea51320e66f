/* SPDX-License-Identifier: MIT */
/*
 * Receiving. What will come is not known before it has, so it is charged afterwards, and what there were no
 * tokens for is a debt of the socket: the next call waits until that is paid, or is told EAGAIN. The end of a
 * stream is never made up, nor hidden for longer than a debt.
 *
 * A debt ends with its process. So that none can read all it wants and leave, a stream gives no more at once
 * than the bucket holds.
 */
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "fd.h"
#include "ready/debt.h"
#include "road.h"

#define LEAST_PIECE 4096 /* however little the bucket holds */

static uint32_t bounded(uint64_t bytes)
{
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* The socket's debt; or, if it cannot have one, left to whoever receives next. Whether it can. */
static bool owe(struct tdi_road *road, uint64_t bytes)
{
    bool owed = tdi_debt_begin(road->call->fd, road->key, TDI_IN, &road->wait, bounded(bytes));
    if (!owed)
        tdi_debt_leave_unpaid(&road->toll, bytes);
    return owed;
}

/* What arrived earlier on this socket, and elsewhere, and is not paid for. 0, or what the call is told. */
static int pay(struct tdi_road *road, uint64_t bytes)
{
    struct tdi_wait *wait = &road->wait;
    int error = 0;
    road->owing = road->toll.bytes ? bytes : 0;
    road->owes = true;
    while (error == 0 && (road->owing > 0 || !wait->calls_paid)) {
        uint32_t n = bounded(road->owing);
        error = tdi_wait(wait, road->owing > 0 ? tdi_wait_worth(wait, n) : 0);
        uint64_t paid = wait->held < road->owing ? wait->held : road->owing;
        road->owing -= paid;
        tdi_wait_give_back(wait, wait->held - paid, false);
        wait->calls_paid |= wait->calls_held;
        wait->held = 0;
        wait->calls_held = false;
    }
    if (error != 0)
        (void)owe(road, road->owing);
    road->owes = false;
    return error;
}

/* What sockets closed since left unpaid becomes the debt of this one, which must not wait. */
static int take_on(struct tdi_road *road, uint64_t bytes)
{
    struct tdi_wait *wait = &road->wait;
    wait->calls_paid = true;
    if (tdi_wait_take_some(wait, bounded(bytes)))
        bytes -= wait->held;
    wait->held = 0;
    if (bytes == 0)
        return 0;
    return owe(road, bytes) ? EAGAIN : pay(road, tdi_debt_inherit(&road->toll));
}

/* What a socket in debt is to be told: 0 if it may receive. */
static int pay_first(struct tdi_road *road)
{
    struct tdi_wait *wait = &road->wait;
    uint64_t bytes;
    if (!tdi_road_prepare(road, SO_RCVTIMEO))
        return 0;
    wait->divisible = false;
    if (!road->blocking) {
        enum tdi_debt state = tdi_debt_claim(road->key, TDI_IN, wait);
        if (state == TDI_DEBT_LATE)
            return wait->late_errno;
        if (state == TDI_DEBT_PENDING)
            return tdi_fd_broken(road->call->fd) ? 0 : EAGAIN;
        bytes = tdi_debt_inherit(&road->toll);
        return bytes > 0 ? take_on(road, bytes) : 0;
    }
    bytes = tdi_debt_take_over(road->key, TDI_IN, wait);
    int error = pay(road, bytes + tdi_debt_inherit(&road->toll));
    return error == 0 && !tdi_road_is_still_there(road) ? EBADF : error;
}

/* A call that insists on its length, or has a vector, is not cut. */
static size_t length_of_piece(const struct tdi_road *road)
{
    const struct tdi_call *call = road->call;
    size_t length = call->length;
    if (length <= LEAST_PIECE || length == SSIZE_MAX || (call->flags & MSG_WAITALL) != 0)
        return length;
    for (uint32_t i = 0; i < road->toll.firm; i++) {
        const struct tdi_share *share = &road->toll.share[i];
        struct tundish_info info = TUNDISH_INFO_INIT;
        if (!share->bytes || tundish_available(share->bucket) >= length)
            continue;
        (void)tundish_info(share->bucket, &info);
        length = info.capacity < length ? info.capacity : length;
    }
    if (length == call->length || tdi_fd_type(call->fd) != SOCK_STREAM)
        return call->length;
    return length > LEAST_PIECE ? length : LEAST_PIECE;
}

/*
 * Charges what came; what there are no tokens for is a debt. So is nothing at all if it was cut and there is
 * `more`: a loop that takes a short count for the end of what there is gets an event.
 */
static void charge(struct tdi_road *road, size_t received, bool more)
{
    struct tdi_wait *wait = &road->wait;
    uint32_t n = bounded(received);
    wait->calls_paid = false;
    wait->held = 0;
    if (road->toll.count > road->toll.firm)
        tdi_road_observe(&road->toll, received, true);
    if (road->toll.bytes)
        tdi_tally_add(&tdi_tally.bytes, n);
    else if (road->toll.firm > 0)
        tdi_tally_add(&tdi_tally.counted, road->toll.share[0].calls);
    bool paid = road->toll.firm == 0 || tdi_wait_try(wait, n);
    if ((paid && !more) || !tdi_road_prepare(road, SO_RCVTIMEO))
        return;
    if (paid || tdi_wait_take_some(wait, n)) {
        n -= paid ? n : (uint32_t)wait->held;
        wait->calls_paid = true;
    }
    if (n > 0 || (more && !road->blocking) || !road->toll.bytes)
        (void)owe(road, n);
}

void tdi_road_leave_debt(struct tdi_road *road)
{
    if (road->owes)
        (void)owe(road, road->owing);
}

ssize_t tdi_road_receive(struct tdi_road *road)
{
    const struct tdi_call *call = road->call;
    int saved_errno = errno;
    if (road->toll.firm > 0 && (tdi_ready_any() || tdi_debt_any_unpaid())) {
        int error = pay_first(road);
        if (error != 0) {
            errno = error;
            return -1;
        }
        errno = saved_errno;
    }
    size_t length = length_of_piece(road);
    ssize_t result = call->real(call, 0, length);
    if (result > 0) {
        saved_errno = errno;
        charge(road, (size_t)result, length < call->length && (size_t)result == length);
        errno = saved_errno;
    }
    road->wait.held = 0;
    road->wait.calls_held = false;
    return result;
}
