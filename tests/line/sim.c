/* SPDX-License-Identifier: MIT */
/* Events in order of their times, ties in order of tickets; what a sleeper hears it hears as late as it wakes. */
#include "line/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tundish/tundish.h>
#include <ucontext.h>

#include "core/bucket.h"
#include "core/slots.h"

#define STACK_SIZE ((size_t)64 << 10)
#define PRECISION_US 20        /* an alarm that is late by less is left alone */
#define STEPS_AT_ONE_TIME 4000 /* more is a loop */

struct sim_context {
    ucontext_t own;
};

static struct sim the_sim = {.running = -1};
static ucontext_t scheduler;

/* The other side of plat/crash.h. */
static void check_draw(struct sim *sim, const struct sim_waiter *waiter);

void tdi_crash_here(enum tdi_crash_point point)
{
    struct sim *sim = &the_sim;
    if (sim->running < 0)
        return;
    struct sim_waiter *waiter = &sim->waiter[sim->running];
    sim->points[point]++;
    if (point == TDI_CRASH_DRAWN)
        check_draw(sim, waiter);
    if (waiter->die_at == (int)point) {
        waiter->state = SIM_DEAD;
    } else if (sim->pause_one_in && unit_chance(sim->pause_one_in)) {
        waiter->state = SIM_PAUSED;
        waiter->at_us = sim->now_us + unit_between(0, sim->pause_us);
    } else {
        return;
    }
    if (waiter->context)
        swapcontext(&waiter->context->own, &scheduler);
}

static uint64_t lateness(const struct sim *sim)
{
    if (sim->always_late)
        return sim->late_us;
    return sim->late_us ? unit_between(0, sim->late_us) : 0;
}

uint64_t sim_tokens(const struct sim *sim)
{
    return atomic_load(&sim->file->word) & TDI_WORD_TOKENS;
}

bool sim_is_queued(const struct sim *sim)
{
    return atomic_load(&sim->file->word) & TDI_WORD_QUEUED;
}

uint64_t sim_generated(const struct sim *sim)
{
    return sim->initial + sim->released +
           tdi_rate_due(&sim->config, sim->start_us, tdi_word_look(sim->file).last_us);
}

uint32_t sim_waiting(const struct sim *sim)
{
    struct tdi_queue_census census;
    tdi_queue_count(sim->file, sim->now_us, &census);
    return census.waiting;
}

double sim_fairness(const struct sim *sim)
{
    double sum = 0, squares = 0;
    unsigned loops = 0;
    for (unsigned i = 0; i < sim->count; i++) {
        const struct sim_waiter *waiter = &sim->waiter[i];
        if (waiter->again_us == SIM_NEVER)
            continue;
        loops++;
        sum += waiter->grants;
        squares += (double)waiter->grants * waiter->grants;
    }
    return squares > 0 ? sum * sum / (loops * squares) : 0;
}

static struct sim_waiter *in_slot(struct sim *sim, uint32_t slot)
{
    uint64_t id = tdi_queue_holder(sim->file, slot);
    for (unsigned i = 0; i < sim->count && id; i++) {
        const struct tdi_queue_waiter *line = &sim->waiter[i].line;
        if (line->ticket != 0 && line->slot == slot && tdi_slot_id(line->owner, line->ticket) == id)
            return &sim->waiter[i];
    }
    return NULL;
}

/*
 * The bucket still covers all who stand before. Those count that have announced themselves: before that an
 * arrival has not happened as far as the order goes.
 */
static void check_draw(struct sim *sim, const struct sim_waiter *drawer)
{
    uint64_t ahead = 0;
    struct tdi_slot slot;
    if (sim->config.flags & TUNDISH_UNFAIR)
        return;
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        if (!tdi_slots_read(sim->file, i, &slot))
            continue;
        const struct sim_waiter *waiter = in_slot(sim, i);
        if (waiter == drawer || (waiter && !waiter->line.announced))
            continue;
        if (tdi_slot_is_before(tdi_slot_ticket(slot.id), drawer->line.ticket))
            ahead += tdi_slot_need(slot.request);
    }
    unit_expect(sim_tokens(sim) >= ahead,
                "ticket %" PRIu32 " drew and left %" PRIu64 " tokens for those before, who need %" PRIu64,
                drawer->line.ticket, sim_tokens(sim), ahead);
}

/* The first in line is not asleep for longer than until it is due, but for bells it is about to hear. */
static void check_head(struct sim *sim)
{
    const struct sim_waiter *head = NULL;
    struct tdi_slot slot, first = {0, 0};
    for (unsigned i = 0; i < sim->count; i++)
        if (sim->waiter[i].state == SIM_PAUSED || sim->waiter[i].state == SIM_DEAD)
            return;
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        if (!tdi_slots_read(sim->file, i, &slot))
            continue;
        if (first.id && !tdi_slot_is_before(tdi_slot_ticket(slot.id), tdi_slot_ticket(first.id)))
            continue;
        first = slot;
        head = in_slot(sim, i);
    }
    if (first.id == 0)
        return;
    unit_expect(sim_is_queued(sim) || (head && !head->line.announced), "somebody is in line and Q is clear");
    if (!head || head->state != SIM_ASLEEP || head->deaf || tdi_slot_is_awake(first.request))
        return;
    uint32_t target = head->line.need < sim->config.capacity ? head->line.need : sim->config.capacity;
    if (sim->config.flags & TUNDISH_UNFAIR)
        target = 1;
    struct tdi_word word = tdi_word_look(sim->file);
    uint32_t tokens = tdi_word_refilled(&word, &sim->config, sim->now_us);
    uint64_t due_us = sim->now_us;
    if (tokens < target)
        due_us = tdi_rate_when(&sim->config, tdi_word_later(word.last_us, sim->now_us), target - tokens);
    unit_expect(head->at_us <= due_us + PRECISION_US + sim->late_us,
                "the first in line wakes %" PRIu64 " us after it is due", head->at_us - due_us);
}

/* The books of one act that took `taken` net: what is missing was clamped, and only at a full bucket. */
struct before {
    uint64_t stamp_us;
    uint64_t tokens;
};

static struct before look_before(const struct sim *sim)
{
    return (struct before){tdi_word_look(sim->file).last_us, sim_tokens(sim)};
}

static void check_books(struct sim *sim, const struct before *before, int64_t taken)
{
    uint64_t stamp_us = tdi_word_look(sim->file).last_us;
    int64_t due = (int64_t)tdi_rate_due(&sim->config, before->stamp_us, stamp_us);
    int64_t clamped = (int64_t)before->tokens + due - taken - (int64_t)sim_tokens(sim);
    unit_expect(stamp_us >= before->stamp_us, "the word's time went back");
    unit_expect(clamped >= 0, "%" PRId64 " tokens came from nowhere", -clamped);
    unit_expect(clamped == 0 || (int64_t)sim_tokens(sim) + (taken > 0 ? taken : 0) >= sim->config.capacity,
                "%" PRId64 " tokens were lost and the bucket is not full", clamped);
    unit_expect(sim_tokens(sim) <= (uint64_t)sim->config.capacity + sim->config.extra,
                "the bucket is overfull");
    sim->clamped += (uint64_t)clamped;
}

static void hear(struct sim *sim, struct tdi_queue_ring *ring)
{
    for (uint32_t slot = 0; slot < TDI_LAYOUT_SLOTS; slot++) {
        if (!(ring->slots >> slot & 1))
            continue;
        sim->bells++;
        for (unsigned i = 0; i < sim->count; i++) {
            struct sim_waiter *waiter = &sim->waiter[i];
            if (waiter->state != SIM_ASLEEP || waiter->on_door || waiter->deaf || waiter->line.slot != slot)
                continue;
            uint64_t at_us = sim->now_us + lateness(sim);
            waiter->at_us = at_us < waiter->at_us ? at_us : waiter->at_us;
        }
    }
    for (unsigned i = 0; i < sim->count && ring->door; i++) {
        if (sim->waiter[i].state == SIM_ASLEEP && sim->waiter[i].on_door && !sim->waiter[i].deaf) {
            sim->waiter[i].at_us = sim->now_us + lateness(sim);
            ring->door = false;
        }
    }
    *ring = (struct tdi_queue_ring){0, false};
}

static bool is_owner_dead(const struct sim *sim, uint32_t owner)
{
    for (unsigned i = 0; i < sim->count; i++)
        if (sim->waiter[i].owner == owner && sim->waiter[i].state != SIM_DEAD)
            return false;
    return true;
}

static void evict_slot(struct sim *sim, uint32_t slot, uint64_t id, struct tdi_queue_ring *ring)
{
    struct sim_waiter *waiter = in_slot(sim, slot);
    if (tdi_queue_holder(sim->file, slot) == id) {
        sim->evictions++;
        if (waiter && waiter->state != SIM_DEAD) {
            sim->wrong_evictions += waiter->state != SIM_STOPPED;
            waiter->lost_places++;
        }
    }
    tdi_queue_evict(sim->file, slot, id, sim->now_us, ring);
}

static void evict_owner(struct sim *sim, uint32_t owner, struct tdi_queue_ring *ring)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        uint64_t id = tdi_queue_holder(sim->file, i);
        if (id != 0 && tdi_slot_owner(id) == owner)
            evict_slot(sim, i, id, ring);
    }
}

/* As the library does it; the kernel always knows, or never. */
static bool is_repaired(struct sim *sim, const struct tdi_queue_suspect *suspect, struct tdi_queue_ring *ring)
{
    sim->asked++;
    if (!sim->blind && is_owner_dead(sim, tdi_slot_owner(suspect->id)))
        evict_owner(sim, tdi_slot_owner(suspect->id), ring);
    else if (suspect->overdue_hard)
        evict_slot(sim, suspect->slot, suspect->id, ring);
    else
        return false;
    hear(sim, ring);
    return true;
}

static void look_for_room(struct sim *sim, struct sim_waiter *waiter)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_SLOTS; i++) {
        uint64_t id;
        enum tdi_queue_doubt doubt = tdi_queue_doubt(sim->file, i, sim->now_us, &id);
        if (doubt == TDI_QUEUE_FINE)
            continue;
        if (!sim->blind && is_owner_dead(sim, tdi_slot_owner(id)))
            evict_owner(sim, tdi_slot_owner(id), &waiter->line.ring);
        else if (doubt == TDI_QUEUE_TOO_LATE)
            evict_slot(sim, i, id, &waiter->line.ring);
    }
    hear(sim, &waiter->line.ring);
}

static void run_step(void)
{
    struct sim *sim = &the_sim;
    struct sim_waiter *waiter = &sim->waiter[sim->running];
    waiter->result = tdi_queue_step(sim->file, &waiter->line, waiter->step_now_us, waiter->deadline_us);
    waiter->in_step = false;
}

static void enter_step(struct sim *sim, struct sim_waiter *waiter)
{
    waiter->in_step = true;
    waiter->step_now_us = sim->now_us;
    if (!sim->pause_one_in && waiter->die_at < 0) {
        run_step();
        return;
    }
    if (!waiter->context) {
        waiter->context = malloc(sizeof *waiter->context);
        waiter->stack = malloc(STACK_SIZE);
        kit_expect(waiter->context && waiter->stack, "no memory");
    }
    getcontext(&waiter->context->own);
    waiter->context->own.uc_stack.ss_sp = waiter->stack;
    waiter->context->own.uc_stack.ss_size = STACK_SIZE;
    waiter->context->own.uc_link = &scheduler;
    makecontext(&waiter->context->own, run_step, 0);
    swapcontext(&scheduler, &waiter->context->own);
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void come_again(struct sim *sim, struct sim_waiter *waiter, enum sim_state otherwise)
{
    waiter->ended_us = sim->now_us;
    waiter->state = otherwise;
    waiter->at_us = SIM_NEVER;
    if (waiter->again_us == SIM_NEVER)
        return;
    waiter->state = SIM_AWAY;
    waiter->at_us = add(sim->now_us, waiter->again_us);
}

static void fall_asleep(struct sim *sim, struct sim_waiter *waiter)
{
    waiter->state = SIM_ASLEEP;
    waiter->on_door = false;
    waiter->sleeps++;
    unit_expect(waiter->line.wake_us > waiter->step_now_us, "an alarm that is not in the future");
    unit_expect(waiter->line.wake_us <= waiter->deadline_us || waiter->deadline_us <= waiter->step_now_us,
                "an alarm past the deadline");
    unit_expect(waiter->line.wake_us <= waiter->step_now_us + TDI_QUEUE_LOOK_US, "an alarm too far away");
    waiter->at_us = waiter->line.wake_us + lateness(sim);
    bool rung = atomic_load(&sim->file->line.bell[waiter->line.slot]) != waiter->line.bell;
    if (rung && !waiter->deaf)
        waiter->at_us = sim->now_us;
    if (waiter->at_us < sim->now_us)
        waiter->at_us = sim->now_us;
}

static void after_step(struct sim *sim, struct sim_waiter *waiter)
{
    hear(sim, &waiter->line.ring);
    waiter->state = SIM_ASLEEP;
    waiter->at_us = sim->now_us;
    switch (waiter->result) {
    case TDI_QUEUE_GRANTED:
        unit_expect(waiter->line.need == 0 && waiter->line.drawn == waiter->n,
                    "granted %" PRIu32 " of %" PRIu32, waiter->line.drawn, waiter->n);
        waiter->grants++;
        waiter->order = ++sim->grants;
        sim->granted += waiter->n;
        waiter->line.drawn = 0; /* it is the user's now */
        come_again(sim, waiter, SIM_DONE);
        break;
    case TDI_QUEUE_TIMED_OUT:
        unit_expect(waiter->line.drawn == 0, "timed out with %" PRIu32 " tokens in hand", waiter->line.drawn);
        unit_expect(sim->now_us >= waiter->deadline_us, "timed out before its time");
        waiter->timeouts++;
        come_again(sim, waiter, SIM_TIMED_OUT);
        break;
    case TDI_QUEUE_SLEEP:
        fall_asleep(sim, waiter);
        break;
    case TDI_QUEUE_SUSPECT:
        if (!is_repaired(sim, &waiter->line.suspect, &waiter->line.ring))
            tdi_queue_vouch(sim->file, waiter->line.suspect.slot, waiter->step_now_us);
        break;
    case TDI_QUEUE_FULL:
        look_for_room(sim, waiter);
        waiter->on_door = true;
        tdi_queue_shut_door(sim->file);
        waiter->at_us = sim->now_us + TDI_QUEUE_DOOR_US;
        if (sim->now_us >= waiter->deadline_us) {
            tdi_queue_cancel(sim->file, &waiter->line, sim->now_us);
            hear(sim, &waiter->line.ring);
            waiter->timeouts++;
            come_again(sim, waiter, SIM_TIMED_OUT);
        }
        break;
    case TDI_QUEUE_AGAIN:
        sim->agains++;
        waiter->at_us = sim->now_us + 1;
        break;
    }
}

static bool is_exact(const struct sim *sim)
{
    if (sim->pause_one_in)
        return false;
    for (unsigned i = 0; i < sim->count; i++)
        if (sim->waiter[i].in_step || sim->waiter[i].die_at >= 0)
            return false;
    return true;
}

static void begin_acquire(struct sim *sim, struct sim_waiter *waiter)
{
    if (waiter->most_n)
        waiter->n = (uint32_t)unit_between(1, waiter->most_n);
    tdi_queue_init(&waiter->line, waiter->owner, waiter->n, waiter->deaf);
    waiter->began_us = sim->now_us;
    waiter->deadline_us = add(sim->now_us, waiter->patience_us);
}

static void act(struct sim *sim, unsigned i)
{
    struct sim_waiter *waiter = &sim->waiter[i];
    struct before before = look_before(sim);
    uint64_t had = waiter->line.drawn, had_granted = sim->granted;
    bool exact = is_exact(sim);
    sim->running = (int)i;
    if (waiter->state == SIM_PAUSED) {
        waiter->state = SIM_ASLEEP;
        swapcontext(&scheduler, &waiter->context->own);
    } else {
        if (waiter->state == SIM_AWAY) {
            begin_acquire(sim, waiter);
            had = 0;
        }
        waiter->state = SIM_ASLEEP;
        waiter->steps++;
        sim->steps++;
        enter_step(sim, waiter);
    }
    sim->running = -1;
    if (waiter->state != SIM_ASLEEP)
        return; /* paused or dead */
    after_step(sim, waiter);
    if (exact)
        check_books(sim, &before,
                    (int64_t)(sim->granted - had_granted) + (int64_t)waiter->line.drawn - (int64_t)had);
    if (!sim->unchecked)
        check_head(sim);
}

static bool has_event(const struct sim_waiter *waiter)
{
    return waiter->at_us != SIM_NEVER &&
           (waiter->state == SIM_AWAY || waiter->state == SIM_ASLEEP || waiter->state == SIM_PAUSED);
}

/* Who stands in line comes before who does not, and then by ticket. */
static bool is_earlier(const struct sim_waiter *a, const struct sim_waiter *b)
{
    if (a->at_us != b->at_us)
        return a->at_us < b->at_us;
    if (a->line.ticket == 0 || b->line.ticket == 0)
        return a->line.ticket != 0 && b->line.ticket == 0;
    return tdi_slot_is_before(a->line.ticket, b->line.ticket);
}

void sim_run(struct sim *sim, uint64_t until_us)
{
    unsigned at_once = 0;
    for (;;) {
        int next = -1;
        for (unsigned i = 0; i < sim->count; i++)
            if (has_event(&sim->waiter[i]) && (next < 0 || is_earlier(&sim->waiter[i], &sim->waiter[next])))
                next = (int)i;
        if (next < 0 || sim->waiter[next].at_us > until_us)
            break;
        if (sim->waiter[next].at_us > sim->now_us) {
            sim->now_us = sim->waiter[next].at_us;
            at_once = 0;
        }
        unit_expect(at_once++ < STEPS_AT_ONE_TIME, "waiter %d goes round in circles", next);
        act(sim, (unsigned)next);
    }
    sim->now_us = until_us > sim->now_us ? until_us : sim->now_us;
}

void sim_pass(struct sim *sim, uint64_t span_us)
{
    sim_run(sim, sim->now_us + span_us);
}

struct sim *sim_start(const struct tdi_config *config, uint32_t tokens, uint64_t start_us)
{
    struct sim *sim = &the_sim;
    for (unsigned i = 0; i < SIM_MOST; i++) {
        free(sim->waiter[i].stack);
        free(sim->waiter[i].context);
    }
    *sim = (struct sim){.file = unit_file(config, 0), .running = -1};
    sim->now_us = sim->start_us = start_us;
    sim->initial = tokens;
    sim->file->head.hint_us = start_us;
    atomic_store(&sim->file->word, tdi_word_pack(start_us & UINT32_MAX, 0, tokens));
    tdi_config_read(sim->file, &sim->config);
    return sim;
}

struct sim_waiter *sim_add(struct sim *sim, uint32_t n)
{
    kit_expect(sim->count < SIM_MOST, "too many waiters");
    struct sim_waiter *waiter = &sim->waiter[sim->count];
    *waiter = (struct sim_waiter){.n = n,
                                  .owner = sim->count + 1,
                                  .again_us = SIM_NEVER,
                                  .patience_us = SIM_NEVER,
                                  .at_us = SIM_NEVER,
                                  .die_at = -1};
    sim->count++;
    return waiter;
}

static unsigned come_now(struct sim *sim, struct sim_waiter *waiter)
{
    waiter->at_us = sim->now_us;
    sim_run(sim, sim->now_us);
    if (waiter->result == TDI_QUEUE_AGAIN && waiter->at_us == sim->now_us + 1)
        sim_pass(sim, 1); /* the word is of this very microsecond */
    return (unsigned)(waiter - sim->waiter);
}

unsigned sim_begin(struct sim *sim, uint32_t n, uint64_t patience_us)
{
    struct sim_waiter *waiter = sim_add(sim, n);
    waiter->patience_us = patience_us;
    return come_now(sim, waiter);
}

unsigned sim_begin_deaf(struct sim *sim, uint32_t n, uint64_t patience_us)
{
    struct sim_waiter *waiter = sim_add(sim, n);
    waiter->patience_us = patience_us;
    waiter->deaf = true;
    return come_now(sim, waiter);
}

unsigned sim_loop(struct sim *sim, uint32_t n, uint64_t again_us)
{
    struct sim_waiter *waiter = sim_add(sim, n);
    waiter->again_us = again_us;
    waiter->at_us = sim->now_us;
    return (unsigned)(waiter - sim->waiter);
}

static bool is_line_repaired(struct sim *sim)
{
    struct tdi_queue_suspect suspect;
    struct tdi_queue_ring ring = {0, false};
    bool any = false;
    while (tdi_queue_find_suspect(sim->file, sim->now_us, &suspect)) {
        if (is_repaired(sim, &suspect, &ring))
            any = true;
        else
            tdi_queue_vouch(sim->file, suspect.slot, sim->now_us);
    }
    return any;
}

int sim_try(struct sim *sim, uint32_t n)
{
    struct before before = look_before(sim);
    int error = tdi_bucket_try(sim->file, sim->now_us, n);
    while (error == -EAGAIN && is_line_repaired(sim))
        error = tdi_bucket_try(sim->file, sim->now_us, n);
    if (error == 0)
        sim->granted += n;
    if (is_exact(sim))
        check_books(sim, &before, error == 0 ? n : 0);
    return error;
}

void sim_release(struct sim *sim, uint32_t n)
{
    struct tdi_queue_ring ring = {0, false};
    struct before before = look_before(sim);
    tdi_bucket_refund(sim->file, sim->now_us, n);
    tdi_queue_ring_front(sim->file, sim->now_us, &ring);
    hear(sim, &ring);
    sim->released += n;
    if (is_exact(sim))
        check_books(sim, &before, -(int64_t)n);
}

void sim_cancel(struct sim *sim, unsigned i)
{
    struct sim_waiter *waiter = &sim->waiter[i];
    struct before before = look_before(sim);
    int64_t drawn = waiter->line.drawn;
    bool exact = is_exact(sim);
    kit_expect(!waiter->in_step, "cancelled within a step");
    tdi_queue_cancel(sim->file, &waiter->line, sim->now_us);
    hear(sim, &waiter->line.ring);
    waiter->state = SIM_CANCELLED;
    waiter->at_us = SIM_NEVER;
    waiter->on_door = false;
    if (exact)
        check_books(sim, &before, -drawn);
    if (!sim->unchecked)
        check_head(sim);
}

void sim_kill(struct sim *sim, unsigned i)
{
    sim->waiter[i].state = SIM_DEAD;
    sim->waiter[i].at_us = SIM_NEVER;
}

void sim_stop(struct sim *sim, unsigned i)
{
    if (sim->waiter[i].state == SIM_ASLEEP)
        sim->waiter[i].state = SIM_STOPPED;
}

void sim_continue(struct sim *sim, unsigned i)
{
    if (sim->waiter[i].state != SIM_STOPPED)
        return;
    sim->waiter[i].state = SIM_ASLEEP;
    if (sim->waiter[i].at_us < sim->now_us)
        sim->waiter[i].at_us = sim->now_us;
}

void sim_evict(struct sim *sim, unsigned i)
{
    struct tdi_queue_ring ring = {0, false};
    const struct tdi_queue_waiter *line = &sim->waiter[i].line;
    evict_slot(sim, line->slot, tdi_slot_id(line->owner, line->ticket), &ring);
    hear(sim, &ring);
}

void sim_wind_down(struct sim *sim)
{
    sim->pause_us = 0;
    sim->pause_one_in = 0;
    for (unsigned i = 0; i < sim->count; i++) {
        struct sim_waiter *waiter = &sim->waiter[i];
        sim_continue(sim, i);
        waiter->again_us = SIM_NEVER;
        if (waiter->state == SIM_AWAY)
            waiter->at_us = SIM_NEVER;
    }
}

unsigned sim_pending(const struct sim *sim)
{
    unsigned pending = 0;
    for (unsigned i = 0; i < sim->count; i++)
        pending += has_event(&sim->waiter[i]);
    return pending;
}

void sim_write_ghost(struct sim *sim, uint32_t slot, uint32_t owner, uint32_t ticket, uint32_t need,
                     uint64_t wake_us, bool awake)
{
    atomic_store(&sim->file->line.request[slot], tdi_slot_request(need, false, wake_us, awake));
    atomic_store(&sim->file->line.id[slot], tdi_slot_id(owner, ticket));
}
