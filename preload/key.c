/* SPDX-License-Identifier: MIT */
/*
 * An entry is taken by one compare-and-swap, filled, and then shown. Who meets one that is being filled goes
 * on to the next, rather than wait for a thread that it may itself have interrupted: then a place has two
 * entries, and two handles of one file, which is the same limit.
 *
 * No signal handler runs within what is rare and has a beginning and an end: so none jumps out of it, nor
 * forks in it; and what a forked child finds half done was another thread's, and never ends.
 */
#include "key.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "inside.h"
#include "lib/cancel.h"
#include "policy/env.h"

#define OTHERS 1 /* the entry of all for whom there is no room */
#define PROBES 32

enum state {
    FREE,
    FILLING,
    SHOWN
};

struct entry {
    _Atomic(uint32_t) state;
    struct tdi_place place;
    _Atomic(struct tundish *) bucket[TDI_POLICY_ALL_BUCKETS]; /* NULL: not looked for; &absent: not there */
};

static struct entry entries[TDI_KEYS];
static char absent;
static atomic_flag busy = ATOMIC_FLAG_INIT; /* a bucket is being opened */

/* What a thread is kept from for a moment. */
struct peace {
    sigset_t mask;
    int cancel_state;
};

static void make_peace(struct peace *peace)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &peace->mask);
    peace->cancel_state = tdi_cancel_disable();
}

static void end_peace(const struct peace *peace)
{
    tdi_cancel_restore(peace->cancel_state);
    pthread_sigmask(SIG_SETMASK, &peace->mask, NULL);
}

static struct tundish *no_bucket(void)
{
    return (struct tundish *)(void *)&absent;
}

uint32_t tdi_key_rules(const struct tdi_rules *rules, const struct tdi_place *place)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < rules->count; i++)
        if (tdi_policy_matches(&rules->policy, rules->rule[i].policy, place->kind, place->address,
                               place->port))
            mask |= UINT32_C(1) << i;
    return mask;
}

static uint32_t hash_of(const struct tdi_place *place)
{
    uint32_t hash = 2166136261U ^ place->port ^ (uint32_t)place->kind << 16; /* FNV-1a */
    for (size_t i = 0; i < sizeof place->address; i++)
        hash = (hash ^ place->address[i]) * 16777619U;
    return hash ^ hash >> 15;
}

static bool is_same(const struct tdi_place *a, const struct tdi_place *b)
{
    return a->kind == b->kind && a->port == b->port && memcmp(a->address, b->address, sizeof a->address) == 0;
}

/* An IPv4 address is the same destination however the program's socket writes it. */
static void unmap(struct tdi_place *place)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (place->kind != TDI_KIND_INET6 || memcmp(place->address, mapped, sizeof mapped) != 0)
        return;
    place->kind = TDI_KIND_INET;
    memmove(place->address, place->address + 12, 4);
    memset(place->address + 4, 0, 12);
}

/* Whether it was still free. */
static bool fill(struct entry *entry, const struct tdi_place *place)
{
    struct peace peace;
    uint32_t state = FREE;
    make_peace(&peace);
    bool filled = atomic_compare_exchange_strong_explicit(&entry->state, &state, FILLING,
                                                          memory_order_relaxed, memory_order_relaxed);
    if (filled) {
        entry->place = *place;
        atomic_store_explicit(&entry->state, SHOWN, memory_order_release);
    }
    end_peace(&peace);
    return filled;
}

uint32_t tdi_key_of(const struct tdi_rules *rules, const struct tdi_place *place)
{
    struct tdi_place wanted;
    if (!rules->hosted && !rules->ported)
        return 0;
    memset(&wanted, 0, sizeof wanted);
    wanted.kind = place->kind;
    wanted.port = rules->ported ? place->port : 0;
    if (rules->hosted)
        memcpy(wanted.address, place->address, sizeof wanted.address);
    unmap(&wanted);
    uint32_t start = hash_of(&wanted);
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        uint32_t i = OTHERS + 1 + (start + probe) % (TDI_KEYS - OTHERS - 1);
        /* The acquire pairs with the release in fill: who sees SHOWN sees the place. */
        uint32_t state = atomic_load_explicit(&entries[i].state, memory_order_acquire);
        if (state == FREE && fill(&entries[i], &wanted))
            return i;
        if (state == FREE)
            state = atomic_load_explicit(&entries[i].state, memory_order_acquire);
        if (state == SHOWN && is_same(&entries[i].place, &wanted))
            return i;
    }
    return OTHERS;
}

static void host_of(uint32_t key, char *buf, size_t len)
{
    const struct tdi_place *place = &entries[key].place;
    const char *word = place->kind == TDI_KIND_UNIX   ? "unix"
                       : place->kind == TDI_KIND_PIPE ? "pipe"
                       : place->kind == TDI_KIND_TTY  ? "tty"
                                                      : "file";
    int family = place->kind == TDI_KIND_INET ? AF_INET : AF_INET6;
    struct tdi_text text;
    if (key == OTHERS)
        word = "others";
    else if ((place->kind == TDI_KIND_INET || place->kind == TDI_KIND_INET6) &&
             inet_ntop(family, place->address, buf, (socklen_t)len) != NULL)
        return;
    tdi_text_start(&text, buf, len);
    tdi_text_add(&text, word);
}

static void port_of(uint32_t key, char *buf)
{
    char *at = buf;
    unsigned port = key == OTHERS ? 0 : entries[key].place.port;
    for (unsigned digit = 10000; digit > 0; digit /= 10)
        if (port >= digit || digit == 1)
            *at++ = (char)('0' + port / digit % 10);
    *at = '\0';
}

/* The path for a place: %h and %P are filled in, the other keys are the library's. */
static void expand(const char *path, uint32_t key, char *buf, size_t len)
{
    char host[INET6_ADDRSTRLEN], port[8];
    struct tdi_text text;
    host_of(key, host, sizeof host);
    port_of(key, port);
    tdi_text_start(&text, buf, len);
    for (; *path != '\0'; path++) {
        char piece[3] = {*path, '\0', '\0'};
        const char *more = piece;
        if (*path == '%' && path[1] != '\0') {
            path++;
            piece[1] = *path;
            more = *path == 'h' ? host : *path == 'P' ? port : piece;
        }
        tdi_text_add(&text, more);
    }
}

/* The process is short of something at this moment. */
static bool is_passing(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/* With `busy` set. NULL if it may be there another time. */
static struct tundish *open_now(const struct tdi_rule *rule, uint32_t i, uint32_t key)
{
    static char path[TDI_POLICY_TEXT]; /* too long for a signal handler's stack */
    struct tundish_options options = tdi_rule_options(rule->policy);
    struct tundish *bucket = NULL;
    expand(rule->path[i], key, path, sizeof path);
    int error = rule->policy->has_rate ? tundish_open_or_create(&bucket, path, &options)
                                       : tundish_open(&bucket, path);
    if (error < 0) {
        char reason[160];
        struct tdi_text text;
        tdi_text_start(&text, reason, sizeof reason);
        tdi_text_add(&text, ": ");
        tdi_text_add(&text, tundish_strerror(error));
        tdi_rules_give_up("bucket ", path, reason);
        bucket = is_passing(error) ? NULL : no_bucket();
    }
    return bucket;
}

static struct tundish *open_for(const struct tdi_rule *rule, uint32_t i, uint32_t key)
{
    struct peace peace;
    struct tundish *bucket = NULL;
    int saved_errno = errno;
    make_peace(&peace);
    if (!atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
        tdi_inside.house++;
        bucket = open_now(rule, i, key);
        tdi_inside.house--;
        atomic_flag_clear_explicit(&busy, memory_order_release);
    } /* else another one at this very moment: this call goes without */
    end_peace(&peace);
    errno = saved_errno;
    return bucket;
}

struct tundish *tdi_key_bucket(const struct tdi_rule *rule, uint32_t i, uint32_t key)
{
    _Atomic(struct tundish *) *place = &entries[key].bucket[rule->first + i];
    struct tundish *bucket = atomic_load_explicit(place, memory_order_acquire);
    if (bucket == NULL) {
        struct tundish *nobody = NULL;
        bucket = open_for(rule, i, key);
        if (bucket != NULL && !atomic_compare_exchange_strong_explicit(
                                  place, &nobody, bucket, memory_order_acq_rel, memory_order_acquire)) {
            if (bucket != no_bucket())
                tundish_close(bucket);
            bucket = nobody;
        }
    }
    return bucket == no_bucket() ? NULL : bucket;
}

void tdi_key_after_fork(void)
{
    const struct tdi_rules *rules = tdi_rules();
    atomic_flag_clear_explicit(&busy, memory_order_relaxed);
    for (uint32_t key = 0; rules != NULL && (rules->hosted || rules->ported) && key < TDI_KEYS; key++)
        if (atomic_load_explicit(&entries[key].state, memory_order_relaxed) == FILLING)
            atomic_store_explicit(&entries[key].state, FREE, memory_order_relaxed);
    for (uint32_t r = 0; rules != NULL && r < rules->count; r++) {
        const struct tdi_rule *rule = &rules->rule[r];
        for (uint32_t i = 0; i < rule->buckets; i++) {
            if (rule->path[i] == NULL || !tdi_policy_name_has(rule->path[i], "p"))
                continue;
            for (uint32_t key = 0; key < TDI_KEYS; key++) /* a call under way may hold the handle: it stays */
                atomic_store_explicit(&entries[key].bucket[rule->first + i], NULL, memory_order_relaxed);
        }
    }
}
