/* SPDX-License-Identifier: MIT */
/*
 * Where functions are is remembered for each caller's object: two libraries that are loaded each for itself
 * may bring a function of the same name. What is remembered is never changed, only dropped, so it can be read
 * without a lock. The room for it is enough for any program that does not load and unload libraries without
 * end; behind it, functions are looked up at each call.
 */
#include <errno.h>
#include <stddef.h>

#include "hook.h"

#define HOMES_MOST 1024

static struct tdi_home homes[HOMES_MOST];
static atomic_uint homes_used;

static struct tdi_home *take_room(void)
{
    if (atomic_load_explicit(&homes_used, memory_order_relaxed) >= HOMES_MOST)
        return NULL;
    unsigned i = atomic_fetch_add_explicit(&homes_used, 1, memory_order_relaxed);
    return i < HOMES_MOST ? &homes[i] : NULL;
}

static void remember(struct tdi_hook *hook, const struct tdi_home *room)
{
    struct tdi_home *home = NULL;
    for (unsigned i = 0; i < TDI_HOMES; i++) {
        const struct tdi_home *none = NULL;
        if (atomic_load_explicit(&hook->home[i], memory_order_relaxed) != NULL)
            continue;
        if (home == NULL && (home = take_room()) == NULL)
            return;
        *home = *room;
        /* Pairs with the acquire in recall: the home must be complete before it is seen. */
        if (atomic_compare_exchange_strong_explicit(&hook->home[i], &none, home, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
}

static const struct tdi_home *recall(struct tdi_hook *hook, const void *caller)
{
    for (unsigned i = 0; i < TDI_HOMES; i++) {
        /* Pairs with the release in remember. */
        const struct tdi_home *home = atomic_load_explicit(&hook->home[i], memory_order_acquire);
        if (home != NULL && tdi_range_has(&home->users, caller))
            return home;
    }
    return NULL;
}

const struct tdi_home *tdi_hook_home(struct tdi_hook *hook, const void *caller, struct tdi_home *room)
{
    const struct tdi_home *home = recall(hook, caller);
    if (home != NULL)
        return home;
    tdi_function *told = atomic_load_explicit(&hook->told, memory_order_relaxed);
    struct tdi_found found = tdi_find(hook->name, told, caller);
    if (found.function == NULL)
        return NULL;
    bool meant = hook->library == NULL || tdi_find_is_in((const void *)found.home.from, hook->library);
    *room = (struct tdi_home){found.users, found.function, found.home, meant};
    if (meant)
        atomic_store_explicit(&hook->met, true, memory_order_relaxed);
    if (found.users.to > found.users.from)
        remember(hook, room);
    return room;
}

static bool is_gone(const struct tdi_range *range)
{
    struct tdi_range now;
    return range->to != UINTPTR_MAX && (!tdi_find_object((const void *)range->from, &now) ||
                                        now.from != range->from || now.to != range->to);
}

static void forget_of(struct tdi_hook *hook)
{
    struct tdi_range object;
    const void *told = (const void *)(uintptr_t)atomic_load_explicit(&hook->told, memory_order_relaxed);
    if (told != NULL && !tdi_find_object(told, &object))
        atomic_store_explicit(&hook->told, NULL, memory_order_relaxed);
    for (unsigned i = 0; i < TDI_HOMES; i++) {
        const struct tdi_home *home = atomic_load_explicit(&hook->home[i], memory_order_acquire);
        if (home != NULL && (is_gone(&home->users) || is_gone(&home->object)))
            (void)atomic_compare_exchange_strong_explicit(&hook->home[i], &home, NULL, memory_order_relaxed,
                                                          memory_order_relaxed);
    }
}

void tdi_hook_forget(void)
{
    int saved_errno = errno;
    for (uint32_t i = 0; i < tdi_hooks; i++)
        forget_of(&tdi_hook[i]);
    errno = saved_errno;
}
