/* SPDX-License-Identifier: MIT */
/*
 * One table, searched from the front by key: it holds what waits at this moment, tens as a rule. Each debt
 * has a place of its own in the buckets' lines, asked about when its time has come by whoever passes: the
 * wrapped waits, the next call on the socket, or the helper thread.
 *
 * What is granted for sending and not fetched is given back after a while: the program may have lost
 * interest.
 */
#include "ready/ledger.h"

#include <errno.h>
#include <stddef.h>

#include "fd.h"
#include "ready/debt.h"
#include "ready/lock.h"
#include "ready/ready.h"
#include "ready/service.h"

#define DEBTS 1024
#define SWEEP_FIRST 32
#define KEEP_NS UINT64_C(2000000000) /* a grant that nobody fetches */
#define REST_NS UINT64_C(1000000)    /* the next look while all rest */
#define ADOPT_NS UINT64_C(100000000) /* and at whether the parent still lives */

_Atomic(uint32_t) tdi_ready_debts;

static uint64_t keys[DEBTS]; /* 0: free */
static struct tdi_due debts[DEBTS];
static uint32_t end; /* all behind are free */
static uint64_t rest_until_ns;

struct tdi_due *tdi_ledger_find(uint64_t key, enum tdi_direction direction)
{
    for (uint32_t i = 0; key != 0 && i < end; i++)
        if (keys[i] == key && debts[i].direction == direction)
            return &debts[i];
    return NULL;
}

uint64_t tdi_ledger_key(const struct tdi_due *debt)
{
    return keys[debt - debts];
}

/* Nobody waits for it, and its descriptor is another one's by now: it was closed behind our back. */
static bool is_stale(uint32_t i)
{
    return keys[i] != 0 && debts[i].wake_ns == 0 && tdi_fd_key(debts[i].fd) != keys[i];
}

static void sweep(void)
{
    for (uint32_t i = 0; i < end; i++)
        if (is_stale(i))
            tdi_debt_orphan(&debts[i].toll, tdi_ledger_finish(&debts[i]));
}

struct tdi_due *tdi_ledger_add(uint64_t key)
{
    static uint32_t sweep_at = SWEEP_FIRST;
    uint32_t i = 0;
    if (end >= sweep_at) {
        sweep();
        sweep_at = 2 * end > SWEEP_FIRST ? 2 * end : SWEEP_FIRST;
        sweep_at = sweep_at < DEBTS ? sweep_at : DEBTS;
    }
    while (i < DEBTS && keys[i] != 0)
        i++;
    if (i == DEBTS)
        return NULL;
    keys[i] = key;
    end = i < end ? end : i + 1;
    atomic_fetch_add_explicit(&tdi_ready_debts, 1, memory_order_relaxed);
    return &debts[i];
}

void tdi_ledger_drop(struct tdi_due *debt)
{
    keys[debt - debts] = 0;
    while (end > 0 && keys[end - 1] == 0)
        end--;
    atomic_fetch_sub_explicit(&tdi_ready_debts, 1, memory_order_relaxed);
}

struct tdi_due *tdi_ledger_next(const struct tdi_due *after)
{
    for (uint32_t i = after != NULL ? (uint32_t)(after - debts) + 1 : 0; i < end; i++)
        if (keys[i] != 0)
            return &debts[i];
    return NULL;
}

static void pay_ahead(struct tdi_due *debt)
{
    uint64_t n = debt->ahead < debt->wait.held ? debt->ahead : debt->wait.held;
    debt->wait.held -= n;
    debt->ahead -= (uint32_t)n;
}

void tdi_ledger_let_go(struct tdi_due *debt)
{
    tdi_all_end(&debt->wait.all);
    if (debt->ahead > debt->wait.held)
        (void)tdi_wait_take_some(&debt->wait, debt->ahead);
    pay_ahead(debt);
    tdi_wait_give_back(&debt->wait, debt->wait.held, true);
}

void tdi_ledger_start_over(struct tdi_due *debt)
{
    tdi_ledger_let_go(debt);
    if (debt->late)
        return;
    debt->granted = false;
    debt->wake_ns = 0;
}

void tdi_ledger_rest(uint64_t until_ns)
{
    rest_until_ns = until_ns;
}

static void line_up(struct tdi_due *debt)
{
    struct tdi_wait *wait = &debt->wait;
    uint32_t rest = debt->need - (uint32_t)wait->held;
    if (debt->direction == TDI_IN)
        rest = tdi_wait_worth(wait, rest);
    debt->asked = debt->toll.bytes ? tdi_wait_piece(wait, rest) : 0;
    uint32_t count = tdi_wait_demands(wait, debt->asked, wait->demands);
    tdi_all_begin_deaf(&wait->all, wait->demands, count);
}

/* What was asked for has been granted. Whether that was all. */
static bool take(struct tdi_due *debt)
{
    struct tdi_wait *wait = &debt->wait;
    tdi_wait_note_taken(wait, debt->asked);
    pay_ahead(debt);
    if (debt->direction == TDI_OUT)
        return wait->divisible || !debt->toll.bytes || wait->held >= debt->need;
    uint32_t paid = debt->asked < debt->need ? debt->asked : debt->need;
    debt->need -= paid;
    wait->held -= paid;
    tdi_wait_give_back(wait, wait->held, false);
    wait->calls_held = false;
    wait->calls_paid = true;
    return debt->need == 0 || !debt->toll.bytes;
}

/* Asks in line. Whether it is over with waiting: granted, or late. */
static bool poll_line(struct tdi_due *debt)
{
    int error = 0;
    bool complete = false;
    if (debt->wake_ns == 0)
        line_up(debt);
    for (;;) {
        uint32_t asked = debt->asked;
        error = tdi_all_poll(&debt->wait.all, debt->wait.deadline_ns);
        if (error == 0)
            complete = take(debt);
        if (complete || (error != 0 && error != -E2BIG)) /* too big: the capacity has become smaller */
            break;
        line_up(debt);
        bool is_less = error == 0 || debt->asked < asked;
        if (!is_less || (debt->toll.bytes && debt->asked == 0)) { /* only a spoilt bucket says so */
            error = -ETIMEDOUT;
            break;
        }
    }
    debt->late = error == -ETIMEDOUT;
    if (error == -EINPROGRESS)
        debt->wake_ns = tdi_all_next_ns(&debt->wait.all);
    return complete || debt->late;
}

void tdi_ledger_look(struct tdi_due *debt, uint64_t now_ns)
{
    uint64_t key = tdi_ledger_key(debt);
    enum tdi_direction direction = debt->direction;
    if (debt->granted || debt->late) {
        if (direction == TDI_IN || now_ns - debt->granted_ns < KEEP_NS)
            return;
        tdi_ledger_let_go(debt);
        tdi_ledger_drop(debt);
        return;
    }
    if (now_ns < rest_until_ns || debt->wake_ns > now_ns || !poll_line(debt))
        return;
    debt->granted = !debt->late;
    debt->granted_ns = now_ns;
    if (direction == TDI_IN && debt->granted)
        tdi_ledger_drop(debt);
    tdi_watch_show(key, direction);
}

/* When it is worth looking again. Late receiving is the program's to find out. */
static uint64_t next_look(const struct tdi_due *debt)
{
    if (!debt->granted && !debt->late)
        return debt->wake_ns;
    return debt->direction == TDI_IN ? TDI_NEVER_NS : debt->granted_ns + KEEP_NS;
}

uint64_t tdi_ledger_finish(struct tdi_due *debt)
{
    uint64_t key = tdi_ledger_key(debt), rest = debt->direction == TDI_IN ? debt->need : 0;
    enum tdi_direction direction = debt->direction;
    tdi_ledger_let_go(debt);
    tdi_ledger_drop(debt);
    tdi_watch_show(key, direction);
    return rest;
}

uint64_t tdi_service(void)
{
    struct tdi_ready_lock lock;
    uint64_t next_ns = TDI_NEVER_NS;
    tdi_ready_lock(&lock);
    uint64_t now_ns = tundish_now_ns();
    for (uint32_t i = 0; i < end; i++) {
        if (keys[i] == 0)
            continue;
        if (debts[i].wake_ns == 0 && !tdi_watch_any(keys[i]))
            continue; /* it lines up once somebody waits for it */
        tdi_ledger_look(&debts[i], now_ns);
        if (keys[i] == 0)
            continue;
        uint64_t due_ns = next_look(&debts[i]);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    if (tdi_watch_adopt() && next_ns > now_ns + ADOPT_NS)
        next_ns = now_ns + ADOPT_NS;
    if (now_ns < rest_until_ns)
        next_ns = now_ns + REST_NS;
    tdi_ready_unlock(&lock);
    return next_ns;
}
