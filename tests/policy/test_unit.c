/* SPDX-License-Identifier: MIT */
/*
 * Units: the cases of the folder units/ (see its README; a new case is a new line there), and what holds for
 * all values: what is printed can be read back, and a refused text changes nothing.
 */
#include "kit/kit.h"
#include "policy/cases.h"
#include "policy/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void answer_rate(const char *text, char answer[CASES_TEXT])
{
    struct tdi_rate rate = {0};
    const char *why = NULL;
    char shown[64];
    int error = tdi_unit_parse_rate(text, &rate, &why);
    if (error) {
        ck_assert_uint_eq(rate.interval_us, 0);
        cases_answer_error(error, why, answer);
        return;
    }
    tdi_unit_format_rate(shown, sizeof shown, &rate);
    snprintf(answer, CASES_TEXT, "%" PRIu32 " per %" PRIu64 " us of %s, shown %s, burst %" PRIu32,
             rate.refill, rate.interval_us, rate.bytes ? "bytes" : "calls", shown,
             tdi_unit_default_burst(&rate));
}

static void answer_burst(const char *text, char answer[CASES_TEXT])
{
    struct tdi_rate rate;
    const char *why = NULL, *of = strstr(text, " of ");
    char burst_text[CASES_TEXT];
    uint32_t burst = 7;
    ck_assert_msg(of && tdi_unit_parse_rate(of + 4, &rate, &why) == 0, "bad case: %s", text);
    snprintf(burst_text, sizeof burst_text, "%.*s", (int)(of - text), text);
    int error =
        tdi_unit_parse_burst(strcmp(burst_text, "<empty>") == 0 ? "" : burst_text, &rate, &burst, &why);
    if (error) {
        ck_assert_uint_eq(burst, 7);
        cases_answer_error(error, why, answer);
    } else {
        snprintf(answer, CASES_TEXT, "%" PRIu32, burst);
    }
}

static void answer_count(const char *text, char answer[CASES_TEXT])
{
    const char *why = NULL;
    char shown[64];
    uint32_t count = 7;
    int error = tdi_unit_parse_count(text, &count, &why);
    if (error) {
        ck_assert_uint_eq(count, 7);
        cases_answer_error(error, why, answer);
        return;
    }
    tdi_unit_format_count(shown, sizeof shown, count, true);
    snprintf(answer, CASES_TEXT, "%" PRIu32 ", %s", count, shown);
}

static void answer_duration(const char *text, char answer[CASES_TEXT])
{
    const char *why = NULL;
    char shown[64];
    uint64_t ns = 7;
    int error = tdi_unit_parse_duration_ns(text, &ns, &why);
    if (error) {
        ck_assert_uint_eq(ns, 7);
        cases_answer_error(error, why, answer);
        return;
    }
    tdi_unit_format_duration(shown, sizeof shown, ns);
    snprintf(answer, CASES_TEXT, "%" PRIu64 ", %s", ns, shown);
}

START_TEST(rates_are_read_as_the_cases_say)
{
    cases_check(UNITS "/rates.txt", answer_rate);
}
END_TEST

START_TEST(bursts_are_read_as_the_cases_say)
{
    cases_check(UNITS "/bursts.txt", answer_burst);
}
END_TEST

START_TEST(counts_are_read_as_the_cases_say)
{
    cases_check(UNITS "/counts.txt", answer_count);
}
END_TEST

START_TEST(durations_are_read_as_the_cases_say)
{
    cases_check(UNITS "/durations.txt", answer_duration);
}
END_TEST

START_TEST(a_printed_rate_reads_back_as_the_same_rate)
{
    static const uint64_t intervals[] = {
        1, 3, 500, 1000, 1500, 100000, 1000000, 60000000, 90000000, 3600000000, 86400000000, 31622400000000};
    uint64_t state = 1;
    for (unsigned i = 0; i < 20000; i++) {
        struct tdi_rate rate = {0}, again;
        const char *why = "";
        char text[64];
        rate.interval_us = intervals[cases_random(&state) % (sizeof intervals / sizeof intervals[0])];
        rate.refill = (uint32_t)(cases_random(&state) % 200000 + 1);
        if (rate.interval_us >= 1000000)
            rate.refill = (uint32_t)(cases_random(&state) >> (16 + cases_random(&state) % 32)) | 1;
        rate.bytes = cases_random(&state) % 2;
        tdi_unit_format_rate(text, sizeof text, &rate);
        ck_assert_msg(tdi_unit_parse_rate(text, &again, &why) == 0, "%s: %s", text, why);
        ck_assert_msg(tdi_unit_same_rate(&rate, &again), "%s is another rate", text);
    }
}
END_TEST

START_TEST(a_printed_count_reads_back_as_the_same_count)
{
    uint64_t state = 2;
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t count = (uint32_t)(cases_random(&state) >> (16 + cases_random(&state) % 32)), again;
        const char *why = "";
        char text[64];
        count = i % 3 == 0 ? count / 1000 * 1000 : i % 3 == 1 ? count / 1024 * 1024 : count;
        tdi_unit_format_count(text, sizeof text, count, true);
        ck_assert_msg(tdi_unit_parse_count(text, &again, &why) == 0, "%s: %s", text, why);
        ck_assert_uint_eq(again, count);
    }
}
END_TEST

START_TEST(rates_are_the_same_however_written)
{
    static const struct {
        const char *left, *right;
        bool same;
    } pairs[] = {
        {"60/min", "1/s", true},       {"0.5/s", "1/2s", true},    {"8Mbit/s", "1MB/s", true},
        {"10GB/s", "10000B/us", true}, {"10/s", "11/s", false},    {"10/s", "10B/s", false},
        {"1/s", "60/h", false},        {"1kB/s", "1KiB/s", false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct tdi_rate left, right;
        const char *why;
        ck_assert_int_eq(tdi_unit_parse_rate(pairs[i].left, &left, &why), 0);
        ck_assert_int_eq(tdi_unit_parse_rate(pairs[i].right, &right, &why), 0);
        ck_assert_msg(tdi_unit_same_rate(&left, &right) == pairs[i].same, "%s and %s", pairs[i].left,
                      pairs[i].right);
    }
}
END_TEST

START_TEST(short_buffers_are_cut_and_terminated)
{
    const struct tdi_rate rate = {2000000, 1000000, true};
    for (size_t len = 1; len < 8; len++) {
        char buf[8] = "#######";
        tdi_unit_format_rate(buf, len, &rate);
        ck_assert_uint_eq(strlen(buf), len - 1 < 6 ? len - 1 : 6);
        ck_assert(memcmp(buf, "2 MB/s", strlen(buf)) == 0);
    }
}
END_TEST

START_TEST(errno_stays_as_it_was)
{
    struct tdi_rate rate;
    const char *why;
    errno = 1234;
    tdi_unit_parse_rate("10/s", &rate, &why);
    tdi_unit_parse_rate("99999999999999999999/s", &rate, &why);
    tdi_unit_parse_rate("10K/s", &rate, &why);
    ck_assert_int_eq(errno, 1234);
}
END_TEST

START_TEST(a_wait_without_end_is_never)
{
    char text[32];
    tdi_unit_format_duration(text, sizeof text, UINT64_MAX);
    ck_assert_str_eq(text, "never");
}
END_TEST

static Suite *units(void)
{
    Suite *suite = suite_create("units");
    TCase *cases = kit_case(suite, "cases");
    tcase_add_test(cases, rates_are_read_as_the_cases_say);
    tcase_add_test(cases, bursts_are_read_as_the_cases_say);
    tcase_add_test(cases, counts_are_read_as_the_cases_say);
    tcase_add_test(cases, durations_are_read_as_the_cases_say);
    TCase *laws = kit_case(suite, "laws");
    tcase_add_test(laws, a_printed_rate_reads_back_as_the_same_rate);
    tcase_add_test(laws, a_printed_count_reads_back_as_the_same_count);
    tcase_add_test(laws, rates_are_the_same_however_written);
    tcase_add_test(laws, short_buffers_are_cut_and_terminated);
    tcase_add_test(laws, errno_stays_as_it_was);
    tcase_add_test(laws, a_wait_without_end_is_never);
    return suite;
}

KIT_MAIN(units)
