/* SPDX-License-Identifier: MIT */
/*
 * A simulator of the line: waiters of the core on one bucket, a clock that is a number, and sleepers who wake
 * as late as the test says. Each waiter's step runs on a stack of its own, so that it can be interrupted at
 * every crash point, for a while (others run meanwhile, and it goes on with an old time) or for ever (killed).
 * Checked all along: who draws leaves enough for those in line before it, no token comes from nowhere, the
 * alarm of the first in line is not later than its due time.
 */
#ifndef TUNDISH_TESTS_LINE_SIM_H
#define TUNDISH_TESTS_LINE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/queue.h"
#include "plat/crash.h"
#include "unit/unit.h"

#define SIM_MOST 100 /* waiters */
#define SIM_NEVER UINT64_MAX
#define MILLISECOND_US UINT64_C(1000)

enum sim_state {
    SIM_AWAY,    /* not in line; comes (again) at at_us, or never */
    SIM_ASLEEP,  /* steps at at_us */
    SIM_PAUSED,  /* within a step; goes on at at_us */
    SIM_STOPPED, /* as by SIGSTOP: alive, but does nothing */
    SIM_DEAD,
    SIM_DONE,
    SIM_TIMED_OUT,
    SIM_CANCELLED,
};

struct sim_waiter {
    struct tdi_queue_waiter line;
    enum sim_state state;
    uint64_t at_us;
    bool on_door;
    bool in_step; /* its stack has a step on it */
    bool deaf;
    uint32_t owner;
    uint32_t n;
    uint32_t most_n;      /* of a loop: each time a random need from n to this */
    uint64_t again_us;    /* loops: comes again so long after each grant; SIM_NEVER: does not */
    uint64_t patience_us; /* timeout of each acquire, SIM_NEVER: none */
    uint64_t deadline_us;
    uint64_t began_us;
    uint64_t ended_us;
    uint64_t step_now_us; /* the time that the running step was given */
    enum tdi_queue_result result;
    int die_at;     /* crash point, -1: none */
    unsigned order; /* it was the how manieth to be granted, from 1 */
    uint32_t grants;
    uint32_t timeouts;
    uint32_t sleeps;
    uint32_t steps;
    uint32_t lost_places;
    void *stack;
    struct sim_context *context;
};

struct sim {
    struct tdi_layout *file;
    struct tdi_config config;
    uint64_t start_us;
    uint64_t now_us;
    uint32_t initial;
    uint64_t late_us;      /* sleepers wake up to so much too late */
    bool always_late;      /* exactly so much */
    unsigned pause_one_in; /* at each crash point; 0: never */
    uint64_t pause_us;     /* up to */
    bool blind;            /* the kernel cannot be asked who is dead */
    bool unchecked;        /* the head's alarm, where the test meddles */
    uint64_t granted;      /* net of what was given back */
    uint64_t released;     /* from outside: minted as far as the books go */
    uint64_t clamped;      /* exact if nobody pauses or dies in a step */
    uint64_t evictions;
    uint64_t wrong_evictions;
    uint64_t bells;
    uint64_t steps;
    uint64_t agains;
    uint64_t asked;
    uint64_t points[TDI_CRASH_POINTS];
    unsigned grants;
    unsigned count;
    struct sim_waiter waiter[SIM_MOST];
    int running; /* the waiter whose step runs, -1: none */
};

/* The one simulator of this process, anew: a bucket that had `tokens` tokens at start_us. */
struct sim *sim_start(const struct tdi_config *config, uint32_t tokens, uint64_t start_us);

/* A waiter that comes now, once; steps at once. Its number. */
unsigned sim_begin(struct sim *sim, uint32_t n, uint64_t patience_us);

/* The same, for an event loop: hears no bell. */
unsigned sim_begin_deaf(struct sim *sim, uint32_t n, uint64_t patience_us);

/* One that comes now and again and again. */
unsigned sim_loop(struct sim *sim, uint32_t n, uint64_t again_us);

/* A waiter that is not there yet: the caller fills it in and sets at_us. */
struct sim_waiter *sim_add(struct sim *sim, uint32_t n);

/* Everything that happens until then. */
void sim_run(struct sim *sim, uint64_t until_us);

/* The same, for a while. */
void sim_pass(struct sim *sim, uint64_t span_us);

/* A caller that does not wait, as tundish_try_acquire does it. */
int sim_try(struct sim *sim, uint32_t n);

void sim_release(struct sim *sim, uint32_t n);
void sim_cancel(struct sim *sim, unsigned i);
void sim_kill(struct sim *sim, unsigned i);
void sim_stop(struct sim *sim, unsigned i);
void sim_continue(struct sim *sim, unsigned i);

/* Somebody takes a live one for dead. */
void sim_evict(struct sim *sim, unsigned i);

/* Loops end after what they are at, pauses too. */
void sim_wind_down(struct sim *sim);

/* Waiters that are in line or on their way there, but for the dead and the stopped. */
unsigned sim_pending(const struct sim *sim);

uint64_t sim_tokens(const struct sim *sim);    /* in the word */
uint64_t sim_generated(const struct sim *sim); /* initial and due until the word's stamp */
bool sim_is_queued(const struct sim *sim);     /* Q */
uint32_t sim_waiting(const struct sim *sim);   /* census */
double sim_fairness(const struct sim *sim);    /* Jain's index of the grants of all loops */

/* Writes a slot as somebody long dead left it. */
void sim_write_ghost(struct sim *sim, uint32_t slot, uint32_t owner, uint32_t ticket, uint32_t need,
                     uint64_t wake_us, bool awake);

#endif
