/* SPDX-License-Identifier: MIT */
/*
 * Standing in line as a guest: in the bucket's line like everybody else, but ended by a signal where the
 * kernel would end the program's own call.
 *
 * How much to stand in line for: neither a whole capacity (silence, then a flood) nor a single byte (a system
 * call each), but a decent piece, 20 ms' worth of tokens.
 */
#include "wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "inside.h"
#include "lib/acquire.h"
#include "signals.h"

#define PIECE_US 20000
#define SHORT_NS 25000000UL
#define PIECE_LEAST 131072 /* a smaller share of a crowd's piece costs more in wakes than it is fairer */

struct supply {
    uint32_t capacity;  /* the smallest */
    uint32_t available; /* in every bucket */
    uint32_t piece;     /* what the slowest gains in 20 ms, at least 1 */
    uint32_t waiting;   /* in the longest line */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t worth_of_piece(const struct tundish_info *info)
{
    uint64_t tokens = info->interval_us == 0 ? 0 : info->refill * (uint64_t)PIECE_US / info->interval_us;
    return tokens == 0 ? 1 : tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
}

static uint32_t calls_needed(const struct tdi_wait *wait, const struct tdi_share *share)
{
    return wait->calls_held || wait->calls_paid ? 0 : tdi_wait_call_tokens(wait, share);
}

/* Of bytes; a share that has not the tokens for the call makes nothing available. */
static struct supply survey(const struct tdi_wait *wait)
{
    struct supply supply = {UINT32_MAX, UINT32_MAX, UINT32_MAX, 0};
    for (uint32_t i = 0; i < wait->toll->firm; i++) {
        const struct tdi_share *share = &wait->toll->share[i];
        struct tundish_info info = TUNDISH_INFO_INIT;
        (void)tundish_info(share->bucket, &info);
        uint32_t available = tundish_available(share->bucket);
        supply.waiting = most(supply.waiting, info.waiting);
        if (!share->bytes) {
            supply.available = available < calls_needed(wait, share) ? 0 : supply.available;
            continue;
        }
        supply.capacity = least(supply.capacity, info.capacity);
        supply.available = least(supply.available, available);
        supply.piece = least(supply.piece, worth_of_piece(&info));
    }
    return supply;
}

/* A call that is two at once, a send that connects, costs but one where the bucket never holds two. */
static void bound_call(struct tdi_wait *wait)
{
    for (uint32_t i = 0; i < wait->toll->firm; i++) {
        const struct tdi_share *share = &wait->toll->share[i];
        struct tundish_info info = TUNDISH_INFO_INIT;
        if (calls_needed(wait, share) <= 1)
            continue;
        (void)tundish_info(share->bucket, &info);
        wait->calls_most = (uint8_t)least(wait->calls_most, info.capacity);
    }
}

/* What is held was taken by the parent, of whose call this is the child's copy. Whether it was so. */
static bool drop_if_forked(struct tdi_wait *wait)
{
    uint32_t forks = tdi_forks_now();
    if (tdi_likely(wait->forks == forks))
        return false;
    wait->forks = forks;
    wait->held = 0;
    wait->calls_held = false;
    return true;
}

void tdi_wait_init(struct tdi_wait *wait, const struct tdi_toll *toll)
{
    wait->toll = toll;
    wait->forks = tdi_forks_now();
    wait->calls_most = UINT8_MAX;
    wait->held = 0;
    wait->calls_held = wait->calls_paid = false;
    wait->divisible = wait->interruptible = wait->never_restart = wait->refuse = false;
    wait->deadline_ns = UINT64_MAX;
    wait->late_errno = 0;
    bound_call(wait);
}

uint32_t tdi_wait_demands(const struct tdi_wait *wait, uint32_t n, struct tundish_demand *demands)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < wait->toll->firm; i++) {
        const struct tdi_share *share = &wait->toll->share[i];
        uint32_t tokens = share->bytes ? n : calls_needed(wait, share);
        if (tokens > 0)
            demands[count++] = (struct tundish_demand){share->bucket, tokens};
    }
    return count;
}

void tdi_wait_note_taken(struct tdi_wait *wait, uint32_t n)
{
    (void)drop_if_forked(wait); /* in line, a child draws all of it anew */
    wait->held += n;
    wait->calls_held |= !wait->calls_paid;
}

bool tdi_wait_try(struct tdi_wait *wait, uint32_t n)
{
    const struct tdi_share *only = &wait->toll->share[0];
    int error;
    if (wait->toll->firm == 1) {
        error = tdi_acquire_try(only->bucket, only->bytes ? n : calls_needed(wait, only), TDI_KIND_TRY);
    } else {
        uint32_t count = tdi_wait_demands(wait, n, wait->demands);
        error = tdi_all_try(wait->demands, count);
    }
    if (error == 0)
        tdi_wait_note_taken(wait, n);
    return error == 0;
}

static int in_line(struct tdi_wait *wait, uint32_t n, const sigset_t *mask)
{
    int error;
    uint32_t count = tdi_wait_demands(wait, n, wait->demands);
    tdi_all_begin(&wait->all, wait->demands, count, mask);
    do {
        error = tdi_all_wait(&wait->all, wait->deadline_ns);
        if (error == -EINTR && wait->interruptible &&
            (wait->never_restart || tdi_signals_some_interrupts())) {
            tdi_all_end(&wait->all);
            return EINTR;
        }
    } while (error == -EINTR);
    if (error == 0)
        tdi_wait_note_taken(wait, n);
    return error == -ETIMEDOUT ? wait->late_errno : -error;
}

static void block_signals(sigset_t *mask)
{
    sigset_t most;
    tdi_signals_to_keep_out(&most);
    pthread_sigmask(SIG_BLOCK, &most, mask);
}

/* Whether a signal that would end a wait came while all were kept out. */
static bool is_interrupted(const sigset_t *mask)
{
    sigset_t pending;
    if (sigpending(&pending) != 0)
        return false;
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        if (sigismember(&pending, signal_number) == 1 && sigismember(mask, signal_number) == 0 &&
            tdi_signals_interrupts(signal_number))
            return true;
    return false;
}

/*
 * 0, E2BIG if the capacity has become too small meanwhile, EINTR, or late_errno. What may be interrupted
 * keeps its signals out but while it sleeps, so that none is handled unnoticed.
 */
static int stand_in_line(struct tdi_wait *wait, uint32_t n)
{
    sigset_t mask;
    if (!wait->interruptible)
        return in_line(wait, n, NULL);
    block_signals(&mask);
    int error = in_line(wait, n, &mask);
    if (error == 0 && is_interrupted(&mask))
        error = EINTR;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return error;
}

static uint32_t portion_of(const struct supply *supply)
{
    uint32_t decent = least(supply->piece - supply->piece / 4, PIECE_LEAST);
    return least(most(supply->piece / (1 + supply->waiting), decent), supply->capacity);
}

uint32_t tdi_wait_worth(const struct tdi_wait *wait, uint32_t n)
{
    if (!wait->toll->bytes)
        return n;
    struct supply supply = survey(wait);
    return supply.waiting > 0 ? n : most(n, portion_of(&supply) / 2);
}

bool tdi_wait_is_short(const struct tdi_wait *wait, uint32_t n)
{
    struct supply supply = survey(wait);
    uint32_t piece = least(least(n, supply.piece), supply.capacity);
    if (supply.waiting > 0)
        return false;
    for (uint32_t i = 0; i < wait->toll->firm; i++) {
        const struct tdi_share *share = &wait->toll->share[i];
        uint32_t tokens = share->bytes ? piece : calls_needed(wait, share);
        if (tundish_wait_time_ns(share->bucket, tokens) > SHORT_NS)
            return false;
    }
    return true;
}

static uint32_t piece_of(const struct tdi_wait *wait, const struct supply *supply, uint32_t n, uint32_t piece)
{
    uint32_t bounded = least(n, supply->capacity);
    return wait->divisible ? least(bounded, most(piece, supply->available)) : bounded;
}

uint32_t tdi_wait_piece(const struct tdi_wait *wait, uint32_t n)
{
    struct supply supply = survey(wait);
    return piece_of(wait, &supply, n, portion_of(&supply));
}

static bool is_complete(const struct tdi_wait *wait, uint32_t n)
{
    return wait->held >= n && (wait->calls_held || wait->calls_paid);
}

/* What was asked for has become more than a bucket can hold. 0 if less will do, and there is time for it. */
static int ask_for_less(struct tdi_wait *wait, uint32_t piece)
{
    uint8_t calls_most = wait->calls_most;
    bound_call(wait);
    struct supply supply = survey(wait);
    bool is_less = supply.capacity < piece || wait->calls_most < calls_most;
    return is_less && tundish_now_ns() < wait->deadline_ns ? 0 : wait->late_errno;
}

/* A call is refused; each of its buckets counts that. */
static int refuse(const struct tdi_wait *wait, uint32_t n)
{
    for (uint32_t i = 0; i < wait->toll->firm; i++) {
        const struct tdi_share *share = &wait->toll->share[i];
        tdi_acquire_count(share->bucket, TDI_KIND_TRY, share->bytes ? n : calls_needed(wait, share), -EAGAIN,
                          0);
    }
    return wait->late_errno;
}

static int wait_for(struct tdi_wait *wait, uint32_t n)
{
    int error = 0;
    n = wait->toll->bytes ? n : 0;
    while (!is_complete(wait, n) && error == 0) {
        struct supply supply = survey(wait);
        uint32_t rest = n - (uint32_t)wait->held;
        if (wait->refuse && wait->held == 0) {
            if (!tdi_wait_try(wait, least(rest, supply.capacity)))
                return refuse(wait, least(rest, supply.capacity));
            if (wait->divisible)
                return 0;
            continue;
        }
        uint32_t piece = piece_of(wait, &supply, rest, supply.piece);
        if (!wait->interruptible &&
            wait->divisible) /* an event loop: held for 20 ms in all, however many wait */
            piece = least(piece, most(supply.piece / (1 + supply.waiting) + 1, supply.available));
        error = stand_in_line(wait, piece);
        if (error == E2BIG)
            error = ask_for_less(wait, piece);
        else if (error == 0 && !drop_if_forked(wait) && wait->divisible)
            return 0;
    }
    return error;
}

int tdi_wait(struct tdi_wait *wait, uint32_t n)
{
    uint64_t start_ns = tundish_now_ns();
    int error = wait_for(wait, n);
    atomic_fetch_add_explicit(&tdi_tally.waited_ns, tundish_now_ns() - start_ns, memory_order_relaxed);
    return error;
}

bool tdi_wait_take_some(struct tdi_wait *wait, uint32_t n)
{
    struct supply supply = survey(wait);
    uint32_t some = least(n, supply.available);
    return (some > 0 || !wait->toll->bytes) && tdi_wait_try(wait, some);
}

bool tdi_wait_take_piece(struct tdi_wait *wait, uint32_t n)
{
    struct supply supply = survey(wait);
    uint32_t some = least(n, supply.available);
    return some >= least(n, portion_of(&supply)) && tdi_wait_try(wait, some);
}

void tdi_wait_give_back(struct tdi_wait *wait, uint64_t n, bool calls)
{
    if (drop_if_forked(wait))
        return;
    calls = calls && wait->calls_held;
    wait->held -= n;
    wait->calls_held = wait->calls_held && !calls;
    for (uint32_t i = 0; i < wait->toll->firm && (n > 0 || calls); i++) {
        const struct tdi_share *share = &wait->toll->share[i];
        uint32_t tokens = share->bytes ? (uint32_t)n : calls ? tdi_wait_call_tokens(wait, share) : 0;
        if (tokens > 0)
            tundish_release(share->bucket, tokens);
    }
}
