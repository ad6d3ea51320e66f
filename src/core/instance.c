/* SPDX-License-Identifier: MIT */
/*
 * The owner word is namespace << 54 | pid << 32 | number: a digest of the pid namespace, and a pid has no more
 * than 22 bits. Numbers come from one counter of the file and are not 0, so an entry that was freed and taken again
 * has another word. The identity is written after the claim and then signed with the owner word; where the signature
 * is another's, because somebody is just entering or was killed there, all that is known is in the word.
 */
#include "core/instance.h"

#include <errno.h>
#include <string.h>

#include "core/lease.h"

uint32_t tdi_instance_number(struct tdi_layout *file)
{
    uint32_t number;
    do
        number = atomic_fetch_add_explicit(&file->instances.next_owner, 1, memory_order_relaxed);
    while (number == 0);
    return number;
}

#define PID_BITS 22
#define PID_MASK ((UINT32_C(1) << PID_BITS) - 1)

static uint64_t word_of(const struct tdi_identity *who, uint32_t number)
{
    uint64_t digest = tdi_proc_digest(who->pid_namespace);
    return digest << (32 + PID_BITS) | (uint64_t)(who->pid & PID_MASK) << 32 | number;
}

static void read_word(uint64_t owner, struct tdi_identity *who)
{
    memset(who, 0, sizeof *who);
    who->pid = (uint32_t)(owner >> 32) & PID_MASK;
    who->namespace_digest = (uint32_t)(owner >> (32 + PID_BITS));
}

static void write_identity(struct tdi_layout_instance *entry, const struct tdi_identity *who, uint64_t owner)
{
    uint64_t program[2];
    memcpy(program, who->program, sizeof program);
    /* Release pairs with the fence in tdi_instance_get: who sees a new field sees the claim before it, and
       does not take the field for the former owner's. */
    atomic_store_explicit(&entry->start_time, who->start_time, memory_order_release);
    atomic_store_explicit(&entry->pid_namespace, who->pid_namespace, memory_order_release);
    atomic_store_explicit(&entry->image, who->image, memory_order_release);
    atomic_store_explicit(&entry->program[0], program[0], memory_order_release);
    atomic_store_explicit(&entry->program[1], program[1], memory_order_release);
    /* Pairs with the acquire in tdi_instance_get: the signature comes after what it signs. */
    atomic_store_explicit(&entry->identified, owner, memory_order_release);
}

int tdi_instance_enter(struct tdi_layout *file, const struct tdi_identity *who, uint32_t number,
                       struct tdi_instance *out)
{
    uint64_t owner = word_of(who, number);
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++) {
        uint64_t expected = 0;
        /* Acquire pairs with the release in tdi_instance_leave: the former owner's last counts are seen. */
        if (!atomic_compare_exchange_strong_explicit(&file->instance[i].owner, &expected, owner,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        write_identity(&file->instance[i], who, owner);
        *out = (struct tdi_instance){i, owner};
        return 0;
    }
    *out = (struct tdi_instance){0, 0};
    return -ENOSPC;
}

void tdi_instance_leave(struct tdi_layout *file, const struct tdi_instance *instance)
{
    uint64_t expected = instance->owner;
    if (expected != 0)
        tdi_lease_release(file, instance);
    /* Release pairs with the acquire in tdi_instance_get: who finds nobody here sees that we forked. */
    if (expected != 0)
        atomic_compare_exchange_strong_explicit(&file->instance[instance->index % TDI_LAYOUT_INSTANCES].owner,
                                                &expected, 0, memory_order_release, memory_order_relaxed);
}

/* What was written before the signature; its reader looks afterwards whether that still holds. */
static void read_identity(const struct tdi_layout_instance *entry, struct tdi_identity *who)
{
    uint64_t program[2];
    who->start_time = atomic_load_explicit(&entry->start_time, memory_order_relaxed);
    who->pid_namespace = atomic_load_explicit(&entry->pid_namespace, memory_order_relaxed);
    who->image = atomic_load_explicit(&entry->image, memory_order_relaxed);
    program[0] = atomic_load_explicit(&entry->program[0], memory_order_relaxed);
    program[1] = atomic_load_explicit(&entry->program[1], memory_order_relaxed);
    memcpy(who->program, program, sizeof program);
    who->program[sizeof who->program - 1] = '\0';
}

bool tdi_instance_get(const struct tdi_layout *file, uint32_t index, struct tdi_instance *out,
                      struct tdi_identity *who)
{
    const struct tdi_layout_instance *entry = &file->instance[index];
    uint64_t owner = atomic_load_explicit(&entry->owner, memory_order_acquire);
    if (owner == 0)
        return false;
    read_word(owner, who);
    /* Pairs with the release in write_identity. */
    if (atomic_load_explicit(&entry->identified, memory_order_acquire) == owner)
        read_identity(entry, who);
    *out = (struct tdi_instance){index, owner};
    /* Keeps the loads above before the second look: a later owner's identity is not taken for this one's. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->owner, memory_order_relaxed) == owner;
}

bool tdi_instance_get_last(const struct tdi_layout *file, uint32_t index, struct tdi_identity *who)
{
    const struct tdi_layout_instance *entry = &file->instance[index];
    uint64_t owner = atomic_load_explicit(&entry->owner, memory_order_acquire);
    /* Pairs with the release in write_identity. */
    uint64_t signature = atomic_load_explicit(&entry->identified, memory_order_acquire);
    if (signature == 0 || (owner != 0 && owner != signature))
        return false;
    read_word(signature, who);
    read_identity(entry, who);
    /* As in tdi_instance_get: who saw a field of the next owner's sees its claim. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->owner, memory_order_relaxed) == owner &&
           atomic_load_explicit(&entry->identified, memory_order_relaxed) == signature;
}

uint32_t tdi_instance_count(const struct tdi_layout *file)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        taken += atomic_load_explicit(&file->instance[i].owner, memory_order_relaxed) != 0;
    return taken;
}

bool tdi_instance_has(const struct tdi_layout *file, uint32_t index, uint64_t memory)
{
    /* Pairs with the release in tdi_instance_note_memory: the memory was there before it was said. */
    return (atomic_load_explicit(&file->instance[index].memory, memory_order_acquire) & memory) == memory;
}

void tdi_instance_note_memory(struct tdi_layout *file, uint32_t index, uint64_t memory)
{
    atomic_fetch_or_explicit(&file->instance[index].memory, memory, memory_order_release);
}

bool tdi_instance_has_rest(const struct tdi_layout *file)
{
    /* Pairs with the release in tdi_instance_note_rest. */
    return atomic_load_explicit(&file->instances.memory, memory_order_acquire) & TDI_MEMORY_REST;
}

void tdi_instance_note_rest(struct tdi_layout *file)
{
    atomic_fetch_or_explicit(&file->instances.memory, TDI_MEMORY_REST, memory_order_release);
}

/* One time for all who fork, the latest: it outlives their entries, and is there for those without one. */
void tdi_instance_note_fork(struct tdi_layout *file, uint64_t now_us)
{
    uint64_t forked_us = atomic_load_explicit(&file->identity.forked_us, memory_order_relaxed);
    now_us += now_us == 0;
    while (forked_us - now_us > TDI_INSTANCE_FORK_US && /* earlier, or too far ahead to be true */
           !atomic_compare_exchange_weak_explicit(&file->identity.forked_us, &forked_us, now_us,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/* A little ahead is somebody who read the clock after us. */
bool tdi_instance_forked_lately(const struct tdi_layout *file, uint64_t now_us)
{
    uint64_t forked_us = atomic_load_explicit(&file->identity.forked_us, memory_order_relaxed);
    uint64_t apart_us = forked_us > now_us ? forked_us - now_us : now_us - forked_us;
    return forked_us != 0 && apart_us < TDI_INSTANCE_FORK_US;
}

void tdi_instance_count_unlisted(struct tdi_layout *file)
{
    atomic_fetch_add_explicit(&file->instances.unlisted, 1, memory_order_relaxed);
}

uint32_t tdi_instance_unlisted(const struct tdi_layout *file)
{
    return atomic_load_explicit(&file->instances.unlisted, memory_order_relaxed);
}
