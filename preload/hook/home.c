/* SPDX-License-Identifier: MIT */
/*
 * Where functions are. What was loaded at the start stays, and an answer from there is the same for everybody:
 * it is written once and read for ever. Other libraries come and go, and two that are loaded each for itself
 * may bring a function of the same name: such answers are remembered for each caller's object, and hold until
 * any library is closed. They can be written again at any time, so each has a version, which is odd while it is
 * written; a reader that saw it change has read nothing.
 *
 * While a library is being closed nothing is remembered or recalled: its addresses may be another's already.
 * Who sees the other library there also sees that the closing had begun, as the kernel did one after the other.
 */
#include <errno.h>
#include <stddef.h>

#include "hook.h"

static _Atomic(uint32_t) closings_begun, closings_ended;

void tdi_hook_closing_begins(void)
{
    atomic_fetch_add(&closings_begun, 1); /* seq_cst, as the end: the two are compared */
}

void tdi_hook_closing_ends(void)
{
    atomic_fetch_add(&closings_ended, 1);
}

void tdi_hook_closing_after_fork(void)
{
    atomic_store(&closings_ended, atomic_load(&closings_begun)); /* other threads' are the parent's */
}

/* Whether nothing is being closed, and how often something was. */
static bool is_settled(uint32_t *closings)
{
    *closings = atomic_load(&closings_ended); /* first: what begins between the two is noticed */
    return atomic_load(&closings_begun) == *closings;
}

enum {
    USERS_FROM,
    USERS_TO,
    FUNCTION,
    OBJECT_FROM,
    OBJECT_TO,
    MEANT,
};

static void read_words(const struct tdi_memory *memory, struct tdi_home *home)
{
    uintptr_t word[TDI_MEMORY_WORDS];
    for (unsigned i = 0; i < TDI_MEMORY_WORDS; i++)
        word[i] = atomic_load_explicit(&memory->word[i], memory_order_relaxed);
    *home = (struct tdi_home){{word[USERS_FROM], word[USERS_TO]},
                              (tdi_function *)word[FUNCTION],
                              {word[OBJECT_FROM], word[OBJECT_TO]},
                              word[MEANT] != 0};
}

static void write_words(struct tdi_memory *memory, const struct tdi_home *home)
{
    const uintptr_t word[TDI_MEMORY_WORDS] = {
        [USERS_FROM] = home->users.from,        [USERS_TO] = home->users.to,
        [FUNCTION] = (uintptr_t)home->function, [OBJECT_FROM] = home->object.from,
        [OBJECT_TO] = home->object.to,          [MEANT] = home->meant};
    for (unsigned i = 0; i < TDI_MEMORY_WORDS; i++)
        atomic_store_explicit(&memory->word[i], word[i], memory_order_relaxed);
}

static bool recall_one(const struct tdi_memory *memory, uint32_t closings, const void *caller,
                       struct tdi_home *home)
{
    /* Pairs with the release in remember_in: the words are those of this version, or newer. */
    uint32_t version = atomic_load_explicit(&memory->version, memory_order_acquire);
    if (version % 2 != 0 || atomic_load_explicit(&memory->closings, memory_order_relaxed) != closings)
        return false;
    read_words(memory, home);
    /* Pairs with the release fence in remember_in: who read a newer word sees a newer version. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&memory->version, memory_order_relaxed) == version &&
           tdi_range_has(&home->users, caller);
}

static bool recall(const struct tdi_hook *hook, const void *caller, struct tdi_home *home)
{
    uint32_t closings;
    if (!is_settled(&closings))
        return false;
    for (unsigned i = 0; i < TDI_MEMORIES; i++)
        if (recall_one(&hook->memory[i], closings, caller, home))
            return true;
    return false;
}

static void remember_in(struct tdi_memory *memory, uint32_t closings, const struct tdi_home *home)
{
    uint32_t version = atomic_load_explicit(&memory->version, memory_order_relaxed);
    if (version % 2 != 0 ||
        !atomic_compare_exchange_strong_explicit(&memory->version, &version, version + 1,
                                                 memory_order_relaxed, memory_order_relaxed))
        return; /* somebody else is at it */
    /* Pairs with the acquire fence in recall_one. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&memory->closings, closings, memory_order_relaxed);
    write_words(memory, home);
    /* Pairs with the acquire in recall_one. */
    atomic_store_explicit(&memory->version, version + 2, memory_order_release);
}

/* In a place that is of no use any more, else in one after the other. */
static void remember(struct tdi_hook *hook, uint32_t closings, const struct tdi_home *home)
{
    for (unsigned i = 0; i < TDI_MEMORIES; i++) {
        struct tdi_memory *memory = &hook->memory[i];
        if (atomic_load_explicit(&memory->version, memory_order_relaxed) == 0 ||
            atomic_load_explicit(&memory->closings, memory_order_relaxed) != closings) {
            remember_in(memory, closings, home);
            return;
        }
    }
    unsigned next = atomic_fetch_add_explicit(&hook->next_memory, 1, memory_order_relaxed);
    remember_in(&hook->memory[next % TDI_MEMORIES], closings, home);
}

static void make_common(struct tdi_hook *hook, const struct tdi_home *home)
{
    if (atomic_flag_test_and_set_explicit(&hook->common_taken, memory_order_relaxed))
        return;
    hook->common = *home;
    /* Pairs with the acquire in tdi_hook_home. */
    atomic_store_explicit(&hook->has_common, true, memory_order_release);
}

static bool is_meant(const struct tdi_hook *hook, const struct tdi_found *found)
{
    return hook->library == NULL || tdi_find_is_in((const void *)found->home.from, hook->library);
}

const struct tdi_home *tdi_hook_home(struct tdi_hook *hook, const void *caller, struct tdi_home *room)
{
    /* Pairs with the release in make_common. */
    if (atomic_load_explicit(&hook->has_common, memory_order_acquire))
        return &hook->common;
    if (recall(hook, caller, room))
        return room;
    uint32_t closings;
    bool settled = is_settled(&closings);
    tdi_function *told = atomic_load_explicit(&hook->told, memory_order_relaxed);
    struct tdi_found found = tdi_find(hook->name, told, caller);
    if (found.function == NULL)
        return NULL;
    *room = (struct tdi_home){found.users, found.function, found.home, is_meant(hook, &found)};
    if (room->meant)
        atomic_store_explicit(&hook->met, true, memory_order_relaxed);
    if (found.way == TDI_FOUND_AT_START)
        make_common(hook, room);
    else if (settled && found.users.to > found.users.from)
        remember(hook, closings, room);
    return room;
}

void tdi_hook_take_from(struct tdi_hook *hook, const char *library)
{
    struct tdi_home room;
    hook->library = library;
    atomic_store(&hook->has_common, false);
    atomic_flag_clear(&hook->common_taken);
    atomic_store(&hook->met, false);
    (void)tdi_hook_home(hook, NULL, &room);
}
