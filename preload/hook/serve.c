/* SPDX-License-Identifier: MIT */
/*
 * The road of a hooked call: match, cost, acquire, real call, and for a cost that is the result, charge what
 * came. Nothing is held while the real function runs, so it may throw, jump, be cancelled or never return.
 *
 * A function is not limited in what its own library does: what a library exports it often calls itself, and
 * its users would pay twice.
 *
 * Waiting is neither ended by signals nor a cancellation point: an arbitrary function is none, and its caller
 * may not be prepared for either.
 */
#include "serve.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "inside.h"
#include "lib/acquire.h"
#include "lib/cancel.h"
#include "price.h"
#include "road.h"
#include "say.h"
#include "straight.h"
#include "toll.h"
#include "wait.h"

#define STACK_BETWEEN 4096 /* of libffi's frames, at most, between the caller's and ours */
#define AT_ONCE (UINT32_C(1) << 30)

_Thread_local struct tdi_hook_mark tdi_hook_mark __attribute__((tls_model("initial-exec")));

/* Whether the place that the mark tells of still holds what it held; elsewhere than here a register does. */
static bool is_true(const struct tdi_hook_mark *mark)
{
#if defined(__x86_64__)
    return *(const void *const *)mark->stack == mark->caller;
#else
    (void)mark;
    return true;
#endif
}

/*
 * Who called. A signal handler may have made a hooked call between enter.S and here, and its mark is not
 * where ours would be: then nobody is known, which makes the call one of a stranger.
 */
static const void *caller_of(const void *frame)
{
    const struct tdi_hook_mark mark = tdi_hook_mark;
    uintptr_t above = (uintptr_t)mark.stack - (uintptr_t)frame;
    return above < STACK_BETWEEN && is_true(&mark) ? mark.caller : NULL;
}

static void call(const struct tdi_hook *hook, tdi_function *function, void *result, void **arguments)
{
    if (hook->straight)
        tdi_straight_call(function, hook->signature, result, arguments);
    else
        ffi_call((ffi_cif *)(uintptr_t)&hook->cif, function, result, arguments);
}

/* Nobody defines the function, though somebody calls it. */
static void fail(struct tdi_hook *hook, const ffi_cif *cif, void *result)
{
    if (!atomic_exchange_explicit(&hook->missed, true, memory_order_relaxed))
        tdi_say_line("hook ", hook->name, ": is called, but no library defines it: it returns 0 (ENOSYS)");
    if (cif->rtype->type != FFI_TYPE_VOID)
        memset(result, 0, cif->rtype->size > sizeof(ffi_arg) ? cif->rtype->size : sizeof(ffi_arg));
    errno = ENOSYS;
}

static void answer_nothing(void)
{
    errno = ENOSYS;
}

tdi_function *tdi_hook_pass(const struct tdi_stub_entry *entry, const void *caller)
{
    struct tdi_home room;
    tdi_hook_begin_idle(); /* a constructor that ran before ours */
    uintptr_t i = ((uintptr_t)entry - (uintptr_t)tundish_preload_hook_table) / sizeof *entry;
    if (i >= tdi_hooks) { /* of another hook library, in a list made by hand */
        struct tdi_found found = tdi_find(entry->name, NULL, caller);
        return found.function != NULL ? found.function : answer_nothing;
    }
    const struct tdi_home *home = tdi_hook_home(&tdi_hook[i], caller, &room);
    return home != NULL ? home->function : answer_nothing;
}

/* A call that does not go the short way. */
struct journey {
    struct tdi_toll toll;
    struct tdi_wait wait;
    uint64_t spent;   /* of what it costs, taken by earlier waits */
    int cancel_state; /* the thread's own */
};

static void set_out(struct journey *journey, const struct tdi_rules *rules, const struct tdi_hook *hook)
{
    struct tdi_wait *wait = &journey->wait;
    tdi_toll_of_hook(&journey->toll, rules, hook->bit, hook->spec->cost.kind == TDI_COST_TOKENS);
    tdi_wait_init(wait, &journey->toll);
    wait->refuse = journey->toll.refuse;
    wait->late_errno = ETIMEDOUT;
    uint64_t now_ns = journey->toll.max_wait_ns < UINT64_MAX ? tundish_now_ns() : 0;
    if (journey->toll.max_wait_ns < UINT64_MAX - now_ns)
        wait->deadline_ns = now_ns + journey->toll.max_wait_ns;
    journey->spent = 0;
}

/* What is held becomes part of what was spent. */
static void spend(struct journey *journey)
{
    struct tdi_wait *wait = &journey->wait;
    journey->spent += wait->held;
    wait->held = 0;
    wait->calls_paid |= wait->calls_held;
    wait->calls_held = false;
}

static void give_all_back(void *argument)
{
    struct journey *journey = argument;
    struct tdi_wait *wait = &journey->wait;
    tdi_wait_give_back(wait, wait->held, true);
    for (uint64_t n; journey->spent > 0; journey->spent -= n) {
        n = journey->spent < AT_ONCE ? journey->spent : AT_ONCE;
        wait->held = n;
        tdi_wait_give_back(wait, n, false);
    }
    tdi_step_off();
    tdi_cancel_restore(journey->cancel_state);
}

/* Takes the price of the call from all buckets, in as many parts as they need. 0 or an errno, nothing held. */
static int acquire(struct journey *journey, uint64_t price)
{
    int error = 0;
    journey->cancel_state = tdi_cancel_disable();
    tdi_cleanup_push(give_all_back, journey); /* a signal handler may jump out of it */
    do {
        const uint64_t rest = price - journey->spent;
        const uint32_t part = rest < AT_ONCE ? (uint32_t)rest : AT_ONCE;
        error = tdi_wait_try(&journey->wait, part) ? 0 : tdi_wait(&journey->wait, part);
        if (error == 0)
            spend(journey);
    } while (error == 0 && journey->toll.bytes && journey->spent < price);
    tdi_cleanup_pop();
    if (error != 0) {
        give_all_back(journey);
        return error;
    }
    tdi_step_off();
    tdi_cancel_restore(journey->cancel_state);
    return 0;
}

static void tally(const struct tdi_hook *hook, const struct tdi_toll *toll, uint64_t price)
{
    tdi_tally_add(&tdi_tally.calls, 1);
    tdi_tally_add(hook->bytes ? &tdi_tally.bytes : &tdi_tally.counted, toll->bytes ? price : 1);
}

/* Whether the call was paid for. */
static bool pay(const struct tdi_rules *rules, const struct tdi_hook *hook, uint64_t price)
{
    struct journey journey;
    tdi_set_foot();
    set_out(&journey, rules, hook);
    if (journey.toll.count > journey.toll.firm)
        tdi_road_observe(&journey.toll, price, true);
    if (journey.toll.firm == 0) {
        tdi_tally_add(&tdi_tally.calls, 1);
        tdi_step_off();
        return true;
    }
    if (acquire(&journey, price) != 0) {
        tdi_tally_add(&tdi_tally.refused, 1);
        return false;
    }
    tally(hook, &journey.toll, price);
    return true;
}

/* By far the most calls: one rule with one bucket, and tokens enough. */
static bool pay_at_once(const struct tdi_hook *hook, uint64_t price)
{
    const struct tdi_rule *rule = hook->only;
    if (rule == NULL || price > UINT32_MAX)
        return false;
    bool takes_price = rule->bytes || hook->spec->cost.kind == TDI_COST_TOKENS;
    tdi_set_foot();
    bool paid = tdi_acquire_try(rule->bucket[0], takes_price ? (uint32_t)price : 1, TDI_KIND_TRY) == 0;
    tdi_step_off();
    return paid;
}

/* What results have cost is taken as far as it is there; the rest is owed by the next call. */
static void charge_result(const struct tdi_rules *rules, struct tdi_hook *hook, uint64_t price)
{
    struct journey journey;
    const uint32_t some = price < AT_ONCE ? (uint32_t)price : AT_ONCE;
    tdi_set_foot();
    set_out(&journey, rules, hook);
    journey.wait.calls_paid = true;
    if (journey.toll.count > journey.toll.firm)
        tdi_road_observe(&journey.toll, price, false);
    if (journey.toll.bytes) {
        (void)tdi_wait_take_some(&journey.wait, some);
        atomic_fetch_add_explicit(&hook->owed, price - journey.wait.held, memory_order_relaxed);
    }
    tdi_step_off();
}

/* Makes the call, and pays for it before or after. */
static void make_charged(const struct tdi_rules *rules, struct tdi_hook *hook, tdi_function *real,
                         void *result, void **arguments)
{
    const struct tdi_frozen_hook *spec = hook->spec;
    const bool after = spec->cost.kind == TDI_COST_RESULT;
    const int saved_errno = errno;
    uint64_t price = after ? atomic_exchange_explicit(&hook->owed, 0, memory_order_relaxed)
                           : tdi_price_before(&spec->cost, arguments);
    const bool paid = !rules->broken && (pay_at_once(hook, price) || pay(rules, hook, price));
    if (!paid && after)
        atomic_fetch_add_explicit(&hook->owed, price, memory_order_relaxed);
    errno = saved_errno;
    if (!paid && spec->refusal.stated) {
        tdi_refusal_write(&spec->refusal, hook->signature, result);
        errno = spec->refusal.error != 0 ? spec->refusal.error : saved_errno;
        return;
    }
    call(hook, real, result, arguments);
    if (!after || rules->broken || tdi_rules() == NULL)
        return;
    const int real_errno = errno;
    price = tdi_price_after(&spec->cost, result);
    if (price > 0)
        charge_result(rules, hook, price);
    errno = real_errno;
}

void tdi_hook_serve(ffi_cif *cif, void *result, void **arguments, void *closure)
{
    struct tdi_hook *hook = closure;
    const void *caller = caller_of(__builtin_frame_address(0));
    const struct tdi_rules *rules = tdi_rules();
    struct tdi_home room;
    const struct tdi_home *home = tdi_hook_home(hook, caller, &room);
    if (home == NULL)
        fail(hook, cif, result);
    else if (rules == NULL || !home->meant || tdi_inside.house > 0 || tdi_range_has(&home->object, caller) ||
             tdi_find_is_us(caller))
        call(hook, home->function, result, arguments);
    else
        make_charged(rules, hook, home->function, result, arguments);
}
