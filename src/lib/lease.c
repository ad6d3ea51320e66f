/* SPDX-License-Identifier: MIT */
/*
 * A thread spends from its lease inside the handshake, so that who takes leases back can wait until it is out:
 * the taker closes the lease, has every thread of the process pass a barrier, and looks whether the thread is
 * inside. It is: again later. It is not: then it has seen, or will see, that the lease is closed.
 */
#include "lib/lease.h"

#include <errno.h>

#include "core/bucket.h"
#include "core/handshake.h"
#include "core/lease.h"
#include "core/queue.h"
#include "lib/acquire.h"
#include "lib/post.h"
#include "plat/futex.h"
#include "plat/proc.h"

#define LOOKS 200 /* at a thread that is inside: operations take nanoseconds, but it may have been stopped */
#define ALL_STRIPES ((UINT32_C(1) << TDI_STATS_SHARED) - 1)

_Atomic(uint32_t) tdi_lease_bell;
static _Atomic(uint32_t) is_asleep; /* who tends leases wants to be woken */

void tdi_lease_ask_to_be_woken(void)
{
    atomic_store(&is_asleep, 1);
    /* Before the look at the lessees; pairs with the fence in ring: one of the two sees the other. */
    atomic_thread_fence(memory_order_seq_cst);
}

static void ring(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (tdi_likely(atomic_load_explicit(&is_asleep, memory_order_relaxed) == 0))
        return;
    atomic_store_explicit(&is_asleep, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&tdi_lease_bell, 1, memory_order_relaxed);
    tdi_futex_wake_all(&tdi_lease_bell);
}

/* What a thread may have; 0: too little. The capacity may be changed at any time. */
static uint32_t tokens_for_a_thread(const struct tundish *bucket)
{
    struct tdi_config config;
    tdi_config_read(bucket->file, &config);
    uint32_t tokens = tdi_lease_share(config.capacity) / TDI_STATS_SHARED;
    tokens = tokens < TDI_LEASE_MAX ? tokens : TDI_LEASE_MAX;
    return tokens < TDI_LEASE_MIN ? 0 : tokens;
}

/* Whether a handler forked since the key was read, and this is the child. */
static bool is_child(const struct tundish *bucket, uint64_t key)
{
    return atomic_load_explicit(&bucket->here->key, memory_order_relaxed) != key;
}

/*
 * Tokens for the calling thread; it is inside, and has `left` of them. A child that a handler forked in the midst
 * finds another key, and has nothing to do with what is the parent's: its place, its seat and its tokens.
 */
static void take_more(struct tundish *bucket, struct tdi_handle_thread *thread, uint64_t key, uint64_t left,
                      uint32_t tokens)
{
    const struct tdi_instance instance = bucket->here->instance;
    atomic_signal_fence(memory_order_seq_cst);
    if (is_child(bucket, key) || !tdi_lease_claim(bucket->file, &instance))
        return;
    ring();
    /* The time after the claim, see core/lease.h. */
    uint64_t now_us = tdi_handle_now_us(bucket);
    uint32_t more = tokens - (uint32_t)left;
    if (is_child(bucket, key) || tdi_bucket_lease(bucket->file, now_us, more) != 0)
        return;
    /* No handler spends or renews meanwhile. The swap fails in a child forked after the look, if anything was left. */
    if (!is_child(bucket, key))
        tdi_atom_swap_own(&thread->leased, left, tokens);
}

/*
 * Takes a new lease, if there is none to speak of. Also inside: nothing is added to a closed one. Nor while
 * somebody waits: all that is held back may be what is missing there.
 */
static void renew(struct tundish *bucket, const struct tdi_post *post, uint64_t key)
{
    struct tdi_handle_thread *thread = &bucket->here->thread[post->index];
    if (!tdi_handshake_enter(&thread->inside))
        return;
    uint32_t tokens = tokens_for_a_thread(bucket);
    uint64_t left = atomic_load_explicit(&thread->leased, memory_order_relaxed);
    bool open = atomic_load_explicit(&thread->closed, memory_order_relaxed) == 0 &&
                tdi_handshake_strategy(post->account) == TUNDISH_LEASED;
    if (open && left < tokens && !tdi_queue_may_be_waiting(bucket->file))
        take_more(bucket, thread, key, left, tokens);
    tdi_handshake_leave(&thread->inside);
}

int tdi_lease_try(struct tundish *bucket, uint32_t n, enum tdi_layout_kind kind)
{
    uint64_t key = atomic_load_explicit(&bucket->here->key, memory_order_relaxed);
    struct tdi_post post = tdi_post_here(bucket);
    int error = tdi_acquire_draw(bucket, n);
    if (error != 0)
        return error;
    if (key != 0 && post.index != TDI_STATS_SHARED && post.account != &bucket->here->own)
        renew(bucket, &post, key);
    tdi_acquire_count(bucket, kind, n, 0, 0);
    return 0;
}

static bool is_out(const struct tdi_handle_thread *thread)
{
    for (int i = 0; i < LOOKS; i++) {
        if (!tdi_handshake_is_inside(&thread->inside))
            return true;
        tdi_proc_yield();
    }
    return false;
}

/* Closed before, and a barrier since. False: its thread is in the middle of an operation. */
static bool take_back(struct tundish *bucket, uint32_t stripe)
{
    struct tdi_handle_thread *thread = &bucket->here->thread[stripe];
    if (!is_out(thread))
        return false;
    uint64_t left = atomic_exchange_explicit(&thread->leased, 0, memory_order_relaxed);
    tdi_bucket_end_lease(bucket->file, tdi_handle_now_us(bucket), (uint32_t)left);
    return true;
}

/* All tokens are back, or spent. */
static void end_being_lessee(struct tundish *bucket)
{
    tdi_bucket_count(bucket->file, tdi_handle_now_us(bucket));
    tdi_lease_release(bucket->file, &bucket->here->instance);
}

static void set_closed(struct tundish *bucket, uint32_t stripe, bool closed)
{
    /* Release: whoever finds it open finds the lease as it was left. */
    atomic_store_explicit(&bucket->here->thread[stripe].closed, closed, memory_order_release);
}

static struct tdi_layout_account *account_of(const struct tundish *bucket)
{
    return atomic_load_explicit(&bucket->here->account, memory_order_relaxed);
}

static int begin_leasing(struct tundish *bucket, struct tdi_layout_account *account)
{
    uint32_t tokens = tokens_for_a_thread(bucket);
    if (tokens == 0 || account == &bucket->here->own || tdi_proc_barrier_prepare() != 0)
        return -ENOTSUP;
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++)
        set_closed(bucket, i, false);
    tdi_handshake_begin_change(account, TUNDISH_LEASED);
    tdi_handshake_note_in_flight(account, 0);
    tdi_post_set_leasing(bucket, true);
    atomic_store_explicit(&bucket->here->lease_tokens, tokens, memory_order_relaxed);
    return 0;
}

static int end_leasing(struct tundish *bucket, struct tdi_layout_account *account)
{
    uint32_t inside = 0;
    if (!tdi_lease_is_on(bucket) && !tdi_lease_is_out(bucket))
        return 0;
    atomic_store_explicit(&bucket->here->lease_tokens, 0, memory_order_relaxed);
    tdi_post_set_leasing(bucket, false);
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++)
        set_closed(bucket, i, true);
    if (tdi_handshake_strategy(account) != TUNDISH_DIRECT)
        tdi_handshake_begin_change(account, TUNDISH_DIRECT);
    /* Where there is none any more (a filter came later) nothing can be taken back without the risk of having it twice. */
    bool passed = tdi_proc_barrier() == 0;
    for (uint32_t i = 0; passed && i < TDI_STATS_SHARED; i++)
        inside += !take_back(bucket, i);
    tdi_handshake_note_in_flight(account, inside);
    if (!passed || inside > 0)
        return -EAGAIN;
    if (tdi_lease_is_out(bucket))
        end_being_lessee(bucket);
    return 0;
}

int tdi_lease_switch(struct tundish *bucket, uint32_t strategy)
{
    struct tdi_layout_account *account = account_of(bucket);
    if (!account || strategy > TUNDISH_LEASED)
        return -ENOTSUP;
    if (strategy == TUNDISH_DIRECT)
        return end_leasing(bucket, account);
    return tdi_lease_is_on(bucket) ? 0 : begin_leasing(bucket, account);
}

/* Whether a thread has let its lease lie. */
static bool is_idle(struct tdi_layout_account *account, struct tdi_handle_thread *thread, uint32_t stripe,
                    uint64_t now_us)
{
    uint64_t operations = tdi_stats_stripe_operations(&account->stripe[stripe]);
    if (operations != thread->spent) {
        thread->spent = operations;
        thread->idle_since_us = now_us;
    }
    return now_us - thread->idle_since_us >= TDI_LEASE_IDLE_US;
}

/* The stripes whose threads have let their leases lie, a bit for each; or all, if nobody is at it any more. */
static uint32_t find_idle(struct tundish *bucket, struct tdi_layout_account *account)
{
    uint64_t now_us = tdi_handle_now_us(bucket);
    uint32_t idle = 0, lying = 0;
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++) {
        struct tdi_handle_thread *thread = &bucket->here->thread[i];
        bool is_leasing = atomic_load_explicit(&thread->leased, memory_order_relaxed) != 0;
        if (is_idle(account, thread, i, now_us)) {
            idle |= UINT32_C(1) << i;
            lying |= (uint32_t)is_leasing << i;
        }
    }
    return idle == ALL_STRIPES ? idle : lying;
}

/* Closes these stripes' leases, takes them back and opens them again; if it is all of them, and all came back, the
   instance is no lessee in between. */
static void take_back_idle(struct tundish *bucket, uint32_t idle)
{
    bool all = idle == ALL_STRIPES;
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++)
        if (idle >> i & 1)
            set_closed(bucket, i, true);
    bool passed = tdi_proc_barrier() == 0; /* as in end_leasing */
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++)
        if (idle >> i & 1)
            all &= passed && take_back(bucket, i);
    if (all)
        end_being_lessee(bucket);
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++)
        if (idle >> i & 1)
            set_closed(bucket, i, false);
}

uint32_t tdi_lease_tokens(const struct tundish *bucket)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < TDI_STATS_SHARED; i++) {
        uint64_t left = atomic_load_explicit(&bucket->here->thread[i].leased, memory_order_relaxed);
        out += (int64_t)left > 0 ? (uint32_t)left : 0;
    }
    return out;
}

bool tdi_lease_is_out(const struct tundish *bucket)
{
    struct tdi_layout_account *account = account_of(bucket);
    bool listed = account && account != &bucket->here->own;
    return listed && tdi_lease_is_lessee(bucket->file, bucket->here->instance.index);
}

/* Nobody is to have more than the present capacity allows, nor anything that somebody waits for. */
static bool has_to_return(struct tundish *bucket)
{
    uint32_t tokens = tokens_for_a_thread(bucket);
    bool fits = tokens == atomic_load_explicit(&bucket->here->lease_tokens, memory_order_relaxed);
    if (!fits && tokens != 0)
        atomic_store_explicit(&bucket->here->lease_tokens, tokens, memory_order_relaxed);
    return !fits || tdi_queue_may_be_waiting(bucket->file);
}

bool tdi_lease_tend(struct tundish *bucket)
{
    struct tdi_layout_account *account = account_of(bucket);
    if (!tdi_lease_is_out(bucket))
        return false;
    if (!tdi_lease_is_on(bucket)) {
        end_leasing(bucket, account);
        return tdi_lease_is_out(bucket);
    }
    uint32_t idle = has_to_return(bucket) ? ALL_STRIPES : find_idle(bucket, account);
    if (idle != 0)
        take_back_idle(bucket, idle);
    return tdi_lease_is_out(bucket);
}
