/* SPDX-License-Identifier: MIT */
/*
 * A pool of places and two sets of chains through it. Nothing is ever allocated: a pool that is full looks
 * for registrations that are over, a few each time, and if there is none the new one goes unrecorded. That is
 * remembered by a bit that other keys share: they are taken for unrecorded too, the harmless mistake.
 *
 * A forked child may find what another thread left half done: a place in no chain. So nobody takes for
 * granted that it is in one.
 */
#include "ready/registry.h"

#include <stddef.h>

#include "fd.h"

#define POOL 32768 /* 1.3 MB if all are in use; places are 16 bits, and 0 is none */
#define CHAINS 8192
#define UNRECORDED_BITS 65536
#define LOOKS 64 /* each costs a system call */

_Atomic(uint32_t) tdi_registry_armed;

static struct tdi_registration pool[POOL];
static uint16_t by_key[CHAINS];
static uint16_t armed[CHAINS]; /* by epoll and data: an event says no more */
static uint16_t used = 1;      /* places from here on have never been taken */
static uint16_t free_places;
static uint16_t hand;
static uint8_t unrecorded[UNRECORDED_BITS / 8];

static uint32_t mix(uint64_t value)
{
    return (uint32_t)((value * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static uint16_t *chain(uint64_t key)
{
    return &by_key[mix(key) % CHAINS];
}

static uint16_t *armed_chain(int epfd, uint64_t data)
{
    return &armed[mix(data + ((uint64_t)(uint32_t)epfd << 40)) % CHAINS];
}

static uint16_t place_of(const struct tdi_registration *one)
{
    return (uint16_t)(one - pool);
}

struct tdi_registration *tdi_registry_next(uint64_t key, const struct tdi_registration *after)
{
    uint16_t place = after == NULL ? *chain(key) : after->next;
    while (place != 0 && pool[place].key != key)
        place = pool[place].next;
    return place == 0 ? NULL : &pool[place];
}

struct tdi_registration *tdi_registry_find(uint64_t key, int epfd, int fd)
{
    struct tdi_registration *one = NULL;
    while ((one = tdi_registry_next(key, one)) != NULL)
        if (one->epfd == epfd && one->fd == fd)
            return one;
    return NULL;
}

struct tdi_registration *tdi_registry_next_in(int epfd, const struct tdi_registration *after)
{
    for (uint16_t place = after == NULL ? 1 : (uint16_t)(place_of(after) + 1); place < used; place++)
        if (pool[place].key != 0 && (epfd == TDI_REGISTRY_ALL || pool[place].epfd == epfd))
            return &pool[place];
    return NULL;
}

void tdi_registry_disarm(struct tdi_registration *one)
{
    if (!one->armed)
        return;
    uint16_t *at = armed_chain(one->epfd, one->data);
    while (*at != 0 && *at != place_of(one))
        at = &pool[*at].next_armed;
    if (*at != 0)
        *at = one->next_armed;
    one->armed = false;
    atomic_fetch_sub_explicit(&tdi_registry_armed, 1, memory_order_relaxed);
}

void tdi_registry_arm(struct tdi_registration *one)
{
    uint16_t *head = armed_chain(one->epfd, one->data);
    if (one->armed)
        return;
    one->next_armed = *head;
    *head = place_of(one);
    one->armed = true;
    atomic_fetch_add_explicit(&tdi_registry_armed, 1, memory_order_relaxed);
}

struct tdi_registration *tdi_registry_find_armed(int epfd, uint64_t data)
{
    struct tdi_registration *only = NULL;
    for (uint16_t place = *armed_chain(epfd, data); place != 0; place = pool[place].next_armed) {
        if (pool[place].epfd != epfd || pool[place].data != data)
            continue;
        if (only != NULL)
            return NULL;
        only = &pool[place];
    }
    return only;
}

void tdi_registry_drop(struct tdi_registration *one)
{
    uint16_t *at = chain(one->key);
    tdi_registry_disarm(one);
    while (*at != 0 && *at != place_of(one))
        at = &pool[*at].next;
    if (*at != 0)
        *at = one->next;
    one->key = 0;
    one->next = free_places;
    free_places = place_of(one);
}

/* Frees places of sockets that were closed without our knowing. */
static void sweep(void)
{
    for (int looks = 0; looks < LOOKS; looks++) {
        hand = (uint16_t)(hand % (POOL - 1) + 1);
        struct tdi_registration *one = &pool[hand];
        if (one->key != 0 && tdi_fd_key(one->fd) != one->key)
            tdi_registry_drop(one);
    }
}

struct tdi_registration *tdi_registry_take(uint64_t key, int epfd, int fd)
{
    uint16_t *head = chain(key), place;
    if (free_places == 0 && used == POOL)
        sweep();
    if (free_places != 0) {
        place = free_places;
        free_places = pool[place].next;
    } else if (used < POOL) {
        place = used++;
    } else {
        uint32_t bit = mix(key) % UNRECORDED_BITS;
        unrecorded[bit / 8] |= (uint8_t)(1u << bit % 8);
        return NULL;
    }
    pool[place] = (struct tdi_registration){.key = key, .epfd = epfd, .fd = fd, .next = *head};
    *head = place;
    return &pool[place];
}

bool tdi_registry_is_whole(uint64_t key)
{
    uint32_t bit = mix(key) % UNRECORDED_BITS;
    return (unrecorded[bit / 8] >> bit % 8 & 1) == 0;
}
