/* SPDX-License-Identifier: MIT */
/* A call on its way through the gate, and what sending and receiving have in common. */
#ifndef TUNDISH_PRELOAD_ROAD_H
#define TUNDISH_PRELOAD_ROAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gate.h"
#include "toll.h"
#include "wait.h"

struct tdi_road {
    const struct tdi_call *call;
    bool waited; /* what follows was asked for */
    bool blocking;
    int type; /* SOCK_ */
    uint64_t key;
    bool owes;      /* it is paying what arrived earlier, */
    uint64_t owing; /* bytes of it */
    struct tdi_toll toll;
    struct tdi_wait wait;
};

static inline void tdi_tally_add(_Atomic(uint64_t) *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline bool tdi_road_connects(const struct tdi_call *call)
{
    return (call->kinds & TDI_CALL_CONNECT) != 0;
}

/*
 * What is only worth asking once a call has to wait. `timeout` is SO_SNDTIMEO or SO_RCVTIMEO. false if it has
 * not: the number stands for something else by now, see known.h.
 */
bool tdi_road_prepare(struct tdi_road *road, int timeout);

/* A number that was closed meanwhile, or its file, is not what the call was about. */
bool tdi_road_is_still_there(const struct tdi_road *road);

/* A dry run's share of what went through: what is there is taken, and what is not is noted. */
void tdi_road_observe(const struct tdi_toll *toll, uint64_t bytes, bool calls);

/* The walks: the result and errno are the program's. */
ssize_t tdi_road_send(struct tdi_road *road);
ssize_t tdi_road_receive(struct tdi_road *road);

/* The thread leaves in the middle of paying what arrived earlier: the rest stays the socket's debt. */
void tdi_road_leave_debt(struct tdi_road *road);

#endif
