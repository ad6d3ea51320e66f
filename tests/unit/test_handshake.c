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

#define WORDS 8

/* What the threads of a process have, one each. */
struct crowd {
    struct tdi_layout_account *account;
    tdi_handshake_inside inside[WORDS];
};

static struct crowd new_crowd(void)
{
    return (struct crowd){.account = new_account()};
}

static struct tdi_handshake enter(struct crowd *crowd, uint32_t i)
{
    return tdi_handshake_enter(crowd->account, &crowd->inside[i]);
}

static void leave(struct crowd *crowd, uint32_t i, struct tdi_handshake self)
{
    tdi_handshake_leave(&crowd->inside[i], self);
}

static uint32_t count_of(const struct crowd *crowd, uint32_t generation)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        count += tdi_handshake_is_of(&crowd->inside[i], generation);
    return count;
}

static uint32_t count_all(const struct crowd *crowd)
{
    return count_of(crowd, 0) + count_of(crowd, 1);
}

START_TEST(who_has_entered_is_inside_until_it_leaves)
{
    struct crowd crowd = new_crowd();
    for (uint32_t i = 0; i < WORDS; i++) {
        struct tdi_handshake self = enter(&crowd, i);
        ck_assert_uint_eq(self.generation, tdi_handshake_generation(crowd.account));
        ck_assert_uint_eq(count_of(&crowd, self.generation), 1);
        ck_assert_uint_eq(count_of(&crowd, self.generation + 1), 0);
        ck_assert(tdi_handshake_is_inside(&crowd.inside[i]));
        leave(&crowd, i, self);
        ck_assert_uint_eq(count_all(&crowd), 0);
        ck_assert(!tdi_handshake_is_inside(&crowd.inside[i]));
    }
}
END_TEST

/* A signal handler enters where its thread is inside already, and leaves it so. */
START_TEST(a_nested_entry_leaves_the_outer_one_inside)
{
    struct crowd crowd = new_crowd();
    struct tdi_handshake outer = enter(&crowd, 3), inner = enter(&crowd, 3), innermost = enter(&crowd, 3);
    leave(&crowd, 3, innermost);
    ck_assert_uint_eq(count_of(&crowd, outer.generation), 1);
    leave(&crowd, 3, inner);
    ck_assert_uint_eq(count_of(&crowd, outer.generation), 1);
    leave(&crowd, 3, outer);
    ck_assert_uint_eq(count_all(&crowd), 0);
}
END_TEST

/* The handler sees a change that its thread does not know of: its thread is still of the old generation. */
START_TEST(a_nested_entry_after_a_change_leaves_the_outer_one_in_the_old_generation)
{
    struct crowd crowd = new_crowd();
    for (uint32_t round = 0; round < 8; round++) {
        struct tdi_handshake outer = enter(&crowd, 0);
        uint32_t old = tdi_handshake_begin_change(crowd.account, round & 1);
        ck_assert_uint_eq(outer.generation, old);
        struct tdi_handshake inner = enter(&crowd, 0);
        ck_assert_uint_eq(inner.generation, old + 1);
        leave(&crowd, 0, inner);
        ck_assert_uint_eq(count_of(&crowd, old), 1);
        ck_assert_uint_eq(count_of(&crowd, old + 1), 0);
        leave(&crowd, 0, outer);
        ck_assert_uint_eq(count_all(&crowd), 0);
    }
}
END_TEST

START_TEST(the_next_entry_sees_the_change)
{
    struct crowd crowd = new_crowd();
    for (uint32_t round = 0; round < 100; round++) {
        uint32_t strategy = round & 1;
        uint32_t old = tdi_handshake_begin_change(crowd.account, strategy);
        ck_assert_uint_eq(tdi_handshake_generation(crowd.account), old + 1);
        struct tdi_handshake self = enter(&crowd, round % WORDS);
        ck_assert_uint_eq(self.generation, old + 1);
        ck_assert_uint_eq(tdi_handshake_strategy(crowd.account), strategy);
        ck_assert_uint_eq(count_of(&crowd, old), 0);
        leave(&crowd, round % WORDS, self);
    }
}
END_TEST

START_TEST(those_of_the_new_generation_keep_nobody_waiting)
{
    struct crowd crowd = new_crowd();
    struct tdi_handshake before[WORDS], after;
    for (uint32_t i = 0; i < WORDS; i++)
        before[i] = enter(&crowd, i);
    uint32_t old = tdi_handshake_begin_change(crowd.account, 1);
    ck_assert_uint_eq(count_of(&crowd, old), WORDS);
    for (uint32_t i = 0; i < WORDS; i++) {
        leave(&crowd, i, before[i]);
        after = enter(&crowd, i);
        ck_assert_uint_eq(after.generation, old + 1);
        ck_assert_uint_eq(count_of(&crowd, old), WORDS - 1 - i);
    }
    ck_assert_uint_eq(count_of(&crowd, old + 1), WORDS);
}
END_TEST

/* The generation's number goes round, through the bit that says "inside" as well. */
START_TEST(generations_may_go_round)
{
    static const uint32_t from[] = {UINT32_MAX - 3, (UINT32_C(1) << 31) - 3, UINT32_C(1) << 31, 0};
    struct crowd crowd = new_crowd();
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        atomic_store(&crowd.account->handshake.generation, from[i]);
        for (int round = 0; round < 8; round++) {
            struct tdi_handshake one = enter(&crowd, 2), other = enter(&crowd, 5);
            uint32_t old = tdi_handshake_begin_change(crowd.account, 1);
            ck_assert_uint_eq(count_of(&crowd, old), 2);
            ck_assert_uint_eq(count_of(&crowd, old + 1), 0);
            leave(&crowd, 2, one);
            leave(&crowd, 5, other);
            ck_assert_uint_eq(count_all(&crowd), 0);
        }
    }
}
END_TEST

START_TEST(whoever_looks_is_told_of_both_generations)
{
    struct tdi_layout_account *account = new_account();
    tdi_handshake_note_in_flight(account, 6, 3);
    tdi_handshake_note_in_flight(account, 7, 2);
    ck_assert_uint_eq(tdi_handshake_in_flight(account), 5);
    tdi_handshake_note_in_flight(account, 8, 0);
    ck_assert_uint_eq(tdi_handshake_in_flight(account), 2);
}
END_TEST

START_TEST(a_new_owner_finds_nobody_in_flight_and_the_plain_strategy)
{
    struct tdi_layout_account *account = new_account();
    uint32_t old = tdi_handshake_begin_change(account, 1);
    tdi_handshake_note_in_flight(account, old, 7); /* and is killed there */
    tdi_handshake_begin(account);
    ck_assert_uint_eq(tdi_handshake_in_flight(account), 0);
    ck_assert_uint_eq(tdi_handshake_strategy(account), 0);
    memset((void *)account, 0xff, sizeof *account);
    tdi_handshake_begin(account);
    ck_assert_uint_eq(tdi_handshake_in_flight(account), 0);
    ck_assert_uint_eq(tdi_handshake_strategy(account), 0);
}
END_TEST

START_TEST(any_contents_let_everybody_in_and_out)
{
    struct crowd crowd = new_crowd();
    for (int i = 0; i < 2000; i++) {
        unsigned char *bytes = (unsigned char *)crowd.account;
        for (size_t at = 0; at < offsetof(struct tdi_layout_account, taken); at++)
            bytes[at] = i == 0 ? 0xff : (unsigned char)unit_random();
        for (uint32_t word = 0; word < WORDS; word++)
            leave(&crowd, word, enter(&crowd, word));
        tdi_handshake_in_flight(crowd.account);
        tdi_handshake_strategy(crowd.account);
        tdi_handshake_begin_change(crowd.account, (uint32_t)unit_random());
    }
}
END_TEST

/* ---- with threads ---- */

#define THREADS 6
#define CHANGES 60

/* What a strategy guards: only those who came in under it touch its word, so a drained one lies still. */
struct floor {
    struct crowd crowd;
    _Atomic(uint32_t) over;
    _Atomic(uint32_t) next;
    _Atomic(uint64_t) touched[2][THREADS];
};

static void *enter_and_touch(void *argument)
{
    struct floor *floor = argument;
    uint32_t self = atomic_fetch_add(&floor->next, 1);
    while (!atomic_load_explicit(&floor->over, memory_order_relaxed)) {
        struct tdi_handshake shake = enter(&floor->crowd, self);
        uint32_t strategy = tdi_handshake_strategy(floor->crowd.account) & 1;
        /* A load and a store: somebody who is late undoes nothing of its own, and is seen. */
        uint64_t touched = atomic_load_explicit(&floor->touched[strategy][self], memory_order_relaxed);
        atomic_store_explicit(&floor->touched[strategy][self], touched + 1, memory_order_relaxed);
        leave(&floor->crowd, self, shake);
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
    struct floor floor = {.crowd = new_crowd()};
    pthread_t thread[THREADS];
    if (tdi_proc_barrier_prepare() != 0)
        return; /* without it there is one strategy only */
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, enter_and_touch, &floor), 0);
    for (uint32_t change = 1; change <= CHANGES; change++) {
        uint32_t old = tdi_handshake_begin_change(floor.crowd.account, change & 1), former = ~change & 1;
        tdi_proc_barrier();
        while (count_of(&floor.crowd, old) != 0)
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
    ck_assert_uint_eq(count_all(&floor.crowd), 0);
    ck_assert_uint_gt(sum(&floor, 0), 0);
    ck_assert_uint_gt(sum(&floor, 1), 0);
}
END_TEST

static Suite *handshake(void)
{
    Suite *suite = suite_create("handshake");
    TCase *steps = unit_case(suite, "steps");
    tcase_add_test(steps, who_has_entered_is_inside_until_it_leaves);
    tcase_add_test(steps, a_nested_entry_leaves_the_outer_one_inside);
    tcase_add_test(steps, a_nested_entry_after_a_change_leaves_the_outer_one_in_the_old_generation);
    tcase_add_test(steps, the_next_entry_sees_the_change);
    tcase_add_test(steps, those_of_the_new_generation_keep_nobody_waiting);
    tcase_add_test(steps, generations_may_go_round);
    tcase_add_test(steps, whoever_looks_is_told_of_both_generations);
    TCase *owners = unit_case(suite, "owners");
    tcase_add_test(owners, a_new_owner_finds_nobody_in_flight_and_the_plain_strategy);
    tcase_add_test(owners, any_contents_let_everybody_in_and_out);
    TCase *threads = unit_case(suite, "threads");
    tcase_add_test(threads, after_the_drain_nobody_goes_by_the_old_strategy);
    return suite;
}

KIT_MAIN(handshake)
