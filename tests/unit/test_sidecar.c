/* SPDX-License-Identifier: MIT */
/* When the sidecar's default policy wants leases, and when it has had enough of them. */
#include <string.h>

#include "kit/kit.h"
#include "lib/adapt.h"

/* Ten milliseconds of two threads that get in each other's way, with tokens for both. */
static struct tundish_sidecar_stats crowd(void)
{
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    stats.span_ns = 10 * KIT_MILLISECOND;
    stats.span_granted = 100000;
    stats.span_retries = stats.span_granted / TDI_ADAPT_CONTENDED + 1;
    stats.threads = 2;
    return stats;
}

/* The same with leases: nobody is in anybody's way. */
static struct tundish_sidecar_stats leased(void)
{
    struct tundish_sidecar_stats stats = crowd();
    stats.strategy = TUNDISH_LEASED;
    stats.span_retries = 0;
    return stats;
}

/* The first answer to the same question asked so many times, and at which time it came. */
static int ask(const struct tundish_sidecar_stats *stats, struct tdi_adapt_mood *mood, unsigned times,
               unsigned *asked)
{
    int answer = -1;
    for (*asked = 0; *asked < times && answer < 0; (*asked)++)
        answer = tdi_adapt_decide(stats, mood);
    return answer;
}

static void expect_answer(struct tundish_sidecar_stats stats, int answer)
{
    struct tdi_adapt_mood mood = {0};
    unsigned asked;
    ck_assert_int_eq(ask(&stats, &mood, 1000, &asked), answer);
}

START_TEST(a_crowd_wants_leases_after_a_few_scans)
{
    struct tdi_adapt_mood mood = {0};
    struct tundish_sidecar_stats stats = crowd();
    unsigned asked;
    ck_assert_int_eq(ask(&stats, &mood, 100, &asked), TUNDISH_LEASED);
    ck_assert_uint_eq(asked, TDI_ADAPT_IN_A_ROW);
}
END_TEST

START_TEST(a_single_quiet_scan_begins_the_count_anew)
{
    struct tdi_adapt_mood mood = {0};
    struct tundish_sidecar_stats stats = crowd(), quiet = crowd();
    unsigned asked;
    quiet.span_retries = 0;
    ck_assert_int_eq(ask(&stats, &mood, TDI_ADAPT_IN_A_ROW - 1, &asked), -1);
    ck_assert_int_eq(tdi_adapt_decide(&quiet, &mood), -1);
    ck_assert_int_eq(ask(&stats, &mood, TDI_ADAPT_IN_A_ROW - 1, &asked), -1);
    ck_assert_int_eq(tdi_adapt_decide(&stats, &mood), TUNDISH_LEASED);
}
END_TEST

START_TEST(without_contention_a_rate_or_tokens_nothing_changes)
{
    struct tundish_sidecar_stats stats = crowd();
    stats.span_retries = stats.span_granted / TDI_ADAPT_CONTENDED;
    expect_answer(stats, -1);
    stats = crowd();
    stats.span_ns = stats.span_granted * KIT_SECOND / TDI_ADAPT_BUSY_PER_S;
    expect_answer(stats, -1);
    stats = crowd();
    stats.span_refused = stats.span_granted / 15 + 1;
    expect_answer(stats, -1);
    stats = crowd();
    stats.span_granted = stats.span_retries = 0;
    expect_answer(stats, -1);
}
END_TEST

START_TEST(steady_crowds_keep_their_leases)
{
    expect_answer(leased(), -1);
}
END_TEST

START_TEST(leases_end_when_the_reason_has_been_gone_for_a_while)
{
    struct tundish_sidecar_stats alone = leased(), slow = leased(), refused = leased(), idle = leased();
    alone.threads = 1;
    slow.span_granted = 9000;
    refused.span_refused = refused.span_granted;
    idle.span_granted = 0;
    idle.threads = 0;
    expect_answer(alone, TUNDISH_DIRECT);
    expect_answer(slow, TUNDISH_DIRECT);
    expect_answer(refused, TUNDISH_DIRECT);
    expect_answer(idle, TUNDISH_DIRECT);
}
END_TEST

START_TEST(the_way_back_takes_time_and_scans)
{
    struct tdi_adapt_mood mood = {0};
    struct tundish_sidecar_stats idle = leased();
    unsigned asked;
    idle.span_granted = 0;
    ck_assert_int_eq(ask(&idle, &mood, 100, &asked), TUNDISH_DIRECT);
    ck_assert_uint_eq(asked, TDI_ADAPT_CALM_NS / idle.span_ns);
    memset(&mood, 0, sizeof mood);
    idle.span_ns = KIT_SECOND;
    ck_assert_int_eq(ask(&idle, &mood, 100, &asked), TUNDISH_DIRECT);
    ck_assert_uint_eq(asked, TDI_ADAPT_IN_A_ROW);
}
END_TEST

START_TEST(a_thread_that_gets_no_processor_now_and_then_ends_no_leases)
{
    struct tdi_adapt_mood mood = {0};
    struct tundish_sidecar_stats both = leased(), one = leased();
    unsigned asked;
    one.threads = 1;
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_int_eq(ask(&one, &mood, 10, &asked), -1);
        ck_assert_int_eq(tdi_adapt_decide(&both, &mood), -1);
    }
}
END_TEST

START_TEST(a_scan_without_time_or_operations_says_nothing_odd)
{
    struct tdi_adapt_mood mood = {0};
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    for (unsigned i = 0; i < 100; i++)
        ck_assert_int_eq(tdi_adapt_decide(&stats, &mood), -1);
    stats.span_granted = stats.span_refused = stats.span_retries = stats.span_ns = UINT64_MAX / 2;
    ck_assert_int_eq(tdi_adapt_decide(&stats, &mood), -1);
}
END_TEST

static Suite *sidecar(void)
{
    Suite *suite = suite_create("sidecar");
    TCase *policy = kit_case(suite, "policy");
    tcase_add_test(policy, a_crowd_wants_leases_after_a_few_scans);
    tcase_add_test(policy, a_single_quiet_scan_begins_the_count_anew);
    tcase_add_test(policy, without_contention_a_rate_or_tokens_nothing_changes);
    tcase_add_test(policy, steady_crowds_keep_their_leases);
    tcase_add_test(policy, leases_end_when_the_reason_has_been_gone_for_a_while);
    tcase_add_test(policy, the_way_back_takes_time_and_scans);
    tcase_add_test(policy, a_thread_that_gets_no_processor_now_and_then_ends_no_leases);
    tcase_add_test(policy, a_scan_without_time_or_operations_says_nothing_odd);
    return suite;
}

KIT_MAIN(sidecar)
