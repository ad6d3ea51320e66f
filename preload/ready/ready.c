/* SPDX-License-Identifier: MIT */
#include "ready/ready.h"

#include <poll.h>
#include <stddef.h>

#include "fd.h"
#include "known.h"
#include "ready/debt.h"
#include "ready/helper.h"
#include "ready/ledger.h"
#include "ready/lock.h"
#include "ready/service.h"

#define EXEC_NS UINT64_C(200000000) /* no exec takes that long, and who jumps out of one waits no longer */

_Atomic(uint32_t) tdi_ready_used;

uint64_t tdi_ready_serve(void)
{
    if (tdi_helper_runs() || !tdi_known_is_ours())
        return TDI_NEVER_NS;
    return tdi_service();
}

void tdi_ready_before_close(int fd)
{
    struct tdi_ready_lock lock;
    if (!tdi_known_is_ours())
        return;
    tdi_ready_lock(&lock);
    uint64_t key = tdi_fd_key(fd);
    for (enum tdi_direction direction = TDI_OUT; direction <= TDI_IN; direction++) {
        struct tdi_due *debt = tdi_ledger_find(key, direction);
        if (debt != NULL)
            tdi_debt_orphan(&debt->toll, tdi_ledger_finish(debt));
    }
    tdi_watch_forget(fd);
    tdi_ready_unlock(&lock);
}

void tdi_ready_before_exec(void)
{
    struct tdi_ready_lock lock;
    if (!tdi_ready_any() || !tdi_known_is_ours())
        return;
    tdi_ready_lock(&lock);
    tdi_ledger_rest(tundish_now_ns() + EXEC_NS);
    for (struct tdi_due *debt = NULL; (debt = tdi_ledger_next(debt)) != NULL;) {
        tdi_ledger_start_over(debt);
        tdi_watch_uncover(tdi_ledger_key(debt));
    }
    tdi_ready_unlock(&lock);
}

void tdi_ready_after_exec(void)
{
    struct tdi_ready_lock lock;
    if (!tdi_known_is_ours())
        return;
    tdi_ready_lock(&lock);
    tdi_ledger_rest(0);
    for (const struct tdi_due *debt = NULL; (debt = tdi_ledger_next(debt)) != NULL;) {
        tdi_watch_cover(tdi_ledger_key(debt));
        if (tdi_debt_is_hidden(tdi_ledger_key(debt), debt->direction)) /* it was granted before */
            tdi_watch_hide(tdi_ledger_key(debt), debt->direction);
    }
    tdi_ready_unlock(&lock);
    tdi_helper_wake();
}

/* The events of one direction. */
static short events_of(enum tdi_direction direction)
{
    return direction == TDI_OUT ? POLLOUT | POLLWRNORM | POLLWRBAND : POLLIN | POLLRDNORM;
}

short tdi_ready_hidden(int fd, short events, uint64_t *due_ns)
{
    struct tdi_ready_lock lock;
    short hidden = 0;
    uint64_t key = (events & (events_of(TDI_OUT) | events_of(TDI_IN))) != 0 ? tdi_fd_key(fd) : 0;
    if (key == 0 || !tdi_known_is_ours())
        return 0;
    tdi_ready_lock(&lock);
    for (enum tdi_direction direction = TDI_OUT; direction <= TDI_IN; direction++) {
        struct tdi_due *debt = (events & events_of(direction)) != 0 ? tdi_ledger_find(key, direction) : NULL;
        if (debt == NULL)
            continue;
        tdi_ledger_look(debt, tundish_now_ns());
        debt = tdi_ledger_find(key, direction);
        if (debt == NULL || debt->granted || debt->late)
            continue;
        hidden |= events & events_of(direction);
        *due_ns = debt->wake_ns < *due_ns ? debt->wake_ns : *due_ns;
    }
    tdi_ready_unlock(&lock);
    return hidden;
}
