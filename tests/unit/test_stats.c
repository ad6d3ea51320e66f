/* SPDX-License-Identifier: MIT */
/*
 * Counting, and reading what was counted: the classes of waiting times beside their definition, quantiles beside
 * a sorted list, owners of a place that come one after the other, and files full of nonsense.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats.h"
#include "unit.h"
#include "unit/step.h"

#define HOUR_NS (3600 * UINT64_C(1000000000))

static struct tdi_layout_account *new_account(void)
{
    struct tdi_config config = unit_config(100, 10, SECOND_US, 0);
    return &unit_file(&config, 100)->account[unit_between(0, TDI_LAYOUT_INSTANCES - 1)];
}

static void expect_in_its_class(uint64_t waited_ns)
{
    uint32_t class = tdi_stats_wait_class(waited_ns);
    unit_expect(class < TDI_LAYOUT_WAITS, "%" PRIu64 " ns are in class %" PRIu32, waited_ns, class);
    uint64_t from_ns = tdi_stats_wait_from_ns(class), to_ns = tdi_stats_wait_from_ns(class + 1);
    unit_expect(from_ns <= waited_ns && waited_ns < to_ns,
                "%" PRIu64 " ns are in class %" PRIu32 ", %" PRIu64 " .. %" PRIu64, waited_ns, class, from_ns,
                to_ns);
}

START_TEST(a_waiting_time_lies_in_its_class)
{
    expect_in_its_class(0);
    for (unsigned bit = 0; bit <= 63; bit++)
        for (uint64_t away = 0; away < 3; away++) {
            expect_in_its_class((UINT64_C(1) << bit) + away);
            expect_in_its_class((UINT64_C(1) << bit) - (away < UINT64_C(1) << bit ? away : 0));
        }
    for (int i = 0; i < 1000000; i++)
        expect_in_its_class(unit_log_between(1, UINT64_C(1) << 63));
}
END_TEST

START_TEST(both_ends_of_a_class_are_in_it)
{
    for (uint32_t class = 0; class < TDI_LAYOUT_WAITS; class ++) {
        ck_assert_uint_eq(tdi_stats_wait_class(tdi_stats_wait_from_ns(class)), class);
        ck_assert_uint_eq(tdi_stats_wait_class(tdi_stats_wait_from_ns(class + 1) - 1), class);
    }
    ck_assert_uint_eq(tdi_stats_wait_class(UINT64_MAX), TDI_LAYOUT_WAITS - 1);
    ck_assert_uint_eq(tdi_stats_wait_from_ns(1), 1000);
}
END_TEST

START_TEST(classes_rise_and_are_a_quarter_of_a_power_of_two_wide)
{
    for (uint32_t class = 1; class < TDI_LAYOUT_WAITS - 1; class ++) {
        uint64_t from_ns = tdi_stats_wait_from_ns(class), to_ns = tdi_stats_wait_from_ns(class + 1);
        uint64_t octave_ns = 1000;
        while (octave_ns * 2 <= from_ns)
            octave_ns *= 2;
        unit_expect(to_ns > from_ns && to_ns - from_ns <= octave_ns / 4,
                    "class %" PRIu32 ": %" PRIu64 " .. %" PRIu64, class, from_ns, to_ns);
    }
    uint64_t last_ns = tdi_stats_wait_from_ns(TDI_LAYOUT_WAITS - 1);
    unit_expect(last_ns > HOUR_NS / 2 && last_ns < 2 * HOUR_NS, "the last begins at %" PRIu64, last_ns);
    for (uint64_t before = 0, i = 0; i < 100000; i++) {
        uint64_t next = before + unit_log_between(1, before + 2), class = tdi_stats_wait_class(next);
        unit_expect(class >= tdi_stats_wait_class(before), "%" PRIu64 " after %" PRIu64, next, before);
        before = next < UINT64_C(1) << 62 ? next : 0;
    }
}
END_TEST

static int by_size(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

struct share {
    double share;
    uint64_t of_1000;
};

/* The wait that so many of the sorted list were no longer than. */
static uint64_t exact_quantile(const uint64_t *sorted, uint64_t count, uint64_t of_1000)
{
    uint64_t rank = (count * of_1000 + 999) / 1000;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static void expect_quantiles(const uint64_t *sorted, uint64_t count)
{
    static const struct share shares[] = {{0, 0},     {0.25, 250}, {0.5, 500},   {0.75, 750},
                                          {0.9, 900}, {0.99, 990}, {0.999, 999}, {1, 1000}};
    uint64_t waits[TDI_LAYOUT_WAITS] = {0};
    for (uint64_t i = 0; i < count; i++)
        waits[tdi_stats_wait_class(sorted[i])]++;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        uint64_t exact_ns = exact_quantile(sorted, count, shares[i].of_1000);
        uint64_t most_ns = tdi_stats_wait_from_ns(tdi_stats_wait_class(exact_ns) + 1);
        uint64_t got_ns = tdi_stats_wait_quantile_ns(waits, shares[i].share);
        unit_expect(got_ns >= exact_ns, "%" PRIu64 "/1000 of %" PRIu64 " waits: %" PRIu64 " < %" PRIu64,
                    shares[i].of_1000, count, got_ns, exact_ns);
        unit_expect(got_ns <= most_ns, "%" PRIu64 "/1000 of %" PRIu64 " waits: %" PRIu64 " > %" PRIu64,
                    shares[i].of_1000, count, got_ns, most_ns);
    }
}

/* Waits of any length up to a day, so that some are in the last class. */
START_TEST(a_quantile_is_never_too_small_and_within_a_class)
{
    static uint64_t sorted[1000];
    for (int round = 0; round < 2000; round++) {
        uint64_t count = unit_chance(2) ? unit_between(1, 10) : unit_between(1, 1000);
        uint64_t most_ns = unit_log_between(1, 24 * HOUR_NS);
        for (uint64_t i = 0; i < count; i++)
            sorted[i] = unit_log_between(1, most_ns);
        qsort(sorted, count, sizeof sorted[0], by_size);
        expect_quantiles(sorted, count);
    }
}
END_TEST

START_TEST(quantiles_of_nothing_and_of_anything_end)
{
    uint64_t waits[TDI_LAYOUT_WAITS] = {0};
    ck_assert_uint_eq(tdi_stats_wait_quantile_ns(waits, 0.5), 0);
    for (int round = 0; round < 10000; round++) {
        for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
            waits[i] = unit_chance(3) ? UINT64_MAX : unit_random();
        tdi_stats_wait_quantile_ns(waits, (double)unit_between(0, 1000) / 1000);
    }
}
END_TEST

/* Something of each sort, in a stripe of its own and in the shared one. */
static void count_something(struct tdi_layout_account *account, struct tdi_stats *expected)
{
    uint32_t index = (uint32_t)unit_between(0, TDI_STATS_SHARED), n = (uint32_t)unit_random();
    struct tdi_layout_stripe *stripe = &account->stripe[index];
    bool shared = index == TDI_STATS_SHARED;
    enum tdi_layout_kind kind = (enum tdi_layout_kind)unit_between(0, TDI_KINDS - 1);
    enum tdi_layout_sum sum = (enum tdi_layout_sum)unit_between(0, TDI_SUMS - 1);
    enum tdi_layout_count what = unit_chance(2) ? TDI_COUNT_REFUSED : TDI_COUNT_ENDED;
    uint64_t waited_ns = unit_log_between(1, HOUR_NS);
    (shared ? tdi_stats_grant_shared : tdi_stats_grant)(stripe, kind, n);
    (shared ? tdi_stats_count_shared : tdi_stats_count)(stripe, kind, what);
    (shared ? tdi_stats_sum_shared : tdi_stats_sum)(stripe, sum, n);
    tdi_stats_note_wait(account, waited_ns);
    expected->count[kind][TDI_COUNT_GRANTED]++;
    expected->count[kind][TDI_COUNT_TOKENS] += n;
    expected->count[kind][what]++;
    expected->sum[sum] += n;
    expected->waits[tdi_stats_wait_class(waited_ns)]++;
}

static bool is_same(const struct tdi_stats *a, const struct tdi_stats *b)
{
    return memcmp(a->count, b->count, sizeof a->count) == 0 && memcmp(a->sum, b->sum, sizeof a->sum) == 0 &&
           memcmp(a->waits, b->waits, sizeof a->waits) == 0;
}

START_TEST(an_owner_has_what_was_counted_since_it_came_and_the_place_has_all)
{
    struct tdi_layout_account *account = new_account();
    struct tdi_stats all = {0}, own, got;
    for (uint64_t owner = 1; owner <= 50; owner++) {
        ck_assert(!tdi_stats_read_owner(account, owner, &got));
        tdi_stats_begin(account, owner);
        memset(&own, 0, sizeof own);
        for (uint64_t i = unit_between(0, 20); i > 0; i--) {
            struct tdi_stats one = {0}, none;
            count_something(account, &one);
            memset(&none, 0, sizeof none);
            tdi_stats_subtract(&none, &one); /* adding is subtracting what is less than nothing */
            tdi_stats_subtract(&own, &none);
            tdi_stats_subtract(&all, &none);
            ck_assert(tdi_stats_read_owner(account, owner, &got) && is_same(&got, &own));
        }
        ck_assert(!tdi_stats_read_owner(account, owner - 1, &got));
        ck_assert_uint_eq(tdi_stats_all(&got, TDI_COUNT_GRANTED), 0);
        memset(&got, 0, sizeof got);
        tdi_stats_add_place(account, &got);
        ck_assert(is_same(&got, &all));
    }
}
END_TEST

START_TEST(a_stripes_operations_are_all_but_the_tokens)
{
    struct tdi_layout_account *account = new_account();
    struct tdi_layout_stripe *stripe = &account->stripe[3];
    tdi_stats_grant(stripe, TDI_KIND_TRY, 1000);
    tdi_stats_grant(stripe, TDI_KIND_WAITER, 1000);
    tdi_stats_count(stripe, TDI_KIND_ALL, TDI_COUNT_REFUSED);
    tdi_stats_count(stripe, TDI_KIND_ACQUIRE, TDI_COUNT_ENDED);
    tdi_stats_sum(stripe, TDI_SUM_RETRIES, 1000);
    ck_assert_uint_eq(tdi_stats_stripe_operations(stripe), 4);
    ck_assert_uint_eq(tdi_stats_stripe_operations(&account->stripe[2]), 0);
}
END_TEST

#define OWNERS 3000
#define COUNTED 50

struct succession {
    struct tdi_layout_account *account;
    _Atomic(uint64_t) owner;
    _Atomic(uint32_t) over;
};

static void *come_one_after_the_other(void *argument)
{
    struct succession *succession = argument;
    for (uint64_t owner = 1; owner <= OWNERS; owner++) {
        tdi_stats_begin(succession->account, owner);
        atomic_store(&succession->owner, owner);
        for (int i = 0; i < COUNTED; i++)
            tdi_stats_count(&succession->account->stripe[0], TDI_KIND_TRY, TDI_COUNT_REFUSED);
    }
    atomic_store(&succession->over, 1);
    return NULL;
}

START_TEST(a_readers_owner_never_loses_counts_to_the_next)
{
    struct succession succession = {.account = new_account()};
    struct tdi_stats got, total;
    pthread_t thread;
    uint64_t before = 0, all = 0, former = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, come_one_after_the_other, &succession), 0);
    while (!atomic_load(&succession.over)) {
        uint64_t owner = atomic_load(&succession.owner);
        before = owner == former ? before : 0;
        former = owner;
        if (tdi_stats_read_owner(succession.account, owner, &got)) {
            uint64_t refused = tdi_stats_all(&got, TDI_COUNT_REFUSED);
            unit_expect(refused >= before && refused <= COUNTED,
                        "owner %" PRIu64 " counted %" PRIu64 " after %" PRIu64, owner, refused, before);
            before = refused;
        }
        memset(&total, 0, sizeof total);
        tdi_stats_add_place(succession.account, &total);
        unit_expect(tdi_stats_all(&total, TDI_COUNT_REFUSED) >= all, "%" PRIu64 " in all, less than before",
                    all);
        all = tdi_stats_all(&total, TDI_COUNT_REFUSED);
    }
    pthread_join(thread, NULL);
    memset(&total, 0, sizeof total);
    tdi_stats_add_place(succession.account, &total);
    ck_assert_uint_eq(tdi_stats_all(&total, TDI_COUNT_REFUSED), OWNERS * COUNTED);
}
END_TEST

struct handover {
    struct tdi_layout_account *account;
    struct tdi_stats got;
    bool known;
};

static void act_begin(void *context)
{
    tdi_stats_begin(((struct handover *)context)->account, 2);
}

static void intrude_read(void *context)
{
    struct handover *handover = context;
    handover->known = tdi_stats_read_owner(handover->account, 1, &handover->got);
}

/* Coming now and then is enough: what it writes takes some hundred instructions. */
START_TEST(at_any_moment_of_a_beginning_the_former_owner_has_all_its_counts_or_is_gone)
{
    struct handover handover = {.account = new_account()};
    bool in_time = STEP_CAN;
    for (unsigned long at = 1; in_time; at += 211) {
        tdi_stats_begin(handover.account, 1);
        for (int i = 0; i < COUNTED; i++)
            tdi_stats_count(&handover.account->stripe[0], TDI_KIND_TRY, TDI_COUNT_REFUSED);
        in_time = step_intrude(act_begin, intrude_read, &handover, at);
        unit_expect(!in_time || !handover.known || tdi_stats_all(&handover.got, TDI_COUNT_REFUSED) == COUNTED,
                    "after instruction %lu: %" PRIu64 " counted", at,
                    tdi_stats_all(&handover.got, TDI_COUNT_REFUSED));
    }
}
END_TEST

static void use(struct tdi_layout_account *account)
{
    struct tdi_stats stats, other;
    memset(&stats, 0, sizeof stats);
    memset(&other, 0, sizeof other);
    tdi_stats_read_owner(account, atomic_load(&account->base_owner), &stats);
    tdi_stats_add_place(account, &other);
    tdi_stats_subtract(&other, &stats);
    tdi_stats_wait_quantile_ns(stats.waits, 0.5);
    tdi_stats_wait_quantile_ns(other.waits, 0.99);
    count_something(account, &other);
    tdi_stats_begin(account, unit_random());
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        tdi_stats_stripe_operations(&account->stripe[i]);
    tdi_stats_all(&stats, TDI_COUNT_TOKENS);
}

START_TEST(any_contents_do_no_harm)
{
    struct tdi_layout_account *account = new_account();
    for (int i = 0; i < 3000; i++) {
        unsigned char *bytes = (unsigned char *)account;
        for (size_t at = 0; at < sizeof *account; at++)
            bytes[at] = i == 0 ? 0xff : (unsigned char)unit_random();
        use(account);
    }
}
END_TEST

/* Counts that went round still are the right distance apart. */
START_TEST(an_owners_counts_are_right_whatever_the_place_began_with)
{
    struct tdi_layout_account *account = new_account();
    struct tdi_stats expected = {0}, got;
    memset((void *)account, 0xff, sizeof *account);
    tdi_stats_begin(account, 5);
    for (int i = 0; i < 1000; i++)
        count_something(account, &expected);
    ck_assert(tdi_stats_read_owner(account, 5, &got));
    ck_assert(is_same(&got, &expected));
}
END_TEST

static Suite *stats(void)
{
    Suite *suite = suite_create("stats");
    TCase *classes = unit_case(suite, "classes");
    tcase_add_test(classes, a_waiting_time_lies_in_its_class);
    tcase_add_test(classes, both_ends_of_a_class_are_in_it);
    tcase_add_test(classes, classes_rise_and_are_a_quarter_of_a_power_of_two_wide);
    TCase *quantiles = unit_case(suite, "quantiles");
    tcase_add_test(quantiles, a_quantile_is_never_too_small_and_within_a_class);
    tcase_add_test(quantiles, quantiles_of_nothing_and_of_anything_end);
    TCase *owners = unit_case(suite, "owners");
    tcase_add_test(owners, an_owner_has_what_was_counted_since_it_came_and_the_place_has_all);
    tcase_add_test(owners, a_stripes_operations_are_all_but_the_tokens);
    tcase_add_test(owners, at_any_moment_of_a_beginning_the_former_owner_has_all_its_counts_or_is_gone);
    tcase_add_test(owners, a_readers_owner_never_loses_counts_to_the_next);
    TCase *hostile = unit_case(suite, "hostile");
    tcase_add_test(hostile, any_contents_do_no_harm);
    tcase_add_test(hostile, an_owners_counts_are_right_whatever_the_place_began_with);
    return suite;
}

KIT_MAIN(stats)
