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

#define PIECE_US 20000

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

static uint32_t worth_of_piece(const struct tundish_info *info)
{
    uint64_t tokens = info->interval_us == 0 ? 0 : info->refill * (uint64_t)PIECE_US / info->interval_us;
    return tokens == 0 ? 1 : tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
}

static struct supply survey(const struct tdi_rule *rule)
{
    struct supply supply = {UINT32_MAX, UINT32_MAX, UINT32_MAX, 0};
    for (uint32_t i = 0; i < rule->buckets; i++) {
        struct tundish_info info = TUNDISH_INFO_INIT;
        (void)tundish_info(rule->bucket[i], &info);
        supply.capacity = least(supply.capacity, info.capacity);
        supply.available = least(supply.available, tundish_available(rule->bucket[i]));
        supply.piece = least(supply.piece, worth_of_piece(&info));
        supply.waiting = info.waiting > supply.waiting ? info.waiting : supply.waiting;
    }
    return supply;
}

/* What a program does to itself. Runtimes (Rust, Java, sanitizers) handle these without SA_RESTART. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

static bool is_fault(int signal_number)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i] == signal_number)
            return true;
    return false;
}

static bool interrupts(int signal_number)
{
    struct sigaction action;
    return sigaction(signal_number, NULL, &action) == 0 && (action.sa_flags & SA_RESTART) == 0 &&
           action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

/* The kernel does not say which signal ended a sleep, so any handler without SA_RESTART counts. */
static bool some_handler_does_not_restart(void)
{
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        if (!is_fault(signal_number) && interrupts(signal_number))
            return true;
    return false;
}

static void demand(struct tdi_wait *wait, uint32_t n)
{
    for (uint32_t i = 0; i < wait->rule->buckets; i++)
        wait->demands[i] = (struct tundish_demand){wait->rule->bucket[i], n};
}

bool tdi_wait_try(struct tdi_wait *wait, uint32_t n)
{
    const struct tdi_rule *rule = wait->rule;
    int error;
    if (rule->buckets == 1) {
        error = tundish_try_acquire(rule->bucket[0], n);
    } else {
        demand(wait, n);
        error = tundish_try_acquire_all(wait->demands, rule->buckets);
    }
    if (error == 0)
        wait->held += n;
    return error == 0;
}

static int in_line(struct tdi_wait *wait, uint32_t n, const sigset_t *mask)
{
    int error;
    demand(wait, n);
    tdi_all_begin(&wait->all, wait->demands, wait->rule->buckets, mask);
    do {
        error = tdi_all_wait(&wait->all, wait->deadline_ns);
        if (error == -EINTR && wait->interruptible &&
            (wait->never_restart || some_handler_does_not_restart())) {
            tdi_all_end(&wait->all);
            return EINTR;
        }
    } while (error == -EINTR);
    if (error == 0)
        wait->held += n;
    return error == -ETIMEDOUT ? wait->late_errno : -error;
}

static void block_signals(sigset_t *mask)
{
    sigset_t most;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&most, faults[i]);
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
            interrupts(signal_number))
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

static int wait_for(struct tdi_wait *wait, uint32_t n)
{
    int error = 0;
    while (wait->held < n && (error == 0 || error == E2BIG)) {
        struct supply supply = survey(wait->rule);
        uint32_t most = least(n - (uint32_t)wait->held, supply.capacity);
        if (wait->refuse && wait->held == 0) {
            if (!tdi_wait_try(wait, most))
                return wait->late_errno;
            if (wait->divisible)
                return 0;
            continue;
        }
        if (!wait->interruptible) /* an event loop: it is to be held for 20 ms in all, however many wait */
            supply.piece = supply.piece / (1 + supply.waiting) + 1;
        uint32_t piece = least(most, supply.piece > supply.available ? supply.piece : supply.available);
        error = stand_in_line(wait, wait->divisible ? piece : most);
        if (error == 0 && wait->divisible)
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

void tdi_wait_take_some(struct tdi_wait *wait, uint32_t n)
{
    struct supply supply = survey(wait->rule);
    (void)tdi_wait_try(wait, least(n, supply.available));
}

void tdi_wait_give_back(struct tdi_wait *wait, uint64_t n)
{
    wait->held -= n;
    for (uint32_t i = 0; i < wait->rule->buckets && n > 0; i++)
        tundish_release(wait->rule->bucket[i], (uint32_t)n);
}
