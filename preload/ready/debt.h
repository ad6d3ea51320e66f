/* SPDX-License-Identifier: MIT */
/*
 * Sockets in debt: what they wait for, and their place in line. A debt of sending begins when a call is
 * refused or cut short for want of tokens; it is over when the program comes back for what was granted. A
 * debt of receiving begins when more arrived than there were tokens; it is over when that is paid.
 *
 * Only a program that waits for events is owed one; and a child that lives in our memory (vfork) has no
 * debts. All keep errno, allocate nothing and are signal-safe.
 */
#ifndef TUNDISH_PRELOAD_READY_DEBT_H
#define TUNDISH_PRELOAD_READY_DEBT_H

#include <stdbool.h>
#include <stdint.h>

#include "ready/ready.h"
#include "ready/watch.h"
#include "wait.h"

enum tdi_debt {
    TDI_DEBT_NONE,
    TDI_DEBT_PENDING, /* it still waits: the call is to be refused */
    TDI_DEBT_GRANTED, /* of sending: what was reserved is in `wait` now */
    TDI_DEBT_LATE,    /* it waited as long as the rule allows; of sending it is over, else it waits anew */
};

/* How the socket's debt stands now. */
enum tdi_debt tdi_debt_claim(uint64_t key, enum tdi_direction direction, struct tdi_wait *wait);

/*
 * The socket is in debt from now on: for n bytes to send, or n received and not paid for. `wait` says of
 * which shares, whether a piece will do, and until when. false if it cannot be: then nothing has changed.
 */
bool tdi_debt_begin(int fd, uint64_t key, enum tdi_direction direction, const struct tdi_wait *wait,
                    uint32_t n);

/*
 * Whoever may wait takes it over: the debt is over here. Returns the bytes received and not paid for; what
 * the call cost as such is said in wait->calls_paid.
 */
uint64_t tdi_debt_take_over(uint64_t key, enum tdi_direction direction, struct tdi_wait *wait);

/* A debt that still waits: sleeps until another look is worth while, for a moment at most. */
void tdi_debt_sleep(uint64_t key, enum tdi_direction direction, uint64_t until_ns);

/*
 * A short message of n bytes goes ahead, and a debt of another socket that waits for the same tokens, or has
 * them, pays for it: so an event loop can answer on one connection while another one has much to send. false
 * if there is none, or it has been asked for too much already.
 */
bool tdi_debt_go_ahead(const struct tdi_toll *toll, uint32_t n);

/*
 * Bytes received on sockets that were closed since, and not paid for: whoever receives next at the expense of
 * the same shares pays them first.
 */
bool tdi_debt_any_unpaid(void);
uint64_t tdi_debt_inherit(const struct tdi_toll *toll);

/* They are left to whoever comes; the second with the lock held. */
void tdi_debt_leave_unpaid(const struct tdi_toll *toll, uint64_t bytes);
void tdi_debt_orphan(const struct tdi_toll *toll, uint64_t bytes);

/* With the lock held: events of this direction must not be shown now. */
bool tdi_debt_is_hidden(uint64_t key, enum tdi_direction direction);

/*
 * Debts were hidden from an epoll: makes sure that somebody will show them, whatever the program's threads
 * do.
 */
void tdi_debt_look_after(void);

/* The process ends: its places in line are left, and what was granted and not fetched is given back. */
void tdi_debt_leave(void);

/* In a forked child: debts to one bucket are debts to the other, which stands in its place. */
void tdi_debt_move(const struct tundish *from, struct tundish *to);

/* In a forked child: all debts wait for tokens of the child's own. */
void tdi_debt_after_fork(void);

#endif
