/* SPDX-License-Identifier: MIT */
/*
 * Where the calling thread counts what it does: its stripe of the handle's account, found in one look.
 *
 * A thread keeps a note for each handle: the handle's key and the stripe that the thread has there. Keys are
 * handed out once per process and wiped by a fork, so a note on a closed handle, or on the parent's, fits no
 * key. Nor does the note of a thread that shares the last stripe, but for those who allow for that.
 */
#ifndef TUNDISH_LIB_POST_H
#define TUNDISH_LIB_POST_H

#include "core/ring.h"
#include "core/stats.h"
#include "lib/handle.h"

#define TDI_POST_NOTES 8 /* more handles than this share notes, and look for their stripes more often */

#define TDI_POST_NONE UINT64_MAX            /* the key of a note that says nothing */
#define TDI_POST_SHARES (UINT64_C(1) << 63) /* in the key of a note: the stripe is the last one */

struct tdi_post_note {
    struct tdi_layout_stripe *stripe;
    struct tdi_handle_thread *thread;
    uint64_t key;
    uint64_t writing; /* the thread is at it: a signal handler leaves it alone */
};

struct tdi_post {
    struct tdi_layout_account *account;
    struct tdi_layout_account *rest; /* to count in too, by its shared stripe; NULL for most */
    uint32_t index;
    struct tdi_layout_stripe *stripe;
};

/* Where threads have their note on a new handle: its distance from the thread pointer. */
uint64_t tdi_post_new(void);

/* Opens the account in the instance's place, or the handle's own if there is none; and leaves it. */
void tdi_post_open(struct tundish *bucket, const struct tdi_instance *instance);
void tdi_post_close(struct tundish *bucket);

/* Whether acquires are as simple as DIRECT, or may spend what is on lease. */
void tdi_post_set_leasing(struct tundish *bucket, bool leasing);

/*
 * The thread's note on the handle, as it is. The key is read first and last: a signal handler that writes the note in
 * between, from or to that of another handle which shares it, is noticed.
 */
TDI_INLINE struct tdi_post_note tdi_post_noted(const struct tundish *bucket)
{
    uint64_t distance = bucket->post;
    uint64_t before, stripe, thread, key;
    tdi_atom_own_word(&before, distance, offsetof(struct tdi_post_note, key));
    atomic_signal_fence(memory_order_seq_cst);
    tdi_atom_own_word(&stripe, distance, offsetof(struct tdi_post_note, stripe));
    tdi_atom_own_word(&thread, distance, offsetof(struct tdi_post_note, thread));
    atomic_signal_fence(memory_order_seq_cst);
    tdi_atom_own_word(&key, distance, offsetof(struct tdi_post_note, key));
    return (struct tdi_post_note){
        .stripe = (struct tdi_layout_stripe *)(uintptr_t)stripe,
        .thread = (struct tdi_handle_thread *)(uintptr_t)thread,
        .key = before == key ? key : TDI_POST_NONE,
    };
}

/*
 * Whether one acquire is one compare-and-swap and nothing else, or may spend what is on lease. Relaxed: the note
 * was written by this thread, after it had seen the key. Key 0 is noted by nobody.
 */
TDI_INLINE bool tdi_post_is_direct(const struct tdi_handle_here *here, const struct tdi_post_note *note)
{
    return tdi_likely(note->key == atomic_load_explicit(&here->direct_key, memory_order_relaxed));
}

TDI_INLINE bool tdi_post_is_leasing(const struct tdi_handle_here *here, const struct tdi_post_note *note)
{
    return tdi_likely(note->key == atomic_load_explicit(&here->leasing_key, memory_order_relaxed));
}

/* The calling thread's place in the account. */
struct tdi_post tdi_post_here(struct tundish *bucket);

/* Counting there. */
void tdi_post_sum(const struct tdi_post *post, enum tdi_layout_sum sum, uint64_t n);

/* Records one operation that did not wait, if it is its turn; returns `error`. */
int tdi_post_record(struct tundish *bucket, enum tdi_layout_kind kind, uint32_t tokens, int error);

/* Whether this operation is one to be recorded. By the stripe's thread, where something is recorded. */
TDI_INLINE bool tdi_post_is_due(const struct tdi_layout_stripe *stripe, struct tdi_handle_thread *thread)
{
    uint32_t skipped = atomic_load_explicit(&thread->skipped, memory_order_relaxed) + 1;
    bool due = skipped >= tdi_ring_every(stripe);
    atomic_store_explicit(&thread->skipped, due ? 0 : skipped, memory_order_relaxed);
    return due;
}

/* Records an operation that is due and was over at that time, in the calling thread's own stripe. */
void tdi_post_record_own(struct tundish *bucket, struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind,
                         uint32_t tokens, int error, uint64_t at_us);

/* An operation is over: 0 granted, -EAGAIN or -E2BIG refused, else given up. Counts and records. */
void tdi_post_count(struct tundish *bucket, enum tdi_layout_kind kind, uint32_t n, int error,
                    uint64_t began_ns);

#endif
