/* SPDX-License-Identifier: MIT */
/*
 * The only waiting loop of the library. The core says what to do next; here is what needs the kernel:
 * sleeping on the slot's bell until the due time, waking others, asking about suspects.
 *
 * Cancellation is off but around the one system call of the sleep, where it is asynchronous.
 */
#include "lib/line.h"

#include <errno.h>
#include <pthread.h>

#include "core/bucket.h"
#include "core/lease.h"
#include "lib/acquire.h"
#include "lib/cancel.h"
#include "lib/repair.h"
#include "plat/futex.h"
#include "plat/probe.h"
#include "plat/proc.h"

#define SLACK_NS 1UL
#define NS_PER_DOOR (TDI_QUEUE_DOOR_US * TDI_NS_PER_US)
#define NS_PER_DEAF_LOOK 50000000UL /* nobody can tell it that the rate was changed: it sees by itself */

static uint32_t own_number(struct tundish *bucket)
{
    tdi_handle_enter(bucket);
    return atomic_load_explicit(&bucket->here->number, memory_order_relaxed);
}

void tdi_line_begin(struct tdi_line *line, struct tundish *bucket, uint32_t n, bool deaf,
                    enum tdi_layout_kind kind)
{
    *line = (struct tdi_line){
        .bucket = bucket, .n = n, .kind = kind, .began_ns = tdi_clock_now_ns(), .deaf = deaf};
    tdi_queue_init(&line->waiter, own_number(bucket), n, deaf);
    tdi_probe_wait_start(bucket, n);
}

void tdi_line_count(struct tdi_line *line, int error)
{
    line->counted = true;
    tdi_acquire_count(line->bucket, line->kind, line->n, error, line->began_ns);
}

/* It is out of the line, which is said once: a wait that is cancelled may be ended by its owner again. */
static int leave(struct tdi_line *line, int error)
{
    if (!line->left)
        tdi_probe_wait_end(line->bucket, line->n, error, tdi_clock_now_ns() - line->began_ns);
    line->left = true;
    return error;
}

void tdi_line_heed_signals(struct tdi_line *line, const sigset_t *mask)
{
    line->mask = mask;
    line->deaf = line->waiter.deaf = true;
}

/* In a forked child the parent's place in line, and what the parent drew, are not ours. */
static void start_over_if_forked(struct tdi_line *line)
{
    uint32_t number = own_number(line->bucket);
    if (tdi_likely(line->waiter.owner == number))
        return;
    tdi_queue_init(&line->waiter, number, line->n, line->deaf);
    line->forked = true;
}

static uint64_t deadline_us(const struct tundish *bucket, uint64_t deadline_ns)
{
    if (deadline_ns == TUNDISH_NO_DEADLINE)
        return UINT64_MAX;
    uint64_t rounded_up =
        deadline_ns > UINT64_MAX - TDI_NS_PER_US ? deadline_ns : deadline_ns + TDI_NS_PER_US - 1;
    return tdi_handle_us(bucket, rounded_up);
}

/* All slots are taken: those of the dead are freed, and whoever delays nobody passes without one. */
static enum tdi_queue_result find_room(struct tdi_line *line, uint64_t now_us)
{
    struct tundish *bucket = line->bucket;
    struct tdi_queue_waiter *waiter = &line->waiter;
    tdi_repair_slots(bucket, &line->claims, &waiter->ring);
    if (tdi_bucket_try(bucket->file, now_us, waiter->need) != 0)
        return TDI_QUEUE_FULL;
    waiter->drawn += waiter->need;
    waiter->need = 0;
    return TDI_QUEUE_GRANTED;
}

static void give_back(struct tdi_line *line)
{
    struct tundish *bucket = line->bucket;
    start_over_if_forked(line);
    tdi_queue_cancel(bucket->file, &line->waiter, tdi_handle_now_us(bucket));
    tdi_repair_wake(bucket, &line->waiter.ring);
}

/* Steps until there is nothing to do but sleep. */
static enum tdi_queue_result step(struct tdi_line *line, uint64_t deadline_ns)
{
    struct tundish *bucket = line->bucket;
    struct tdi_queue_waiter *waiter = &line->waiter;
    start_over_if_forked(line);
    for (;;) {
        uint64_t now_ns = tdi_clock_now_ns();
        uint64_t now_us = tdi_handle_us(bucket, now_ns);
        enum tdi_queue_result result =
            tdi_queue_step(bucket->file, waiter, now_us, deadline_us(bucket, deadline_ns));
        tdi_repair_wake(bucket, &waiter->ring);
        if (result == TDI_QUEUE_FULL)
            result = find_room(line, now_us);
        if (tdi_unlikely(waiter->owner != own_number(bucket))) { /* a handler forked in the middle of it */
            start_over_if_forked(line);
            continue;
        }
        if (result == TDI_QUEUE_GRANTED || result == TDI_QUEUE_TIMED_OUT)
            return result;
        if (now_ns >= deadline_ns) { /* also where the file makes nonsense of its own time */
            give_back(line);
            return TDI_QUEUE_TIMED_OUT;
        }
        if (result == TDI_QUEUE_SUSPECT && !tdi_repair_suspect(bucket, &waiter->suspect, &waiter->ring))
            tdi_queue_vouch(bucket->file, waiter->suspect.slot, now_us);
        if (result == TDI_QUEUE_FULL || result == TDI_QUEUE_SLEEP)
            return result;
        tdi_atom_pause();
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What they have held back may be what is missing here. Whoever sleeps looks again once a second. */
static void forget_dead_lessees(struct tundish *bucket)
{
    struct tdi_identity self;
    if (tdi_likely(!tdi_lease_any(bucket->file)))
        return;
    tdi_handle_identify(bucket, &self);
    tdi_repair_lessees(bucket, &self);
}

int tdi_line_poll(struct tdi_line *line, uint64_t deadline_ns)
{
    enum tdi_queue_result result = step(line, deadline_ns);
    if (result == TDI_QUEUE_GRANTED)
        return leave(line, 0);
    if (result == TDI_QUEUE_TIMED_OUT)
        return leave(line, -ETIMEDOUT);
    forget_dead_lessees(line->bucket);
    uint64_t now_ns = tdi_clock_now_ns();
    uint64_t most_ns = now_ns + NS_PER_DOOR;
    line->wake_ns = deadline_ns;
    if (result == TDI_QUEUE_SLEEP) {
        most_ns = now_ns + (line->deaf ? NS_PER_DEAF_LOOK : TDI_QUEUE_LOOK_US * TDI_NS_PER_US);
        line->wake_ns = tdi_handle_ns(line->bucket, line->waiter.wake_us);
    }
    line->wake_ns = earlier(line->wake_ns, most_ns);
    return -EINPROGRESS;
}

/* What to sleep on: the bell, or the door where there was no slot. */
static _Atomic(uint32_t) *find_bell(const struct tdi_line *line, uint32_t *expected)
{
    struct tdi_layout *file = line->bucket->file;
    *expected = 1;
    if (line->waiter.ticket == 0) {
        tdi_queue_shut_door(file);
        return &file->line.door;
    }
    *expected = line->waiter.bell;
    return &file->line.bell[line->waiter.slot];
}

/* What a sleep changes in its thread. */
struct sleep {
    struct tdi_line *line;
    int cancel_type;
    unsigned long slack_ns;
};

/* The thread was cancelled, or a signal handler jumped out of the sleep. */
static void abandon(void *argument)
{
    struct sleep *sleep = argument;
    int unused;
    pthread_setcanceltype(sleep->cancel_type, &unused);
    tdi_futex_set_slack(sleep->slack_ns);
    tdi_line_end(sleep->line);
    tdi_line_count(sleep->line, -ECANCELED);
}

/* Opens the window for cancellation around the sleep. */
static int sleep_cancellable(struct tdi_line *line, int cancel_state)
{
    struct sleep sleep = {.line = line, .slack_ns = tdi_futex_slack()};
    struct timespec until = line->mask ? tdi_futex_span(line->wake_ns) : tdi_futex_until(line->wake_ns);
    uint32_t expected;
    _Atomic(uint32_t) *bell = find_bell(line, &expected);
    int unused, error;
    bool lax = sleep.slack_ns > SLACK_NS;
    if (lax)
        tdi_futex_set_slack(SLACK_NS);
    /* In this order: glibc's setcancelstate forgets PTHREAD_CANCELED where the type is asynchronous already. */
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &sleep.cancel_type);
    tdi_cleanup_push(abandon, &sleep);
    pthread_setcancelstate(cancel_state, &unused);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &unused);
    error =
        line->mask ? tdi_futex_sleep_with_mask(&until, line->mask) : tdi_futex_wait(bell, expected, &until);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    tdi_cleanup_pop();
    pthread_setcanceltype(sleep.cancel_type, &unused);
    if (lax)
        tdi_futex_set_slack(sleep.slack_ns);
    return error;
}

/* A signal handler jumped out of a wait that was not asleep: the thread is to stay cancellable. */
static void restore_cancel_state(void *argument)
{
    tdi_cancel_restore(*(const int *)argument);
}

int tdi_line_wait(struct tdi_line *line, uint64_t deadline_ns)
{
    int error;
    int state = tdi_cancel_disable();
    tdi_cleanup_push(restore_cancel_state, &state);
    do {
        error = tdi_line_poll(line, deadline_ns);
        if (error == -EINPROGRESS && sleep_cancellable(line, state) == -EINTR)
            error = -EINTR;
    } while (error == -EINPROGRESS);
    tdi_cleanup_pop();
    tdi_cancel_restore(state);
    return error;
}

void tdi_line_end(struct tdi_line *line)
{
    give_back(line);
    leave(line, -ECANCELED);
}
