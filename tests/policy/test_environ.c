/* SPDX-License-Identifier: MIT */
/*
 * The environment's words: the cases of the folder environs/ (see its README; a new case is a new line
 * there), and what is left of a policy after an error.
 */
#include "kit/kit.h"
#include "policy/cases.h"
#include "policy/env.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS_MAX = 24,
};

static struct tdi_policy policy;

static void add_calls(FILE *out, uint32_t calls)
{
    if (calls == TDI_CALLS_UP || calls == TDI_CALLS_DOWN || calls == TDI_CALL_CONNECT || calls == 0)
        fprintf(out, " calls %s",
                calls == TDI_CALLS_UP     ? "up"
                : calls == TDI_CALLS_DOWN ? "down"
                : calls != 0              ? "connect"
                                          : "default");
    else
        fprintf(out, " calls 0x%x", calls);
}

static void add_rule(FILE *out, const struct tdi_policy_rule *rule)
{
    static const char *const counts[] = {"?", "bytes", "calls"};
    static const char *const manners[] = {[TDI_EMPTY_WAIT] = "",
                                          [TDI_EMPTY_REFUSE] = " refuse",
                                          [TDI_EMPTY_DROP] = " drop",
                                          [TDI_EMPTY_OBSERVE] = " observe"};
    char text[64];
    fprintf(out, "; %u: ", rule->number);
    for (uint32_t i = 0; i < rule->buckets; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", tdi_policy_bucket(&policy, rule, i));
    fputs(rule->buckets == 0 ? "quota" : "", out);
    if (rule->has_rate) {
        tdi_unit_format_rate(text, sizeof text, &rule->rate);
        fprintf(out, " %s burst %u%s", text, rule->burst, rule->has_burst ? "!" : "");
    }
    fprintf(out, " %s", counts[rule->count]);
    add_calls(out, rule->calls);
    if (rule->dests > 0)
        fprintf(out, " to %u", rule->dests);
    fputs(rule->named ? " named" : "", out);
    fputs(manners[rule->when_empty], out);
    if (rule->refuse_errno != 0)
        fprintf(out, " errno %d", rule->refuse_errno);
    if (rule->max_wait_ns != UINT64_MAX) {
        tdi_unit_format_duration(text, sizeof text, rule->max_wait_ns);
        fprintf(out, " within %s", text);
    }
}

static void describe(char answer[CASES_TEXT])
{
    FILE *out = fmemopen(answer, CASES_TEXT, "w");
    fputs(policy.verbose ? "verbose " : "", out);
    fputs(policy.fail ? "fail " : "", out);
    if (policy.inherit != TDI_INHERIT_ENV)
        fprintf(out, "inherit %s ", policy.inherit == TDI_INHERIT_ALWAYS ? "always" : "never");
    for (uint32_t i = 0; i < policy.rules; i++)
        add_rule(out, &policy.rule[i]);
    fclose(out);
}

/* "curl: A=1 B=2": splits the words, in `text` itself. The program, "" if there is none. */
static const char *split(char *text, char *words[WORDS_MAX])
{
    size_t count = 0;
    const char *program = "";
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        ck_assert(count < WORDS_MAX - 1);
        for (char *blank = word; (blank = strchr(blank, '~')); blank++)
            *blank = ' ';
        if (count == 0 && word[strlen(word) - 1] == ':' && !strchr(word, '=')) {
            word[strlen(word) - 1] = '\0';
            program = word;
        } else {
            words[count++] = word;
        }
    }
    words[count] = NULL;
    return program;
}

static int read_words(const char *text, char *why, size_t len)
{
    char copy[CASES_TEXT], *words[WORDS_MAX];
    snprintf(copy, sizeof copy, "%s", text);
    const char *program = split(copy, words);
    return tdi_policy_from_environ(&policy, words, program, why, len);
}

static void answer_environ(const char *text, char answer[CASES_TEXT])
{
    char why[512] = "";
    int error = read_words(text, why, sizeof why);
    ck_assert_int_eq(policy.applies, policy.rules > 0);
    if (error)
        cases_answer_error(error, why, answer);
    else if (policy.applies)
        describe(answer);
    else
        snprintf(answer, CASES_TEXT, policy.off ? "off" : "rests");
}

START_TEST(rules_are_read_as_the_cases_say)
{
    cases_check(ENVIRONS "/rules.txt", answer_environ);
}
END_TEST

START_TEST(calls_are_read_as_the_cases_say)
{
    cases_check(ENVIRONS "/calls.txt", answer_environ);
}
END_TEST

START_TEST(names_are_read_as_the_cases_say)
{
    cases_check(ENVIRONS "/names.txt", answer_environ);
}
END_TEST

START_TEST(mistakes_are_named_as_the_cases_say)
{
    cases_check(ENVIRONS "/bad.txt", answer_environ);
}
END_TEST

START_TEST(no_environment_is_an_empty_one)
{
    char why[8];
    ck_assert_int_eq(tdi_policy_from_environ(&policy, NULL, "", why, sizeof why), 0);
    ck_assert(!policy.applies);
}
END_TEST

/* Who asked for failing calls is to have them, whatever else went wrong. */
START_TEST(after_an_error_it_is_known_which_calls_were_meant)
{
    char why[512];
    ck_assert_int_eq(
        read_words("TUNDISH_RATE=fly TUNDISH_CALLS=up TUNDISH_2_BUCKET=%x TUNDISH_2_CALLS=recv,no "
                   "TUNDISH_3_RATE=1/s TUNDISH_ON_ERROR=fail TUNDISH_VERBOSE=1 TUNDISH_FLY=1",
                   why, sizeof why),
        -EINVAL);
    ck_assert(policy.applies && policy.fail && policy.verbose);
    ck_assert_uint_eq(policy.rules, 3);
    ck_assert_uint_eq(policy.rule[0].calls, TDI_CALLS_UP);
    ck_assert_uint_eq(policy.rule[1].calls, TDI_CALL_RECV);
    ck_assert_uint_eq(policy.rule[2].calls, 0);
    ck_assert_ptr_nonnull(strstr(why, "TUNDISH_RATE=fly"));
}
END_TEST

START_TEST(names_of_all_rules_share_a_limited_room)
{
    char first[3000] = "TUNDISH_BUCKET=", second[3000] = "TUNDISH_2_BUCKET=", why[512];
    char *words[] = {first, second, NULL};
    memset(first + strlen(first), 'a', 2500);
    memset(second + strlen(second), 'b', 4095 - 2501);
    ck_assert_int_eq(tdi_policy_from_environ(&policy, words, "", why, sizeof why), 0);
    ck_assert_uint_eq(policy.text_used, TDI_POLICY_TEXT);
    ck_assert_str_eq(tdi_policy_bucket(&policy, &policy.rule[1], 0), strchr(second, '=') + 1);
    strcat(second, "b");
    ck_assert_int_eq(tdi_policy_from_environ(&policy, words, "", why, sizeof why), -EINVAL);
    ck_assert_ptr_nonnull(strstr(why, "are longer than 4095 bytes"));
}
END_TEST

START_TEST(a_complaint_is_one_clean_line_that_fits)
{
    char words[] = "TUNDISH_RATE=\033[1m\nfly", full[512], why[512];
    ck_assert_int_eq(read_words(words, full, sizeof full), -EINVAL);
    ck_assert_ptr_null(strpbrk(full, "\033\n"));
    for (size_t len = 1; len <= strlen(full) + 1; len++) {
        memset(why, '#', sizeof why);
        read_words(words, why, len);
        ck_assert_uint_eq(strlen(why), len - 1);
        ck_assert(memcmp(why, full, len - 1) == 0 && why[len] == '#');
    }
}
END_TEST

START_TEST(keys_of_a_name_are_found_but_not_behind_a_percent_sign)
{
    ck_assert(tdi_policy_name_has("a-%h", "hP"));
    ck_assert(tdi_policy_name_has("%%%P", "hP"));
    ck_assert(tdi_policy_name_has("%u%p", "p"));
    ck_assert(!tdi_policy_name_has("%%h", "hP"));
    ck_assert(!tdi_policy_name_has("hP%", "hP"));
    ck_assert(!tdi_policy_name_has("%u", "hP"));
    ck_assert(!tdi_policy_name_has("", "hP"));
}
END_TEST

START_TEST(calls_without_a_word_follow_from_what_is_counted)
{
    struct tdi_policy_rule rule = {0};
    ck_assert_uint_eq(tdi_policy_calls(&rule, true), TDI_CALLS_UP);
    ck_assert_uint_eq(tdi_policy_calls(&rule, false), TDI_CALL_CONNECT);
    rule.calls = TDI_CALL_READ;
    ck_assert_uint_eq(tdi_policy_calls(&rule, true), TDI_CALL_READ);
}
END_TEST

START_TEST(a_rule_reaches_the_kinds_it_could_be_for)
{
    char why[512];
    ck_assert_int_eq(read_words("TUNDISH_RATE=1/s TUNDISH_2_RATE=1/s TUNDISH_2_DEST=10.0.0.0/8,tty "
                                "TUNDISH_3_RATE=1/s TUNDISH_3_DEST=::1",
                                why, sizeof why),
                     0);
    static const bool expected[3][TDI_KIND_TTY + 1] = {
        {[TDI_KIND_INET] = true, [TDI_KIND_INET6] = true},
        {[TDI_KIND_INET] = true, [TDI_KIND_INET6] = true, [TDI_KIND_TTY] = true},
        {[TDI_KIND_INET6] = true},
    };
    for (size_t i = 0; i < 3; i++)
        for (enum tdi_kind kind = TDI_KIND_OTHER; kind <= TDI_KIND_TTY; kind++)
            ck_assert_msg(tdi_policy_reaches(&policy, &policy.rule[i], kind) == expected[i][kind],
                          "rule %zu, kind %d", i + 1, (int)kind);
}
END_TEST

/* A word of the grammar, or nearly one. */
static void make_word(uint64_t *state, char *word, size_t len)
{
    static const char *const numbers[] = {"", "", "", "2_", "3_", "8_", "9_", "22_"};
    static const char *const names[] = {"BUCKET", "RATE",     "BURST",    "COUNT",   "CALLS",      "DEST",
                                        "SKIP",   "MAX_WAIT", "ON_ERROR", "INHERIT", "WHEN_EMPTY", "FLY"};
    static const char *const values[] = {
        "10/s",  "1MB/s", "up,down", "a,b%h",  "unix,:443",  "10.0.0.0/8,[::1]:80",
        "bytes", "calls", "fail",    "always", "refuse:EIO", "200ms"};
    static const char signs[] = "%,:/[]0918absMB. \t";
    snprintf(word, len, "TUNDISH_%s%s=%s", numbers[cases_random(state) % 8], names[cases_random(state) % 12],
             values[cases_random(state) % 12]);
    for (unsigned slips = (unsigned)(cases_random(state) % 3); slips > 1; slips--)
        word[cases_random(state) % strlen(word)] = signs[cases_random(state) % (sizeof signs - 1)];
}

static void check_limits(const struct tdi_policy_rule *rule, uint32_t before)
{
    ck_assert_uint_gt(rule->number, before);
    ck_assert_uint_le(rule->number, TDI_POLICY_RULES);
    ck_assert_uint_le(rule->buckets, TDI_POLICY_BUCKETS);
    ck_assert_uint_le(rule->dest + rule->dests, policy.dests);
    for (uint32_t i = 0; i < rule->buckets; i++)
        ck_assert_uint_lt(strlen(tdi_policy_bucket(&policy, rule, i)), policy.text_used);
}

START_TEST(whatever_is_read_leaves_a_policy_that_can_be_used)
{
    uint64_t state = 7;
    unsigned good = 0;
    for (unsigned round = 0; round < 100000; round++) {
        char text[WORDS_MAX][64], why[200] = "", *words[WORDS_MAX] = {NULL};
        for (size_t i = 0, count = cases_random(&state) % 6; i < count; i++)
            make_word(&state, words[i] = text[i], sizeof text[i]);
        int error = tdi_policy_from_environ(&policy, words, "curl", why, sizeof why);
        ck_assert_int_eq(error != 0, why[0] != '\0');
        ck_assert_int_eq(policy.applies, policy.rules > 0);
        ck_assert(policy.dests <= TDI_POLICY_DESTS && policy.text_used <= TDI_POLICY_TEXT);
        for (uint32_t i = 0; i < policy.rules; i++)
            check_limits(&policy.rule[i], i > 0 ? policy.rule[i - 1].number : 0);
        good += error == 0 && policy.rules > 0;
    }
    ck_assert_uint_gt(good, 1000);
}
END_TEST

START_TEST(errno_stays_as_it_was)
{
    char why[64];
    errno = 1234;
    read_words("TUNDISH_RATE=fly TUNDISH_DEST=fly TUNDISH_2_RATE=1/s", why, sizeof why);
    ck_assert_int_eq(errno, 1234);
}
END_TEST

static Suite *environ_words(void)
{
    Suite *suite = suite_create("environ");
    TCase *cases = kit_case(suite, "cases");
    tcase_add_test(cases, rules_are_read_as_the_cases_say);
    tcase_add_test(cases, calls_are_read_as_the_cases_say);
    tcase_add_test(cases, names_are_read_as_the_cases_say);
    tcase_add_test(cases, mistakes_are_named_as_the_cases_say);
    TCase *manners = kit_case(suite, "manners");
    tcase_add_test(manners, no_environment_is_an_empty_one);
    tcase_add_test(manners, after_an_error_it_is_known_which_calls_were_meant);
    tcase_add_test(manners, names_of_all_rules_share_a_limited_room);
    tcase_add_test(manners, a_complaint_is_one_clean_line_that_fits);
    tcase_add_test(manners, keys_of_a_name_are_found_but_not_behind_a_percent_sign);
    tcase_add_test(manners, calls_without_a_word_follow_from_what_is_counted);
    tcase_add_test(manners, a_rule_reaches_the_kinds_it_could_be_for);
    tcase_add_test(manners, whatever_is_read_leaves_a_policy_that_can_be_used);
    tcase_add_test(manners, errno_stays_as_it_was);
    return suite;
}

KIT_MAIN(environ_words)
