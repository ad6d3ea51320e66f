/* SPDX-License-Identifier: MIT */
/*
 * Entering, leaving and changing, step by step in one thread; and threads that enter all the while, beside one
 * that changes the strategy and waits until nobody is left who might go by the old one.
 */
#include <pthread.h>
#include <string.h>

#include "core/handshake.h"
#include "plat/proc.h"
#include "unit.h"

static struct tdi_layout_account *new_account(void)
{
    struct tdi_config config = unit_config(100, 10, SECOND_US, 0);
    return &unit_file(&config, 100)->account[7];
}

static uint64_t in_flight(const struct tdi_layout_account *account)
{
    return tdi_handshake_in_flight(account, 0) + tdi_handshake_in_flight(account, 1);
}

START_TEST(who_has_entered_is_in_flight_until_it_leaves)
{
    struct tdi_layout_account *account = new_account();
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
        struct tdi_handshake self = tdi_handshake_enter(account, stripe);
        ck_assert_uint_eq(self.generation, tdi_handshake_generation(account));
        ck_assert_uint_eq(tdi_handshake_in_flight(account, self.generation), 1);
        ck_assert_uint_eq(tdi_handshake_in_flight(account, self.generation + 1), 0);
        ck_assert_int_eq(tdi_handshake_is_inside(account, stripe), stripe != TDI_STATS_SHARED);
        tdi_handshake_leave(account, stripe, self);
        ck_assert_uint_eq(in_flight(account), 0);
        ck_assert_int_eq(tdi_handshake_is_inside(account, stripe), 0);
    }
}
END_TEST

START_TEST(threads_of_the_shared_stripe_are_counted)
{
    struct tdi_layout_account *account = new_account();
    struct tdi_handshake self[5], later[3];
    for (int i = 0; i < 5; i++)
        self[i] = tdi_handshake_enter(account, TDI_STATS_SHARED);
    uint32_t old = tdi_handshake_begin_change(account, 1);
    for (int i = 0; i < 3; i++)
        later[i] = tdi_handshake_enter(account, TDI_STATS_SHARED);
    ck_assert_uint_eq(tdi_handshake_in_flight(account, old), 5);
    ck_assert_uint_eq(tdi_handshake_in_flight(account, old + 1), 3);
    for (uint64_t i = 0; i < 5; i++) {
        tdi_handshake_leave(account, TDI_STATS_SHARED, self[i]);
        ck_assert_uint_eq(tdi_handshake_in_flight(account, old), 4 - i);
    }
    ck_assert_uint_eq(tdi_handshake_in_flight(account, old + 1), 3);
    for (int i = 0; i < 3; i++)
        tdi_handshake_leave(account, TDI_STATS_SHARED, later[i]);
    ck_assert_uint_eq(in_flight(account), 0);
}
END_TEST

/* A signal handler enters where its thread is inside already, and leaves it so. */
START_TEST(a_nested_entry_leaves_the_outer_one_inside)
{
    struct tdi_layout_account *account = new_account();
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
        struct tdi_handshake outer = tdi_handshake_enter(account, stripe);
        struct tdi_handshake inner = tdi_handshake_enter(account, stripe);
        struct tdi_handshake innermost = tdi_handshake_enter(account, stripe);
        tdi_handshake_leave(account, stripe, innermost);
        ck_assert_uint_ge(tdi_handshake_in_flight(account, outer.generation), 1);
        tdi_handshake_leave(account, stripe, inner);
        ck_assert_uint_eq(tdi_handshake_in_flight(account, outer.generation), 1);
        tdi_handshake_leave(account, stripe, outer);
        ck_assert_uint_eq(in_flight(account), 0);
    }
}
END_TEST

/* The handler sees a change that its thread does not know of: its thread is still of the old generation. */
START_TEST(a_nested_entry_after_a_change_leaves_the_outer_one_in_the_old_generation)
{
    struct tdi_layout_account *account = new_account();
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
        struct tdi_handshake outer = tdi_handshake_enter(account, stripe);
        uint32_t old = tdi_handshake_begin_change(account, stripe & 1);
        ck_assert_uint_eq(outer.generation, old);
        struct tdi_handshake inner = tdi_handshake_enter(account, stripe);
        ck_assert_uint_eq(inner.generation, old + 1);
        tdi_handshake_leave(account, stripe, inner);
        ck_assert_uint_eq(tdi_handshake_in_flight(account, old), 1);
        ck_assert_uint_eq(tdi_handshake_in_flight(account, old + 1), 0);
        tdi_handshake_leave(account, stripe, outer);
        ck_assert_uint_eq(in_flight(account), 0);
    }
}
END_TEST

START_TEST(the_next_entry_sees_the_change)
{
    struct tdi_layout_account *account = new_account();
    for (uint32_t round = 0; round < 100; round++) {
        uint32_t stripe = round % TDI_LAYOUT_STRIPES, strategy = round & 1;
        uint32_t old = tdi_handshake_begin_change(account, strategy);
        ck_assert_uint_eq(tdi_handshake_generation(account), old + 1);
        struct tdi_handshake self = tdi_handshake_enter(account, stripe);
        ck_assert_uint_eq(self.generation, old + 1);
        ck_assert_uint_eq(tdi_handshake_strategy(account), strategy);
        ck_assert_uint_eq(tdi_handshake_in_flight(account, old), 0);
        tdi_handshake_leave(account, stripe, self);
    }
}
END_TEST

START_TEST(those_of_the_new_generation_keep_nobody_waiting)
{
    struct tdi_layout_account *account = new_account();
    struct tdi_handshake before[TDI_LAYOUT_STRIPES], after;
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        before[i] = tdi_handshake_enter(account, i);
    uint32_t old = tdi_handshake_begin_change(account, 1);
    ck_assert_uint_eq(tdi_handshake_in_flight(account, old), TDI_LAYOUT_STRIPES);
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++) {
        tdi_handshake_leave(account, i, before[i]);
        after = tdi_handshake_enter(account, i);
        ck_assert_uint_eq(after.generation, old + 1);
        ck_assert_uint_eq(tdi_handshake_in_flight(account, old), TDI_LAYOUT_STRIPES - 1 - i);
    }
    ck_assert_uint_eq(tdi_handshake_in_flight(account, old + 1), TDI_LAYOUT_STRIPES);
}
END_TEST

/* The generation's number goes round, through the bit that says "inside" as well. */
START_TEST(generations_may_go_round)
{
    static const uint32_t from[] = {UINT32_MAX - 3, (UINT32_C(1) << 31) - 3, UINT32_C(1) << 31, 0};
    struct tdi_layout_account *account = new_account();
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        atomic_store(&account->handshake.generation, from[i]);
        for (int round = 0; round < 8; round++) {
            struct tdi_handshake own = tdi_handshake_enter(account, 2);
            struct tdi_handshake shared = tdi_handshake_enter(account, TDI_STATS_SHARED);
            uint32_t old = tdi_handshake_begin_change(account, 1);
            ck_assert_uint_eq(tdi_handshake_in_flight(account, old), 2);
            ck_assert_uint_eq(tdi_handshake_in_flight(account, old + 1), 0);
            tdi_handshake_leave(account, 2, own);
            tdi_handshake_leave(account, TDI_STATS_SHARED, shared);
            ck_assert_uint_eq(in_flight(account), 0);
        }
    }
}
END_TEST

START_TEST(a_new_owner_finds_nobody_inside_and_the_plain_strategy)
{
    struct tdi_layout_account *account = new_account();
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        tdi_handshake_enter(account, i); /* and is killed there */
    tdi_handshake_begin_change(account, 1);
    tdi_handshake_enter(account, TDI_STATS_SHARED);
    tdi_handshake_begin(account);
    ck_assert_uint_eq(in_flight(account), 0);
    ck_assert_uint_eq(tdi_handshake_strategy(account), 0);
    memset((void *)account, 0xff, sizeof *account);
    tdi_handshake_begin(account);
    ck_assert_uint_eq(in_flight(account), 0);
    ck_assert_uint_eq(tdi_handshake_strategy(account), 0);
}
END_TEST

START_TEST(any_contents_let_everybody_in_and_out)
{
    struct tdi_layout_account *account = new_account();
    for (int i = 0; i < 2000; i++) {
        unsigned char *bytes = (unsigned char *)account;
        for (size_t at = 0; at < offsetof(struct tdi_layout_account, taken); at++)
            bytes[at] = i == 0 ? 0xff : (unsigned char)unit_random();
        for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
            atomic_store(&account->stripe[stripe].inside, (uint32_t)unit_random());
            tdi_handshake_leave(account, stripe, tdi_handshake_enter(account, stripe));
        }
        in_flight(account);
        tdi_handshake_strategy(account);
        tdi_handshake_begin_change(account, (uint32_t)unit_random());
    }
}
END_TEST

/* ---- with threads ---- */

#define OWN_THREADS 4
#define SHARING_THREADS 2
#define THREADS (OWN_THREADS + SHARING_THREADS)
#define CHANGES 60

/* What a strategy guards: only those who came in under it touch its word, so a drained one lies still. */
struct floor {
    struct tdi_layout_account *account;
    _Atomic(uint32_t) over;
    _Atomic(uint32_t) next;
    _Atomic(uint64_t) touched[2][THREADS];
};

static void *enter_and_touch(void *argument)
{
    struct floor *floor = argument;
    uint32_t self = atomic_fetch_add(&floor->next, 1);
    uint32_t stripe = self < OWN_THREADS ? self : TDI_STATS_SHARED;
    while (!atomic_load_explicit(&floor->over, memory_order_relaxed)) {
        struct tdi_handshake shake = tdi_handshake_enter(floor->account, stripe);
        uint32_t strategy = tdi_handshake_strategy(floor->account) & 1;
        /* A load and a store: somebody who is late undoes nothing of its own, and is seen. */
        uint64_t touched = atomic_load_explicit(&floor->touched[strategy][self], memory_order_relaxed);
        atomic_store_explicit(&floor->touched[strategy][self], touched + 1, memory_order_relaxed);
        tdi_handshake_leave(floor->account, stripe, shake);
    }
    return NULL;
}

static uint64_t sum(struct floor *floor, uint32_t strategy)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < THREADS; i++)
        all += atomic_load_explicit(&floor->touched[strategy][i], memory_order_relaxed);
    return all;
}

START_TEST(after_the_drain_nobody_goes_by_the_old_strategy)
{
    struct floor floor = {.account = new_account()};
    pthread_t thread[THREADS];
    if (tdi_proc_barrier_prepare() != 0)
        return; /* without it there is one strategy only */
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, enter_and_touch, &floor), 0);
    for (uint32_t change = 1; change <= CHANGES; change++) {
        uint32_t old = tdi_handshake_begin_change(floor.account, change & 1), former = ~change & 1;
        tdi_proc_barrier();
        while (tdi_handshake_in_flight(floor.account, old) != 0)
            tdi_proc_yield();
        uint64_t before = sum(&floor, former), now = sum(&floor, change & 1);
        /* Until somebody went by the new one: the threads may not have been given a processor yet. */
        for (int i = 0; i < 3 || sum(&floor, change & 1) == now; i++) {
            tdi_proc_yield();
            unit_expect(sum(&floor, former) == before, "change %" PRIu32 ": touched after the drain", change);
        }
    }
    atomic_store(&floor.over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ck_assert_uint_eq(in_flight(floor.account), 0);
    ck_assert_uint_gt(sum(&floor, 0), 0);
    ck_assert_uint_gt(sum(&floor, 1), 0);
}
END_TEST

static Suite *handshake(void)
{
    Suite *suite = suite_create("handshake");
    TCase *steps = unit_case(suite, "steps");
    tcase_add_test(steps, who_has_entered_is_in_flight_until_it_leaves);
    tcase_add_test(steps, threads_of_the_shared_stripe_are_counted);
    tcase_add_test(steps, a_nested_entry_leaves_the_outer_one_inside);
    tcase_add_test(steps, a_nested_entry_after_a_change_leaves_the_outer_one_in_the_old_generation);
    tcase_add_test(steps, the_next_entry_sees_the_change);
    tcase_add_test(steps, those_of_the_new_generation_keep_nobody_waiting);
    tcase_add_test(steps, generations_may_go_round);
    TCase *owners = unit_case(suite, "owners");
    tcase_add_test(owners, a_new_owner_finds_nobody_inside_and_the_plain_strategy);
    tcase_add_test(owners, any_contents_let_everybody_in_and_out);
    TCase *threads = unit_case(suite, "threads");
    tcase_add_test(threads, after_the_drain_nobody_goes_by_the_old_strategy);
    return suite;
}

KIT_MAIN(handshake)
