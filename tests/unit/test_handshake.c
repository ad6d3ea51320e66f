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

START_TEST(who_has_entered_is_inside_until_it_leaves)
{
    tdi_handshake_inside inside = 0;
    for (int i = 0; i < 3; i++) {
        ck_assert(tdi_handshake_enter(&inside));
        ck_assert(tdi_handshake_is_inside(&inside));
        tdi_handshake_leave(&inside);
        ck_assert(!tdi_handshake_is_inside(&inside));
    }
}
END_TEST

/* A signal handler comes where its thread is inside already. */
START_TEST(nobody_enters_twice)
{
    tdi_handshake_inside inside = 0;
    ck_assert(tdi_handshake_enter(&inside));
    ck_assert(!tdi_handshake_enter(&inside));
    ck_assert(tdi_handshake_is_inside(&inside));
    tdi_handshake_leave(&inside);
    ck_assert(tdi_handshake_enter(&inside));
}
END_TEST

START_TEST(each_change_is_another_generation)
{
    struct tdi_layout_account *account = new_account();
    atomic_store(&account->handshake.generation, UINT32_MAX - 3);
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t before = tdi_handshake_generation(account);
        tdi_handshake_begin_change(account, round & 1);
        ck_assert_uint_eq(tdi_handshake_generation(account), before + 1);
        ck_assert_uint_eq(tdi_handshake_strategy(account), round & 1);
    }
}
END_TEST

START_TEST(a_new_owner_finds_nobody_in_flight_and_the_plain_strategy)
{
    struct tdi_layout_account *account = new_account();
    tdi_handshake_begin_change(account, 1);
    tdi_handshake_note_in_flight(account, 7); /* and is killed there */
    ck_assert_uint_eq(tdi_handshake_in_flight(account), 7);
    tdi_handshake_begin(account);
    ck_assert_uint_eq(tdi_handshake_in_flight(account), 0);
    ck_assert_uint_eq(tdi_handshake_strategy(account), 0);
    memset((void *)account, 0xff, sizeof *account);
    tdi_handshake_begin(account);
    ck_assert_uint_eq(tdi_handshake_in_flight(account), 0);
    ck_assert_uint_eq(tdi_handshake_strategy(account), 0);
}
END_TEST

/* ---- with threads ---- */

#define THREADS 6
#define CHANGES 30

/* What a strategy guards: only those who came in under it touch its word, so a drained one lies still. */
struct floor {
    struct tdi_layout_account *account;
    tdi_handshake_inside inside[THREADS];
    _Atomic(uint32_t) over;
    _Atomic(uint32_t) next;
    _Atomic(uint64_t) touched[2][THREADS];
};

static void *enter_and_touch(void *argument)
{
    struct floor *floor = argument;
    uint32_t self = atomic_fetch_add(&floor->next, 1);
    while (!atomic_load_explicit(&floor->over, memory_order_relaxed)) {
        tdi_handshake_enter(&floor->inside[self]);
        uint32_t strategy = tdi_handshake_strategy(floor->account) & 1;
        /* A load and a store: somebody who is late undoes nothing of its own, and is seen. */
        uint64_t touched = atomic_load_explicit(&floor->touched[strategy][self], memory_order_relaxed);
        atomic_store_explicit(&floor->touched[strategy][self], touched + 1, memory_order_relaxed);
        tdi_handshake_leave(&floor->inside[self]);
    }
    return NULL;
}

static void see_each_outside(const struct floor *floor)
{
    tdi_proc_barrier();
    for (uint32_t i = 0; i < THREADS; i++)
        while (tdi_handshake_is_inside(&floor->inside[i]))
            tdi_proc_yield();
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
        uint32_t former = ~change & 1;
        tdi_handshake_begin_change(floor.account, change & 1);
        see_each_outside(&floor);
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
    ck_assert_uint_gt(sum(&floor, 0), 0);
    ck_assert_uint_gt(sum(&floor, 1), 0);
}
END_TEST

static Suite *handshake(void)
{
    Suite *suite = suite_create("handshake");
    TCase *steps = unit_case(suite, "steps");
    tcase_add_test(steps, who_has_entered_is_inside_until_it_leaves);
    tcase_add_test(steps, nobody_enters_twice);
    tcase_add_test(steps, each_change_is_another_generation);
    tcase_add_test(steps, a_new_owner_finds_nobody_in_flight_and_the_plain_strategy);
    TCase *threads = unit_case(suite, "threads");
    tcase_set_timeout(threads, 60);
    tcase_add_test(threads, after_the_drain_nobody_goes_by_the_old_strategy);
    return suite;
}

KIT_MAIN(handshake)
