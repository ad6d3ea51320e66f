/* SPDX-License-Identifier: MIT */
/*
 * Costs and refusals: the cases of the folder costs/ (see its README; a new case is a new line there), and
 * what they come to in calls.
 */
#include "kit/kit.h"
#include "policy/cases.h"
#include "policy/cost.h"
#include "policy/signature.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static void read_signature(const char *text, char compact[TDI_SIGNATURE_TEXT])
{
    char why[200] = "";
    ck_assert_msg(tdi_signature_parse(text, compact, why, sizeof why) == 0, "%s: %s", text, why);
}

/* "arg1 of int (int)", in `text` itself. */
static void split(char *text, char compact[TDI_SIGNATURE_TEXT])
{
    char *of = strstr(text, " of ");
    read_signature(of ? of + 4 : "int (int)", compact);
    if (of)
        *of = '\0';
}

static void answer_cost(const char *text, char answer[CASES_TEXT])
{
    char copy[CASES_TEXT], compact[TDI_SIGNATURE_TEXT], why[512] = "";
    struct tdi_cost cost;
    snprintf(copy, sizeof copy, "%s", text);
    split(copy, compact);
    int error = tdi_cost_parse(copy, compact, &cost, why, sizeof why);
    if (error) {
        cases_answer_error(error, why, answer);
        return;
    }
    ck_assert_msg(tdi_cost_is_sound(&cost, compact), "%s", text);
    tdi_cost_format(answer, CASES_TEXT, &cost);
}

static void answer_refusal(const char *text, char answer[CASES_TEXT])
{
    char copy[CASES_TEXT], compact[TDI_SIGNATURE_TEXT], why[512] = "";
    struct tdi_refusal refusal;
    snprintf(copy, sizeof copy, "%s", text);
    split(copy, compact);
    int error = tdi_refusal_parse(copy, compact, &refusal, why, sizeof why);
    if (error) {
        cases_answer_error(error, why, answer);
        return;
    }
    ck_assert_msg(refusal.stated == 1 && tdi_refusal_is_sound(&refusal, compact), "%s", text);
    tdi_refusal_format(answer, CASES_TEXT, &refusal, compact);
}

START_TEST(costs_are_read_as_the_cases_say)
{
    cases_check(COSTS "/good.txt", answer_cost);
}
END_TEST

START_TEST(mistakes_are_named_as_the_cases_say)
{
    cases_check(COSTS "/bad.txt", answer_cost);
}
END_TEST

START_TEST(refusals_are_read_as_the_cases_say)
{
    cases_check(COSTS "/refusals.txt", answer_refusal);
}
END_TEST

static struct tdi_cost read_cost(const char *text, const char *signature)
{
    char compact[TDI_SIGNATURE_TEXT], why[200] = "";
    struct tdi_cost cost;
    read_signature(signature, compact);
    ck_assert_msg(tdi_cost_parse(text, compact, &cost, why, sizeof why) == 0, "%s: %s", text, why);
    return cost;
}

static uint64_t tokens_before(const char *text, const char *signature, void *const *args)
{
    const struct tdi_cost cost = read_cost(text, signature);
    return tdi_cost_before(&cost, args);
}

START_TEST(a_number_of_tokens_needs_no_arguments)
{
    ck_assert_uint_eq(tokens_before("calls", "void ()", NULL), 1);
    ck_assert_uint_eq(tokens_before("2147483647", "void ()", NULL), 2147483647);
    ck_assert_uint_eq(tokens_before("result", "int ()", NULL), 0);
}
END_TEST

/* What lies behind a short argument does not count. */
START_TEST(an_argument_counts_as_its_type_has_it)
{
    static const struct {
        const char *type;
        uint64_t positive, negative; /* with all bits set but the sign's, and with all */
    } expected[] = {
        {"int8_t", 0x7f, 0},        {"uint8_t", 0x7f, 0xff},
        {"int16_t", 0x7fff, 0},     {"uint16_t", 0x7fff, 0xffff},
        {"int32_t", 0x7fffffff, 0}, {"uint32_t", 0x7fffffff, 0xffffffff},
        {"int64_t", INT64_MAX, 0},  {"uint64_t", INT64_MAX, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char signature[40];
        unsigned char value[16];
        const size_t size = (size_t)1 << i / 2;
        void *args[] = {NULL, value};
        snprintf(signature, sizeof signature, "int (pointer, %s)", expected[i].type);
        memset(value, 0xff, sizeof value);
        ck_assert_uint_eq(tokens_before("arg2", signature, args), expected[i].negative);
        memcpy(value, &(uint64_t){UINT64_MAX >> (65 - 8 * size)}, size);
        ck_assert_uint_eq(tokens_before("arg2", signature, args), expected[i].positive);
        memset(value, 0, size);
        ck_assert_uint_eq(tokens_before("arg2", signature, args), 0);
    }
}
END_TEST

START_TEST(a_product_stops_at_the_largest_number)
{
    static const char signature[] = "int (long, size_t, int)";
    long a = 3;
    size_t b = 5;
    int c = -1;
    void *args[] = {&a, &b, &c};
    ck_assert_uint_eq(tokens_before("arg1 * arg2", signature, args), 15);
    ck_assert_uint_eq(tokens_before("arg2 * arg3", signature, args), 0);
    b = SIZE_MAX;
    ck_assert_uint_eq(tokens_before("arg1 * arg2", signature, args), UINT64_MAX);
    a = 0;
    ck_assert_uint_eq(tokens_before("arg1 * arg2", signature, args), 0);
}
END_TEST

START_TEST(a_string_costs_its_length_and_null_nothing)
{
    const char *text = "abc";
    void *args[] = {&text};
    ck_assert_uint_eq(tokens_before("strlen(arg1)", "int (pointer)", args), 3);
    text = "";
    ck_assert_uint_eq(tokens_before("strlen(arg1)", "int (pointer)", args), 0);
    text = NULL;
    ck_assert_uint_eq(tokens_before("strlen(arg1)", "int (pointer)", args), 0);
}
END_TEST

START_TEST(an_array_costs_its_bytes_up_to_what_a_system_call_takes)
{
    static const char cost[] = "iov(arg1, arg2)", signature[] = "int (pointer, int)";
    static struct iovec iov[1024];
    const struct iovec *array = iov;
    int count = 2;
    void *args[] = {&array, &count};
    for (size_t i = 0; i < 1024; i++)
        iov[i].iov_len = i + 1;
    ck_assert_uint_eq(tokens_before(cost, signature, args), 3);
    count = INT32_MAX;
    ck_assert_uint_eq(tokens_before(cost, signature, args), 1024 * 1025 / 2);
    count = -1;
    ck_assert_uint_eq(tokens_before(cost, signature, args), 0);
    count = 3;
    iov[1].iov_len = SIZE_MAX - 3;
    ck_assert_uint_eq(tokens_before(cost, signature, args), UINT64_MAX);
    array = NULL;
    ck_assert_uint_eq(tokens_before(cost, signature, args), 0);
}
END_TEST

START_TEST(an_argument_behind_the_dots_counts_too)
{
    unsigned mode = 0644;
    void *args[] = {NULL, NULL, &mode};
    ck_assert_uint_eq(tokens_before("arg3", "int (pointer, int, ...unsigned)", args), 0644);
}
END_TEST

static uint64_t tokens_after(const char *signature, uint64_t result)
{
    const struct tdi_cost cost = read_cost("result", signature);
    return tdi_cost_after(&cost, &result);
}

START_TEST(a_result_is_read_from_its_part_of_the_register)
{
    const uint64_t dirt = UINT64_C(0xdeadbeef00000000);
    ck_assert_uint_eq(tokens_after("int ()", 7), 7);
    ck_assert_uint_eq(tokens_after("int ()", UINT64_MAX), 0);
    ck_assert_uint_eq(tokens_after("int ()", dirt | 7), 7);
    ck_assert_uint_eq(tokens_after("int ()", dirt | 0xffffffff), 0);
    ck_assert_uint_eq(tokens_after("unsigned ()", dirt | 0xffffffff), 0xffffffff);
    ck_assert_uint_eq(tokens_after("short ()", dirt | 0xffff), 0);
    ck_assert_uint_eq(tokens_after("short ()", dirt | 0xff0007), 7);
    ck_assert_uint_eq(tokens_after("unsigned short ()", dirt | 0xffff), 0xffff);
    ck_assert_uint_eq(tokens_after("signed char ()", dirt | 0x80), 0);
    ck_assert_uint_eq(tokens_after("signed char ()", dirt | 0xff07), 7);
    ck_assert_uint_eq(tokens_after("unsigned char ()", dirt | 0x80), 0x80);
    ck_assert_uint_eq(tokens_after("long ()", INT64_MAX), INT64_MAX);
    ck_assert_uint_eq(tokens_after("long ()", UINT64_MAX), 0);
    ck_assert_uint_eq(tokens_after("size_t ()", UINT64_MAX), UINT64_MAX);
}
END_TEST

START_TEST(other_costs_need_no_result)
{
    const struct tdi_cost cost = read_cost("arg1", "int (int)");
    ck_assert_uint_eq(tdi_cost_after(&cost, NULL), 0);
}
END_TEST

START_TEST(a_cost_fits_only_the_types_that_it_was_read_for)
{
    static const struct tdi_cost unsound[] = {
        {.kind = TDI_COST_TOKENS},
        {.kind = TDI_COST_TOKENS, .tokens = UINT32_C(1) << 31},
        {.kind = TDI_COST_ARG, .a = 1, .a_type = 'l'},
        {.kind = TDI_COST_ARG, .a = 0, .a_type = 'p'},
        {.kind = TDI_COST_ARG, .a = 2, .a_type = 'd'},
        {.kind = TDI_COST_ARG, .a = 3, .a_type = '\0'},
        {.kind = TDI_COST_ARG, .a = 255, .a_type = 'i'},
        {.kind = TDI_COST_PRODUCT, .a = 1, .a_type = 'i', .b = 0, .b_type = 'p'},
        {.kind = TDI_COST_PRODUCT, .a = 0, .a_type = 'p', .b = 1, .b_type = 'i'},
        {.kind = TDI_COST_STRLEN, .a = 1, .a_type = 'i'},
        {.kind = TDI_COST_STRLEN, .a = 1, .a_type = 'p'},
        {.kind = TDI_COST_IOV, .a = 0, .a_type = 'p', .b = 2, .b_type = 'd'},
        {.kind = TDI_COST_IOV, .a = 1, .a_type = 'i', .b = 1, .b_type = 'i'},
        {.kind = TDI_COST_RESULT},
        {.kind = TDI_COST_RESULT, .a_type = 'i'},
        {.kind = TDI_COST_RESULT + 1},
    };
    static const struct tdi_cost sound[] = {
        {.kind = TDI_COST_TOKENS, .tokens = 1},
        {.kind = TDI_COST_ARG, .a = 1, .a_type = 'i'},
        {.kind = TDI_COST_PRODUCT, .a = 1, .a_type = 'i', .b = 1, .b_type = 'i'},
        {.kind = TDI_COST_STRLEN, .a = 0, .a_type = 'p'},
        {.kind = TDI_COST_IOV, .a = 0, .a_type = 'p', .b = 1, .b_type = 'i'},
        {.kind = TDI_COST_RESULT, .a_type = 'l'},
    };
    for (size_t i = 0; i < sizeof unsound / sizeof *unsound; i++)
        ck_assert_msg(!tdi_cost_is_sound(&unsound[i], "lpid"), "%zu", i);
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++)
        ck_assert_msg(tdi_cost_is_sound(&sound[i], "lpid"), "%zu", i);
    ck_assert(!tdi_cost_is_sound(&sound[5], "v"));
    ck_assert(!tdi_cost_is_sound(&sound[5], ""));
}
END_TEST

static void write_refusal(const char *text, const char *signature, void *result)
{
    char compact[TDI_SIGNATURE_TEXT], why[200] = "";
    struct tdi_refusal refusal;
    read_signature(signature, compact);
    ck_assert_msg(tdi_refusal_parse(text, compact, &refusal, why, sizeof why) == 0, "%s: %s", text, why);
    tdi_refusal_write(&refusal, compact, result);
}

static uint64_t written(const char *text, const char *signature)
{
    uint64_t result = UINT64_C(0x5555555555555555);
    write_refusal(text, signature, &result);
    return result;
}

START_TEST(a_refused_call_returns_the_whole_register)
{
    ck_assert_uint_eq(written("-1 EAGAIN", "int ()"), UINT64_MAX);
    ck_assert_uint_eq(written("-1", "signed char ()"), UINT64_MAX);
    ck_assert_uint_eq(written("-2", "short ()"), UINT64_MAX - 1);
    ck_assert_uint_eq(written("200", "unsigned char ()"), 200);
    ck_assert_uint_eq(written("65535", "unsigned short ()"), 65535);
    ck_assert_uint_eq(written("4294967295", "unsigned ()"), 4294967295);
    ck_assert_uint_eq(written("18446744073709551615", "size_t ()"), UINT64_MAX);
    ck_assert_uint_eq(written("-9223372036854775808", "long ()"), UINT64_C(1) << 63);
    ck_assert_uint_eq(written("NULL ENOMEM", "pointer ()"), 0);
    ck_assert_uint_eq(written("EPERM", "void ()"), UINT64_C(0x5555555555555555));
}
END_TEST

START_TEST(a_refused_call_returns_a_floating_number)
{
    float single;
    double twice;
    long double extended;
    write_refusal("-1", "float ()", &single);
    write_refusal("3 EIO", "double ()", &twice);
    write_refusal("-9223372036854775807", "long double ()", &extended);
    ck_assert(single == -1 && twice == 3 && extended == (long double)-INT64_MAX);
}
END_TEST

START_TEST(a_refusal_fits_only_the_result_that_it_was_read_for)
{
    static const struct {
        struct tdi_refusal refusal;
        const char *signature;
        bool sound;
    } cases[] = {
        {{.stated = 0}, "{i}", true},
        {{.stated = 1}, "{i}", false},
        {{.stated = 1}, "", false},
        {{.stated = 2}, "i", false},
        {{.stated = 1, .error = EAGAIN}, "v", true},
        {{.stated = 1, .error = 12345}, "v", false},
        {{.stated = 1, .error = -1}, "i", false},
        {{.stated = 1, .value = 1}, "v", false},
        {{.stated = 1, .value = 1}, "p", false},
        {{.stated = 1, .value = 0}, "p", true},
        {{.stated = 1, .value = -1}, "i", true},
        {{.stated = 1, .value = -1}, "I", false},
        {{.stated = 1, .value = -1}, "L", true},
        {{.stated = 1, .value = 256}, "B", false},
        {{.stated = 1, .value = INT64_MIN}, "d", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(tdi_refusal_is_sound(&cases[i].refusal, cases[i].signature) == cases[i].sound, "%zu",
                      i);
}
END_TEST

START_TEST(what_is_not_stated_is_not_shown)
{
    char text[32];
    tdi_refusal_format(text, sizeof text, &(struct tdi_refusal){0}, "i");
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_mistake_leaves_what_was_there)
{
    struct tdi_cost cost = {.kind = TDI_COST_TOKENS, .tokens = 7};
    struct tdi_refusal refusal = {.value = 7};
    char why[200];
    ck_assert_int_eq(tdi_cost_parse("arg2 * arg1", "ipi", &cost, why, sizeof why), -EINVAL);
    ck_assert_uint_eq(cost.tokens, 7);
    ck_assert_int_eq(tdi_refusal_parse("-1 EFLY", "i", &refusal, why, sizeof why), -EINVAL);
    ck_assert(refusal.value == 7 && refusal.stated == 0);
}
END_TEST

/* What was read is shown so that it is read as the same again. */
static bool check_cost(const char *text, const char *signature)
{
    struct tdi_cost cost, again;
    char shown[64], why[200] = "", *copy = strdup(text);
    int error = tdi_cost_parse(copy, signature, &cost, why, sizeof why);
    free(copy);
    ck_assert_int_eq(error != 0, why[0] != '\0');
    ck_assert_ptr_null(strpbrk(why, "\n\033"));
    if (error)
        return false;
    ck_assert(tdi_cost_is_sound(&cost, signature));
    tdi_cost_format(shown, sizeof shown, &cost);
    ck_assert_int_eq(tdi_cost_parse(shown, signature, &again, why, sizeof why), 0);
    ck_assert_mem_eq(&cost, &again, sizeof cost);
    return true;
}

static bool check_refusal(const char *text, const char *signature)
{
    struct tdi_refusal refusal, again;
    char shown[64], why[200] = "", *copy = strdup(text);
    int error = tdi_refusal_parse(copy, signature, &refusal, why, sizeof why);
    free(copy);
    ck_assert_int_eq(error != 0, why[0] != '\0');
    if (error)
        return false;
    ck_assert(tdi_refusal_is_sound(&refusal, signature));
    tdi_refusal_format(shown, sizeof shown, &refusal, signature);
    ck_assert_int_eq(tdi_refusal_parse(shown, signature, &again, why, sizeof why), 0);
    ck_assert(refusal.value == again.value && refusal.error == again.error && again.stated == 1);
    return true;
}

START_TEST(texts_at_random_do_no_harm)
{
    static const char *const signatures[] = {"v", "ipiL", "Lp.i", "pp{ii}", "dfd", "{i}i", "Bbh", "l"};
    static const char *const words[] = {"arg1", "arg2", "arg3", "*",  "strlen",  "iov",  "(",      ")",
                                        ",",    "17",   "0",    "-1", "calls",   "NULL", "result", "EAGAIN",
                                        "EIO",  "arg",  "\n",   "5",  "nothing", "-300", "\033",   "1"};
    uint64_t state = 4;
    unsigned costs = 0, refusals = 0;
    for (unsigned round = 0; round < 30000; round++) {
        const char *signature = signatures[cases_random(&state) % 8];
        char text[100] = "";
        for (uint64_t i = cases_random(&state) % 7; i > 0; i--) {
            strcat(text, words[cases_random(&state) % (sizeof words / sizeof *words)]);
            strcat(text, cases_random(&state) % 2 ? " " : "");
        }
        costs += check_cost(text, signature);
        refusals += check_refusal(text, signature);
    }
    ck_assert_uint_gt(costs, 300);
    ck_assert_uint_gt(refusals, 300);
}
END_TEST

static Suite *cost(void)
{
    Suite *suite = suite_create("cost");
    TCase *cases = kit_case(suite, "cases");
    tcase_add_test(cases, costs_are_read_as_the_cases_say);
    tcase_add_test(cases, mistakes_are_named_as_the_cases_say);
    tcase_add_test(cases, refusals_are_read_as_the_cases_say);
    TCase *calls = kit_case(suite, "calls");
    tcase_add_test(calls, a_number_of_tokens_needs_no_arguments);
    tcase_add_test(calls, an_argument_counts_as_its_type_has_it);
    tcase_add_test(calls, a_product_stops_at_the_largest_number);
    tcase_add_test(calls, a_string_costs_its_length_and_null_nothing);
    tcase_add_test(calls, an_array_costs_its_bytes_up_to_what_a_system_call_takes);
    tcase_add_test(calls, an_argument_behind_the_dots_counts_too);
    tcase_add_test(calls, a_result_is_read_from_its_part_of_the_register);
    tcase_add_test(calls, other_costs_need_no_result);
    tcase_add_test(calls, a_refused_call_returns_the_whole_register);
    tcase_add_test(calls, a_refused_call_returns_a_floating_number);
    TCase *manners = kit_case(suite, "manners");
    tcase_add_test(manners, a_cost_fits_only_the_types_that_it_was_read_for);
    tcase_add_test(manners, a_refusal_fits_only_the_result_that_it_was_read_for);
    tcase_add_test(manners, what_is_not_stated_is_not_shown);
    tcase_add_test(manners, a_mistake_leaves_what_was_there);
    tcase_add_test(manners, texts_at_random_do_no_harm);
    return suite;
}

KIT_MAIN(cost)
