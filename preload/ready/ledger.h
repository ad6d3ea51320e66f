/* SPDX-License-Identifier: MIT */
/*
 * The table of sockets in debt, and what becomes of one that waits. For debt.c and ready.c; all with the lock
 * of ready/lock.h held.
 */
#ifndef TUNDISH_PRELOAD_READY_LEDGER_H
#define TUNDISH_PRELOAD_READY_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "ready/watch.h"
#include "wait.h"

struct tdi_due {
    enum tdi_direction direction;
    int fd; /* that it began with */
    bool granted;
    bool late;
    uint32_t need;    /* bytes that are waited for, or to be paid */
    uint32_t asked;   /* of them, those asked for in line now */
    uint32_t ahead;   /* bytes of other sockets that went ahead and are to be paid from what is granted */
    uint64_t wake_ns; /* when it is worth looking; 0: it has no place in line yet, for nobody waits for it */
    uint64_t granted_ns; /* when it was */
    struct tdi_toll toll;
    struct tdi_wait wait;
};

/* NULL if the socket is not in debt. */
struct tdi_due *tdi_ledger_find(uint64_t key, enum tdi_direction direction);

/* A new one, its contents old ones; NULL if the table is full. */
struct tdi_due *tdi_ledger_add(uint64_t key);
void tdi_ledger_drop(struct tdi_due *debt);

/* Its socket. */
uint64_t tdi_ledger_key(const struct tdi_due *debt);

/* The one after another, from NULL on; NULL at the end. Dropping the one at hand is fine. */
struct tdi_due *tdi_ledger_next(const struct tdi_due *after);

/* Looks at a debt; shows its events if it need not wait any more. It may be over and gone afterwards. */
void tdi_ledger_look(struct tdi_due *debt, uint64_t now_ns);

/* Leaves the line and gives back what was granted. */
void tdi_ledger_let_go(struct tdi_due *debt);

/* The same, and it waits anew unless it is late. */
void tdi_ledger_start_over(struct tdi_due *debt);

/* Until then none lines up: a thread executes something, and places would be left behind. 0: no more. */
void tdi_ledger_rest(uint64_t until_ns);

/* The debt is over for another reason than a grant. Returns the bytes received and not paid for. */
uint64_t tdi_ledger_finish(struct tdi_due *debt);

#endif
