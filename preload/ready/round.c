/* SPDX-License-Identifier: MIT */
/*
 * The program's timeout runs on the kernel's CLOCK_MONOTONIC, which stands still in a suspend, as its own call
 * would have it; debts fall due on ours, which does not. So each round asks both clocks.
 */
#include "ready/round.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "ready/ready.h"
#include "signals.h"
#include "tundish/tundish.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* A debt that is due and yet not served will be soon; meanwhile nobody spins. */
#define SHORTEST_NS UINT64_C(100000)

static uint64_t monotonic_ns(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t tdi_round_ms(int timeout_ms)
{
    return timeout_ms < 0 ? TDI_NEVER_NS : (uint64_t)timeout_ms * NS_PER_MS;
}

uint64_t tdi_round_timespec(const struct timespec *timeout)
{
    if (timeout == NULL || (uint64_t)timeout->tv_sec > TDI_NEVER_NS / NS_PER_S - 1)
        return TDI_NEVER_NS;
    return (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec;
}

bool tdi_round_is_sound(const struct timespec *timeout)
{
    return timeout == NULL ||
           (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && (uint64_t)timeout->tv_nsec < NS_PER_S);
}

void tdi_round_begin(struct tdi_round *round, uint64_t timeout_ns)
{
    tdi_signals_to_keep_out(&round->most);
    pthread_sigmask(SIG_BLOCK, &round->most, &round->mask);
    round->room = NULL;
    round->deadline_ns = TDI_NEVER_NS;
    if (timeout_ns != TDI_NEVER_NS) {
        uint64_t now_ns = monotonic_ns();
        round->deadline_ns = timeout_ns < TDI_NEVER_NS - now_ns ? now_ns + timeout_ns : TDI_NEVER_NS;
    }
}

static bool is_kept_out(const sigset_t *most)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(most, number) == 1 && sigismember(&now, number) == 0)
            return false;
    return true;
}

/* A handler that jumps out of the real call leaves with a mask of its own, and that one stays. */
void tdi_round_end(void *argument)
{
    struct tdi_round *round = argument;
    int saved_errno = errno;
    if (round->room != NULL)
        munmap(round->room, round->room_len);
    round->room = NULL;
    if (is_kept_out(&round->most))
        pthread_sigmask(SIG_SETMASK, &round->mask, NULL);
    errno = saved_errno;
}

void *tdi_round_room(struct tdi_round *round, void *small, size_t small_len, size_t len)
{
    if (len <= small_len)
        return small;
    int saved_errno = errno;
    void *room = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved_errno;
    if (room == MAP_FAILED)
        return NULL;
    round->room = room;
    round->room_len = len;
    return room;
}

uint64_t tdi_round_left_ns(const struct tdi_round *round)
{
    if (round->deadline_ns == TDI_NEVER_NS)
        return TDI_NEVER_NS;
    uint64_t now_ns = monotonic_ns();
    return now_ns < round->deadline_ns ? round->deadline_ns - now_ns : 0;
}

const struct timespec *tdi_round_timeout(const struct tdi_round *round, uint64_t due_ns,
                                         struct timespec *timeout)
{
    uint64_t wait_ns = tdi_round_left_ns(round);
    if (due_ns != TDI_NEVER_NS) {
        uint64_t now_ns = tundish_now_ns();
        uint64_t until_due_ns = due_ns > now_ns + SHORTEST_NS ? due_ns - now_ns : SHORTEST_NS;
        wait_ns = until_due_ns < wait_ns ? until_due_ns : wait_ns;
    }
    if (wait_ns == TDI_NEVER_NS)
        return NULL;
    *timeout = (struct timespec){(time_t)(wait_ns / NS_PER_S), (long)(wait_ns % NS_PER_S)};
    return timeout;
}
