/* SPDX-License-Identifier: MIT */
#include "ready/debt.h"

#include <stddef.h>

#include "known.h"
#include "lib/sleep.h"
#include "ready/helper.h"
#include "ready/ledger.h"
#include "ready/lock.h"

#define ORPHANS 16
#define AHEAD_MOST 1024 /* bytes of a message that goes ahead */
#define AHEAD_PART 8    /* of what a debt waits for, this part may have gone ahead */

/* What sockets left unpaid that were closed since, for each set of shares. */
struct orphan {
    struct tdi_toll toll;
    uint64_t bytes; /* 0: free */
};

static struct orphan orphans[ORPHANS];
static _Atomic(uint64_t) unpaid; /* of all */

/* What was received is to be paid for all the same, by as long a wait as the call may have that is told. */
static void wait_anew(struct tdi_due *debt, const struct tdi_wait *wait)
{
    tdi_ledger_let_go(debt);
    debt->late = false;
    debt->wake_ns = 0;
    debt->wait.deadline_ns = wait->deadline_ns;
    tdi_watch_hide(tdi_ledger_key(debt), debt->direction);
}

static enum tdi_debt hand_over(struct tdi_due *debt, struct tdi_wait *wait)
{
    enum tdi_debt state = debt->late ? TDI_DEBT_LATE : debt->granted ? TDI_DEBT_GRANTED : TDI_DEBT_PENDING;
    if (state == TDI_DEBT_PENDING)
        return state;
    if (state == TDI_DEBT_LATE && debt->direction == TDI_IN) {
        wait_anew(debt, wait);
        return state;
    }
    if (state == TDI_DEBT_GRANTED && tdi_toll_same(&debt->toll, wait->toll)) {
        wait->held = debt->wait.held;
        wait->calls_held = debt->wait.calls_held;
    } else {
        tdi_ledger_let_go(debt);
        state = state == TDI_DEBT_GRANTED ? TDI_DEBT_NONE : state;
    }
    tdi_ledger_drop(debt);
    return state;
}

enum tdi_debt tdi_debt_claim(uint64_t key, enum tdi_direction direction, struct tdi_wait *wait)
{
    struct tdi_ready_lock lock;
    enum tdi_debt state = TDI_DEBT_NONE;
    if (!tdi_known_is_ours())
        return TDI_DEBT_NONE;
    tdi_ready_lock(&lock);
    struct tdi_due *debt = tdi_ledger_find(key, direction);
    if (debt != NULL)
        tdi_ledger_look(debt, tundish_now_ns());
    debt = tdi_ledger_find(key, direction);
    if (debt != NULL)
        state = hand_over(debt, wait);
    tdi_ready_unlock(&lock);
    if (state == TDI_DEBT_LATE && direction == TDI_IN)
        tdi_debt_look_after();
    return state;
}

static void set_up(struct tdi_due *debt, enum tdi_direction direction, const struct tdi_wait *wait,
                   uint32_t n)
{
    debt->direction = direction;
    debt->granted = debt->late = false;
    debt->ahead = 0;
    debt->wake_ns = 0;
    debt->toll = *wait->toll;
    tdi_wait_init(&debt->wait, &debt->toll);
    debt->need = direction == TDI_OUT ? tdi_wait_worth(&debt->wait, n) : n;
    debt->wait.calls_paid = wait->calls_paid;
    debt->wait.divisible = direction == TDI_OUT && wait->divisible;
    debt->wait.deadline_ns = wait->deadline_ns;
    debt->wait.all.in_line = false;
}

/* Whether an event could be owed, and will be seen to. */
static bool can_owe(uint64_t key)
{
    struct tdi_ready_lock lock;
    tdi_ready_lock(&lock);
    bool watched = tdi_watch_any(key), can = tdi_watch_can_owe(key);
    tdi_ready_unlock(&lock);
    return can && (!watched || tdi_helper_ensure());
}

/* With the lock held. Whether the helper has to know. */
static bool enter(struct tdi_due *debt, int fd, enum tdi_direction direction, const struct tdi_wait *wait,
                  uint32_t n)
{
    uint64_t key = tdi_ledger_key(debt);
    set_up(debt, direction, wait, n);
    debt->fd = fd;
    tdi_known_mark_watched(fd);
    tdi_watch_hide(key, direction);
    bool watched = tdi_watch_any(key);
    if (watched)
        tdi_ledger_look(debt, tundish_now_ns());
    return watched;
}

bool tdi_debt_begin(int fd, uint64_t key, enum tdi_direction direction, const struct tdi_wait *wait,
                    uint32_t n)
{
    struct tdi_ready_lock lock;
    bool begun = false, watched = false;
    if (key == 0 || !tdi_known_is_ours() || (direction == TDI_OUT && !tdi_ready_is_used()) || !can_owe(key))
        return false;
    tdi_ready_lock(&lock);
    struct tdi_due *debt = tdi_ledger_find(key, direction);
    if (debt != NULL) { /* of receiving: more of it; of sending: another thread's call began it */
        if (direction == TDI_IN)
            debt->need = n < UINT32_MAX - debt->need ? debt->need + n : UINT32_MAX;
        begun = true;
    } else if ((debt = tdi_ledger_add(key)) != NULL) {
        watched = enter(debt, fd, direction, wait, n);
        begun = true;
    }
    tdi_ready_unlock(&lock);
    if (watched)
        tdi_helper_wake();
    return begun;
}

void tdi_debt_look_after(void)
{
    (void)tdi_helper_ensure();
    tdi_helper_wake();
}

uint64_t tdi_debt_take_over(uint64_t key, enum tdi_direction direction, struct tdi_wait *wait)
{
    struct tdi_ready_lock lock;
    uint64_t rest = 0;
    wait->calls_paid = true;
    if (!tdi_known_is_ours())
        return 0;
    tdi_ready_lock(&lock);
    struct tdi_due *debt = tdi_ledger_find(key, direction);
    wait->calls_paid = debt == NULL || debt->wait.calls_paid;
    if (debt != NULL)
        rest = tdi_ledger_finish(debt);
    tdi_ready_unlock(&lock);
    return rest;
}

bool tdi_debt_any_unpaid(void)
{
    return atomic_load_explicit(&unpaid, memory_order_relaxed) != 0;
}

/* The place of those shares' unpaid bytes, or one for them: the last one's are forgiven if all are taken. */
static struct orphan *find_orphan(const struct tdi_toll *toll)
{
    uint32_t i = 0;
    while (i < ORPHANS - 1 && orphans[i].bytes > 0 && !tdi_toll_same(&orphans[i].toll, toll))
        i++;
    if (orphans[i].bytes > 0 && tdi_toll_same(&orphans[i].toll, toll))
        return &orphans[i];
    atomic_fetch_sub_explicit(&unpaid, orphans[i].bytes, memory_order_relaxed);
    orphans[i].toll = *toll;
    orphans[i].bytes = 0;
    return &orphans[i];
}

void tdi_debt_orphan(const struct tdi_toll *toll, uint64_t bytes)
{
    if (bytes == 0)
        return;
    find_orphan(toll)->bytes += bytes;
    atomic_fetch_add_explicit(&unpaid, bytes, memory_order_relaxed);
}

void tdi_debt_leave_unpaid(const struct tdi_toll *toll, uint64_t bytes)
{
    struct tdi_ready_lock lock;
    tdi_ready_lock(&lock);
    tdi_debt_orphan(toll, bytes);
    tdi_ready_unlock(&lock);
}

uint64_t tdi_debt_inherit(const struct tdi_toll *toll)
{
    struct tdi_ready_lock lock;
    uint64_t bytes = 0;
    if (!tdi_debt_any_unpaid() || !toll->bytes || !tdi_known_is_ours())
        return 0;
    tdi_ready_lock(&lock);
    for (uint32_t i = 0; i < ORPHANS; i++) {
        if (orphans[i].bytes == 0 || !tdi_toll_same(&orphans[i].toll, toll))
            continue;
        bytes += orphans[i].bytes;
        orphans[i].bytes = 0;
    }
    atomic_fetch_sub_explicit(&unpaid, bytes, memory_order_relaxed);
    tdi_ready_unlock(&lock);
    return bytes;
}

void tdi_debt_sleep(uint64_t key, enum tdi_direction direction, uint64_t until_ns)
{
    static _Atomic(uint32_t) nobody_rings;
    struct tdi_ready_lock lock;
    tdi_ready_lock(&lock);
    const struct tdi_due *debt = tdi_ledger_find(key, direction);
    if (debt != NULL && debt->wake_ns < until_ns)
        until_ns = debt->wake_ns;
    tdi_ready_unlock(&lock);
    struct timespec until = tdi_futex_until(until_ns);
    (void)tdi_futex_wait(&nobody_rings, 0, &until);
}

/* What a debt has been granted already, or will be, pays for n bytes of another socket. */
static bool lend(struct tdi_due *debt, uint32_t n)
{
    if (debt->granted) {
        bool spare = debt->wait.divisible && debt->wait.held > n;
        debt->wait.held -= spare ? n : 0;
        return spare;
    }
    if (debt->late || debt->wake_ns == 0 || debt->ahead + n > debt->asked / AHEAD_PART)
        return false;
    debt->ahead += n;
    return true;
}

bool tdi_debt_go_ahead(const struct tdi_toll *toll, uint32_t n)
{
    struct tdi_ready_lock lock;
    bool gone = false;
    if (!tdi_ready_any() || !toll->bytes || n > AHEAD_MOST || !tdi_known_is_ours())
        return false;
    tdi_ready_lock(&lock);
    for (struct tdi_due *debt = NULL; !gone && (debt = tdi_ledger_next(debt)) != NULL;)
        gone = debt->direction == TDI_OUT && tdi_toll_same(&debt->toll, toll) && lend(debt, n);
    tdi_ready_unlock(&lock);
    return gone;
}

bool tdi_debt_is_hidden(uint64_t key, enum tdi_direction direction)
{
    const struct tdi_due *debt = tdi_ledger_find(key, direction);
    return debt != NULL && !debt->granted && !debt->late;
}

void tdi_debt_leave(void)
{
    struct tdi_ready_lock lock;
    if (!tdi_ready_any() || !tdi_known_is_ours())
        return;
    tdi_ready_lock(&lock);
    for (struct tdi_due *debt = NULL; (debt = tdi_ledger_next(debt)) != NULL;)
        (void)tdi_ledger_finish(debt);
    tdi_ready_unlock(&lock);
}

static void move(struct tdi_toll *toll, const struct tundish *from, struct tundish *to)
{
    for (uint32_t i = 0; i < toll->count; i++)
        if (toll->share[i].bucket == from)
            toll->share[i].bucket = to;
}

void tdi_debt_move(const struct tundish *from, struct tundish *to)
{
    for (struct tdi_due *debt = NULL; (debt = tdi_ledger_next(debt)) != NULL;)
        move(&debt->toll, from, to);
}

void tdi_debt_after_fork(void)
{
    tdi_helper_after_fork();
    atomic_store_explicit(&unpaid, 0, memory_order_relaxed); /* the parent pays */
    for (uint32_t i = 0; i < ORPHANS; i++)
        orphans[i].bytes = 0;
    for (struct tdi_due *debt = NULL; (debt = tdi_ledger_next(debt)) != NULL;) {
        debt->granted = debt->late = false;
        debt->wake_ns = 0;
        debt->ahead = 0;
        debt->wait.held = 0; /* the parent's, as is the place in line */
        debt->wait.calls_held = false;
        debt->wait.all.in_line = false;
    }
}
