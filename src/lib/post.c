/* SPDX-License-Identifier: MIT */
/* See post.h. */
#include "lib/post.h"

#include <errno.h>

#include "core/handshake.h"
#include "plat/clock.h"
#include "plat/file.h"
#include "plat/proc.h"

#define PATIENCE 1000 /* looks at a key that another thread is about to write */

#define BLANK                                                                                                \
    {                                                                                                        \
        NULL, NULL, TDI_POST_NONE, 0                                                                         \
    }

static _Thread_local struct tdi_post_note notes[TDI_POST_NOTES]
    __attribute__((tls_model("initial-exec"))) = {BLANK, BLANK, BLANK, BLANK, BLANK, BLANK, BLANK, BLANK};

static uint64_t new_key(void)
{
    static _Atomic(uint64_t) keys;
    return atomic_fetch_add_explicit(&keys, 1, memory_order_relaxed) + 1;
}

uint64_t tdi_post_new(void)
{
    static _Atomic(uint32_t) handles;
    uint32_t handle = atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
    return (uint64_t)((char *)&notes[handle % TDI_POST_NOTES] - tdi_atom_thread());
}

/* The account in the file if it has, or can be given, memory. */
static struct tdi_layout_account *account_of(struct tundish *bucket, const struct tdi_instance *instance)
{
    struct tdi_layout_account *account = &bucket->file->account[instance->index];
    if (!tdi_instance_has(bucket->file, instance->index, TDI_MEMORY_ACCOUNT)) {
        if (tdi_file_populate(account, sizeof *account) != 0)
            return NULL;
        tdi_instance_note_memory(bucket->file, instance->index, TDI_MEMORY_ACCOUNT);
    }
    return account;
}

/* Each count is moved once, whoever adds to it meanwhile; `also` may be NULL. */
static void move_early(struct tdi_handle_here *here, struct tdi_layout_account *to,
                       struct tdi_layout_account *also)
{
    _Atomic(uint64_t) *source = &here->early.tally.count[0][0];
    _Atomic(uint64_t) *target = &to->stripe[TDI_STATS_SHARED].tally.count[0][0];
    _Atomic(uint64_t) *other = also ? &also->stripe[TDI_STATS_SHARED].tally.count[0][0] : NULL;
    for (uint32_t i = 0; i < sizeof(struct tdi_layout_tally) / sizeof(*source); i++) {
        uint64_t n = atomic_exchange_explicit(&source[i], 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&target[i], n, memory_order_relaxed);
        if (other)
            atomic_fetch_add_explicit(&other[i], n, memory_order_relaxed);
    }
}

/* From now on threads count in this account; none has a note of its key yet. */
static void begin(struct tdi_handle_here *here, struct tdi_layout_account *account)
{
    uint64_t key = new_key();
    atomic_store_explicit(&here->account, account, memory_order_relaxed);
    /* Pairs with the acquire in await_key. */
    atomic_store_explicit(&here->key, key, memory_order_release);
    atomic_store_explicit(&here->leasing_key, 0, memory_order_relaxed);
    atomic_store_explicit(&here->direct_key, key, memory_order_relaxed);
}

/* The account of all handles without a place; NULL if it cannot be given memory. */
static struct tdi_layout_account *rest_of(struct tundish *bucket)
{
    struct tdi_layout_account *rest = &bucket->file->rest;
    if (tdi_instance_has_rest(bucket->file))
        return rest;
    if (tdi_file_populate(rest, sizeof *rest) != 0)
        return NULL;
    tdi_instance_note_rest(bucket->file);
    return rest;
}

/* A handle without a place counts for itself, for its sidecar to ask, and in the file's rest, for everybody. */
void tdi_post_open(struct tundish *bucket, const struct tdi_instance *instance)
{
    struct tdi_handle_here *here = bucket->here;
    struct tdi_layout_account *account = instance ? account_of(bucket, instance) : NULL;
    struct tdi_layout_account *rest = account ? NULL : rest_of(bucket);
    if (account) {
        tdi_handshake_begin(account);
        tdi_ring_begin(account, tdi_handle_now_us(bucket));
        tdi_stats_begin(account, instance->owner);
    }
    account = account ? account : &here->own;
    atomic_store_explicit(&here->rest, rest, memory_order_relaxed);
    begin(here, account);
    move_early(here, account, rest);
}

void tdi_post_close(struct tundish *bucket)
{
    struct tdi_handle_here *here = bucket->here;
    struct tdi_layout_account *account = atomic_load_explicit(&here->account, memory_order_relaxed);
    if (account)
        move_early(here, account, atomic_load_explicit(&here->rest, memory_order_relaxed));
    begin(here, &here->own);
}

void tdi_post_set_leasing(struct tundish *bucket, bool leasing)
{
    struct tdi_handle_here *here = bucket->here;
    uint64_t key = atomic_load_explicit(&here->key, memory_order_relaxed);
    bool leases = leasing && atomic_load_explicit(&here->account, memory_order_relaxed) != &here->own;
    atomic_store_explicit(&here->direct_key, leases ? 0 : key, memory_order_relaxed);
    atomic_store_explicit(&here->leasing_key, leases ? key : 0, memory_order_relaxed);
}

static uint32_t claim(struct tdi_handle_here *here, uint32_t thread, bool from_the_dead)
{
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++) {
        uint32_t owner = atomic_load_explicit(&here->thread[i].id, memory_order_relaxed);
        if (owner == thread)
            return i;
        bool free = owner == 0 || (from_the_dead && !tdi_proc_thread_lives(owner));
        /* Acquire for what a thread that is gone has left; it is not there any more, so nothing pairs. */
        if (free && atomic_compare_exchange_strong_explicit(&here->thread[i].id, &owner, thread,
                                                            memory_order_acquire, memory_order_relaxed))
            return i;
    }
    return TDI_STATS_SHARED;
}

/* The calling thread's stripe: the one it has, a free one, one whose thread is gone, else the shared one. */
static uint32_t find_stripe(struct tdi_handle_here *here)
{
    uint32_t thread = tdi_proc_thread();
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++)
        if (atomic_load_explicit(&here->thread[i].id, memory_order_relaxed) == thread)
            return i;
    uint32_t stripe = claim(here, thread, false);
    return stripe != TDI_STATS_SHARED ? stripe : claim(here, thread, true);
}

/* Waits a little for a thread that is just entering; it may be the one that this signal handler interrupted. */
static uint64_t await_key(const struct tdi_handle_here *here)
{
    uint64_t key;
    for (int i = 0; (key = atomic_load_explicit(&here->key, memory_order_acquire)) == 0 && i < PATIENCE; i++)
        tdi_proc_yield();
    return key;
}

static struct tdi_post post_at(const struct tdi_handle_here *here, struct tdi_layout_account *account,
                               struct tdi_layout_stripe *stripe)
{
    struct tdi_layout_account *rest =
        account == &here->own ? atomic_load_explicit(&here->rest, memory_order_relaxed) : NULL;
    return (struct tdi_post){account, rest, (uint32_t)(stripe - account->stripe), stripe};
}

static struct tdi_post post_early(struct tdi_handle_here *here)
{
    return (struct tdi_post){&here->own, NULL, TDI_STATS_SHARED, &here->early};
}

/*
 * A signal handler in the midst of this finds no key, and does without a note. The key is withdrawn first and written
 * last.
 */
static void write_note(const struct tundish *bucket, uint64_t key, const struct tdi_post *post)
{
    struct tdi_post_note *note = (struct tdi_post_note *)(void *)(tdi_atom_thread() + bucket->post);
    if (note->writing)
        return;
    note->writing = 1;
    atomic_signal_fence(memory_order_seq_cst);
    note->key = TDI_POST_NONE;
    atomic_signal_fence(memory_order_seq_cst);
    note->stripe = post->stripe;
    note->thread = &bucket->here->thread[post->index];
    atomic_signal_fence(memory_order_seq_cst);
    note->key = key;
    atomic_signal_fence(memory_order_seq_cst);
    note->writing = 0;
}

static struct tdi_post find(struct tundish *bucket)
{
    struct tdi_handle_here *here = bucket->here;
    tdi_handle_enter(bucket);
    uint64_t key = await_key(here);
    struct tdi_layout_account *account = atomic_load_explicit(&here->account, memory_order_relaxed);
    if (key == 0 || !account) /* or a handler forked in between: this is the child, which has none yet */
        return post_early(here);
    /* A child that lives in its parent's memory (vfork) is not a thread of it; and without a place all share. */
    bool shares = here->self.pid != 0 && here->self.pid != tdi_proc_pid();
    bool has_stripe = !shares && account != &here->own;
    uint32_t index = has_stripe ? find_stripe(here) : TDI_STATS_SHARED;
    struct tdi_post post = post_at(here, account, &account->stripe[index]);
    if (!shares)
        write_note(bucket, index == TDI_STATS_SHARED ? key | TDI_POST_SHARES : key, &post);
    return post;
}

struct tdi_post tdi_post_here(struct tundish *bucket)
{
    /* Acquire pairs with the release in begin. */
    uint64_t key = atomic_load_explicit(&bucket->here->key, memory_order_acquire);
    struct tdi_post_note note = tdi_post_noted(bucket);
    struct tdi_layout_account *account = atomic_load_explicit(&bucket->here->account, memory_order_relaxed);
    /* No account: a handler forked just now, this is the child. */
    if (key == 0 || !account || (note.key & ~TDI_POST_SHARES) != key)
        return find(bucket);
    return post_at(bucket->here, account, note.stripe);
}

void tdi_post_sum(const struct tdi_post *post, enum tdi_layout_sum sum, uint64_t n)
{
    if (tdi_likely(post->index != TDI_STATS_SHARED))
        tdi_stats_sum(post->stripe, sum, n);
    else
        tdi_stats_sum_shared(post->stripe, sum, n);
    if (tdi_unlikely(post->rest))
        tdi_stats_sum_shared(&post->rest->stripe[TDI_STATS_SHARED], sum, n);
}

/* Puts a record into the ring of a stripe. A ring without memory is one that only a spoilt file says to write to. */
static void push(struct tundish *bucket, uint32_t stripe, struct tdi_observation observation)
{
    struct tdi_handle_here *here = bucket->here;
    struct tdi_handle_thread *thread = &here->thread[stripe];
    if (!tdi_instance_has(bucket->file, here->instance.index, TDI_MEMORY_RINGS))
        return;
    observation.process = here->self.pid;
    observation.thread = stripe != TDI_STATS_SHARED ? atomic_load_explicit(&thread->id, memory_order_relaxed)
                                                    : tdi_proc_thread();
    tdi_ring_push(bucket->file, here->instance.index, stripe, &thread->pushing, &observation);
}

static void record(struct tundish *bucket, const struct tdi_post *post, enum tdi_layout_kind kind,
                   uint32_t tokens, int error, uint64_t began_ns)
{
    if (post->account == &bucket->here->own ||
        !tdi_post_is_due(post->stripe, &bucket->here->thread[post->index]))
        return;
    uint64_t now_ns = tdi_clock_now_ns();
    push(bucket, post->index,
         (struct tdi_observation){
             .at_us = tdi_handle_us(bucket, now_ns),
             .wait_ns = began_ns ? now_ns - began_ns : 0,
             .tokens = tokens,
             .kind = (uint16_t)kind,
             .error = (uint16_t)-error,
         });
}

int tdi_post_record(struct tundish *bucket, enum tdi_layout_kind kind, uint32_t tokens, int error)
{
    struct tdi_post post = tdi_post_here(bucket);
    record(bucket, &post, kind, tokens, error, 0);
    return error;
}

void tdi_post_record_own(struct tundish *bucket, struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind,
                         uint32_t tokens, int error, uint64_t at_us)
{
    struct tdi_layout_account *account = atomic_load_explicit(&bucket->here->account, memory_order_relaxed);
    /* No account: a handler forked in the middle, this is the child. */
    if (!account || account == &bucket->here->own)
        return;
    if (tdi_ring_is_full(account, stripe)) {
        tdi_stats_sum(stripe, TDI_SUM_DROPPED, 1);
        return;
    }
    push(bucket, (uint32_t)(stripe - account->stripe),
         (struct tdi_observation){
             .at_us = at_us, .tokens = tokens, .kind = (uint16_t)kind, .error = (uint16_t)-error});
}

static enum tdi_layout_count count_of(int error)
{
    return error == -EAGAIN || error == -E2BIG ? TDI_COUNT_REFUSED : TDI_COUNT_ENDED;
}

static void count_shared(struct tdi_layout_stripe *stripe, enum tdi_layout_kind kind, uint32_t n, int error)
{
    if (error == 0)
        tdi_stats_grant_shared(stripe, kind, n);
    else
        tdi_stats_count_shared(stripe, kind, count_of(error));
}

static void count(const struct tdi_post *post, enum tdi_layout_kind kind, uint32_t n, int error)
{
    if (tdi_unlikely(post->index == TDI_STATS_SHARED))
        count_shared(post->stripe, kind, n, error);
    else if (error == 0)
        tdi_stats_grant(post->stripe, kind, n);
    else
        tdi_stats_count(post->stripe, kind, count_of(error));
    if (tdi_unlikely(post->rest))
        count_shared(&post->rest->stripe[TDI_STATS_SHARED], kind, n, error);
}

void tdi_post_count(struct tundish *bucket, enum tdi_layout_kind kind, uint32_t n, int error,
                    uint64_t began_ns)
{
    struct tdi_post post = tdi_post_here(bucket);
    count(&post, kind, n, error);
    if (began_ns != 0) {
        uint64_t waited_ns = tdi_clock_now_ns() - began_ns;
        tdi_post_sum(&post, error == 0 ? TDI_SUM_WAITED_NS : TDI_SUM_ENDED_NS, waited_ns);
        if (error == 0)
            tdi_stats_note_wait(post.account, waited_ns);
        if (error == 0 && post.rest)
            tdi_stats_note_wait(post.rest, waited_ns);
    }
    if (tdi_unlikely(tdi_ring_every(post.stripe) != 0))
        record(bucket, &post, kind, n, error, began_ns);
}
