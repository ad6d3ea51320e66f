/* SPDX-License-Identifier: MIT */
/*
 * select. Sockets in debt are taken out of copies of the program's sets. The kernel is then not asked about
 * their errors either, so those are looked for here, and rounds are short while anything is hidden.
 *
 * Programs give more descriptors than FD_SETSIZE with sets they allocate, and they give far more than their
 * sets hold, because the kernel looks no further than the highest number in use. How far that is nobody says;
 * so as much as can be read is copied, and only words that the kernel has changed are written back: behind
 * the end it changes none.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/select.h>

#include "fd.h"
#include "gate.h"
#include "lib/cancel.h"
#include "ready/company.h"
#include "ready/ready.h"
#include "ready/round.h"
#include "real.h"
#include "tundish/tundish.h"

#define WORD_BITS ((int)(8 * sizeof(unsigned long)))
#define MOST (1 << 20)                   /* descriptors of a process */
#define LOOK_AGAIN_NS UINT64_C(20000000) /* for errors of what is hidden */
#define SETS 3

enum {
    IN,
    OUT,
    OTHER,
};

struct question {
    int n;
    size_t words;               /* of each set */
    unsigned long *asked[SETS]; /* the program's, NULL where it has none */
    unsigned long *handed[SETS];
    const sigset_t *mask;
    bool hides;
};

static size_t words_of(int n)
{
    return ((size_t)n + WORD_BITS - 1) / WORD_BITS;
}

/* A socket whose peer is gone is as ready as can be, whatever it is in debt. */
static bool is_hidden(int fd, int set, uint64_t *due_ns)
{
    short events = set == IN ? POLLIN | POLLRDNORM : POLLOUT | POLLWRNORM;
    return tdi_ready_hidden(fd, events, due_ns) != 0 && !tdi_fd_troubled(fd);
}

static void hide_in_word(struct question *question, int set, size_t word, uint64_t *due_ns)
{
    unsigned long bits = question->asked[set][word];
    for (int bit = 0; bit < WORD_BITS && bits >> bit != 0; bit++) {
        int fd = (int)word * WORD_BITS + bit;
        if ((bits >> bit & 1) == 0 || fd >= question->n || !is_hidden(fd, set, due_ns))
            continue;
        question->handed[set][word] &= ~(1ul << bit);
        question->hides = true;
    }
}

/* Copies the sets without what is hidden, and returns when to ask again. */
static uint64_t hide(struct question *question)
{
    uint64_t due_ns = tdi_ready_serve();
    question->hides = false;
    for (int set = IN; set <= OTHER; set++) {
        if (question->asked[set] == NULL)
            continue;
        memcpy(question->handed[set], question->asked[set], question->words * sizeof(unsigned long));
        for (size_t word = 0; word < question->words && set != OTHER; word++)
            if (question->asked[set][word] != 0)
                hide_in_word(question, set, word, &due_ns);
    }
    if (question->hides) {
        uint64_t again_ns = tundish_now_ns() + LOOK_AGAIN_NS;
        due_ns = again_ns < due_ns ? again_ns : due_ns;
    }
    return due_ns;
}

static void answer(const struct question *question)
{
    for (int set = IN; set <= OTHER; set++)
        for (size_t word = 0; question->asked[set] != NULL && word < question->words; word++)
            if (question->asked[set][word] != question->handed[set][word])
                question->asked[set][word] = question->handed[set][word];
}

static fd_set *handed(const struct question *question, int set)
{
    return (fd_set *)(void *)question->handed[set];
}

static int ask(struct question *question, struct tdi_round *round)
{
    int result;
    do {
        struct timespec timeout;
        uint64_t due_ns = hide(question);
        result = tdi_real()->pselect(question->n, handed(question, IN), handed(question, OUT),
                                     handed(question, OTHER), tdi_round_timeout(round, due_ns, &timeout),
                                     question->mask);
    } while (result == 0 && tdi_round_left_ns(round) > 0);
    if (result >= 0)
        answer(question);
    return result;
}

static int wait_in_rounds(struct question *question, uint64_t timeout_ns, struct timeval *left)
{
    unsigned long few[SETS * FD_SETSIZE / (8 * sizeof(unsigned long))];
    struct tdi_round round;
    size_t len = question->words * sizeof(unsigned long);
    int result;
    tdi_round_begin(&round, timeout_ns);
    unsigned long *room = tdi_round_room(&round, few, sizeof few, SETS * len);
    for (int set = IN; set <= OTHER && room != NULL; set++)
        question->handed[set] = question->asked[set] == NULL ? NULL : room + (size_t)set * question->words;
    if (question->mask == NULL)
        question->mask = &round.mask;
    tdi_cleanup_push(tdi_round_end, &round);
    if (room == NULL) {
        errno = ENOMEM;
        result = -1;
    } else {
        result = ask(question, &round);
    }
    tdi_cleanup_pop();
    if (left != NULL) {
        uint64_t left_us = tdi_round_left_ns(&round) / 1000;
        *left = (struct timeval){(time_t)(left_us / 1000000), (suseconds_t)(left_us % 1000000)};
    }
    tdi_round_end(&round);
    return result;
}

static bool is_readable(const struct question *question)
{
    for (int set = IN; set <= OTHER; set++)
        if (question->asked[set] != NULL && question->words > 0 &&
            !tdi_fd_readable(question->asked[set], question->words * sizeof(unsigned long)))
            return false;
    return true;
}

/* Whether to wait in rounds: there are debts, and the kernel would get as far as reading the sets. */
static bool prepare(struct question *question, int n, fd_set *in, fd_set *out, fd_set *other)
{
    tdi_ready_note_wait();
    tdi_company_selects(n, in, out);
    if (!tdi_ready_any() || n < 0)
        return false;
    question->asked[IN] = (unsigned long *)(void *)in;
    question->asked[OUT] = (unsigned long *)(void *)out;
    question->asked[OTHER] = (unsigned long *)(void *)other;
    question->n = n < MOST ? n : MOST;
    question->words = words_of(question->n);
    while (question->n > FD_SETSIZE && !is_readable(question)) {
        question->n /= 2;
        question->words = words_of(question->n);
    }
    return is_readable(question);
}

static bool is_sound(const struct timeval *timeout)
{
    return timeout == NULL ||
           (tdi_fd_readable(timeout, sizeof *timeout) && timeout->tv_sec >= 0 && timeout->tv_usec >= 0);
}

TDI_WRAPPER int select(int n, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout)
{
    struct question question = {.mask = NULL};
    if (!prepare(&question, n, in, out, other) || !is_sound(timeout))
        return tdi_real()->select(n, in, out, other, timeout);
    if (timeout == NULL)
        return wait_in_rounds(&question, TDI_NEVER_NS, NULL);
    struct timespec whole = {timeout->tv_sec, 0};
    uint64_t timeout_ns = tdi_round_timespec(&whole), rest_ns = (uint64_t)timeout->tv_usec * 1000;
    timeout_ns = timeout_ns < TDI_NEVER_NS - rest_ns ? timeout_ns + rest_ns : TDI_NEVER_NS;
    return wait_in_rounds(&question, timeout_ns, timeout_ns == TDI_NEVER_NS ? NULL : timeout);
}

TDI_WRAPPER int pselect(int n, fd_set *in, fd_set *out, fd_set *other, const struct timespec *timeout,
                        const sigset_t *mask)
{
    struct question question = {.mask = mask};
    if (!prepare(&question, n, in, out, other) ||
        (timeout != NULL && !tdi_fd_readable(timeout, sizeof *timeout)) || !tdi_round_is_sound(timeout))
        return tdi_real()->pselect(n, in, out, other, timeout, mask);
    return wait_in_rounds(&question, tdi_round_timespec(timeout), NULL);
}
