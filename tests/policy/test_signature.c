/* SPDX-License-Identifier: MIT */
/*
 * Signatures: the cases of the folder signatures/ (see its README; a new case is a new line there), and texts
 * and compact forms at random.
 */
#include "kit/kit.h"
#include "policy/cases.h"
#include "policy/signature.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum {
    SHOWN_TEXT = 4096, /* the longest compact form, written out */
};

static void answer_signature(const char *text, char answer[CASES_TEXT])
{
    char compact[TDI_SIGNATURE_TEXT], shown[512], why[512] = "";
    int error = tdi_signature_parse(text, compact, why, sizeof why);
    if (error) {
        cases_answer_error(error, why, answer);
        return;
    }
    tdi_signature_format(shown, sizeof shown, compact);
    snprintf(answer, CASES_TEXT, "%s, %u arguments, %u of them fixed, shown as %s", compact,
             tdi_signature_args(compact), tdi_signature_fixed(compact), shown);
}

START_TEST(signatures_are_read_as_the_cases_say)
{
    cases_check(SIGNATURES "/good.txt", answer_signature);
}
END_TEST

START_TEST(mistakes_are_named_as_the_cases_say)
{
    cases_check(SIGNATURES "/bad.txt", answer_signature);
}
END_TEST

/* Not cases: they differ between machines. */
START_TEST(char_and_wchar_have_the_sign_of_this_machine)
{
    char compact[TDI_SIGNATURE_TEXT], why[200];
    ck_assert_int_eq(tdi_signature_parse("char (wchar_t)", compact, why, sizeof why), 0);
    ck_assert_int_eq(compact[0], CHAR_MIN < 0 ? 'b' : 'B');
    ck_assert_int_eq(compact[1], WCHAR_MIN < 0 ? 'i' : 'I');
}
END_TEST

START_TEST(types_are_found_by_their_number)
{
    static const char signature[] = "{i{d}}p{{l}f}i.{d}L";
    ck_assert_str_eq(tdi_signature_type(signature, -1), signature);
    ck_assert_str_eq(tdi_signature_type(signature, 0), "p{{l}f}i.{d}L");
    ck_assert_str_eq(tdi_signature_type(signature, 1), "{{l}f}i.{d}L");
    ck_assert_str_eq(tdi_signature_type(signature, 2), "i.{d}L");
    ck_assert_str_eq(tdi_signature_type(signature, 3), "{d}L");
    ck_assert_str_eq(tdi_signature_type(signature, 4), "L");
    ck_assert_str_eq(tdi_signature_type(signature, 5), "");
    ck_assert_str_eq(tdi_signature_type(signature, INT_MAX), "");
    ck_assert_str_eq(tdi_signature_next(tdi_signature_type(signature, 2)), ".{d}L");
    ck_assert_str_eq(tdi_signature_next(""), "");
    ck_assert_str_eq(tdi_signature_type("", -1), "");
    ck_assert_uint_eq(tdi_signature_args(signature), 5);
    ck_assert_uint_eq(tdi_signature_fixed(signature), 3);
}
END_TEST

START_TEST(unsound_compact_forms_are_known)
{
    static const char *const unsound[] = {
        "",
        ".",
        "x",
        "vv",
        "iv",
        "i.",
        "i.i",
        "ip.",
        "ip..i",
        "ip.i.i",
        "ip.f",
        "{",
        "{}",
        "i{}",
        "i{i",
        "i}",
        "{i}}",
        "i{v}",
        "i{.i}",
        "i{i.i}",
        "ip.{i",
        "ip.b",
        "ip ",
        "ip.iH",
        "i\xff",
        "{{{{{{{{{i}}}}}}}}}",
        "v{{{{{{{{{i}}}}}}}}}",
    };
    char args[TDI_SIGNATURE_ARGS + 3];
    for (size_t i = 0; i < sizeof unsound / sizeof *unsound; i++)
        ck_assert_msg(!tdi_signature_is_sound(unsound[i]), "'%s'", unsound[i]);
    memset(args, 'i', sizeof args);
    args[sizeof args - 1] = '\0';
    ck_assert(!tdi_signature_is_sound(args));
    args[sizeof args - 2] = '\0';
    ck_assert(tdi_signature_is_sound(args));
}
END_TEST

START_TEST(the_longest_compact_form_is_sound_and_no_longer_one)
{
    char compact[TDI_SIGNATURE_TEXT + 1], again[TDI_SIGNATURE_TEXT], shown[SHOWN_TEXT], why[200];
    memset(compact, 'H', sizeof compact);
    memcpy(compact, "v{", 2);
    memcpy(compact + TDI_SIGNATURE_TEXT - 1, "}", 2);
    ck_assert(!tdi_signature_is_sound(compact));
    tdi_signature_format(shown, sizeof shown, compact);
    ck_assert_int_eq(tdi_signature_parse(shown, again, why, sizeof why), -EINVAL);
    ck_assert_str_eq(again, "");
    memcpy(compact + TDI_SIGNATURE_TEXT - 2, "}", 2);
    ck_assert(tdi_signature_is_sound(compact));
    tdi_signature_format(shown, sizeof shown, compact);
    ck_assert_int_eq(tdi_signature_parse(shown, again, why, sizeof why), 0);
    ck_assert_str_eq(again, compact);
}
END_TEST

START_TEST(what_is_written_fits)
{
    char full[200], buf[200], why[200], compact[TDI_SIGNATURE_TEXT];
    tdi_signature_format(full, sizeof full, "{id}p.L");
    ck_assert_str_eq(full, "{int, double} (pointer, ...size_t)");
    for (size_t len = 1; len <= strlen(full) + 1; len++) {
        memset(buf, '#', sizeof buf);
        tdi_signature_format(buf, len, "{id}p.L");
        ck_assert(strlen(buf) == len - 1 && memcmp(buf, full, len - 1) == 0 && buf[len] == '#');
    }
    for (size_t len = 1; len < 40; len++) {
        memset(why, '#', sizeof why);
        ck_assert_int_eq(tdi_signature_parse("int (foo)", compact, why, len), -EINVAL);
        ck_assert(strlen(why) == len - 1 && why[len] == '#');
    }
}
END_TEST

/* Whatever a compact form is, it is read within its end; a sound one survives being written and read. */
static void check_compact(const char *compact)
{
    char shown[SHOWN_TEXT], again[TDI_SIGNATURE_TEXT], why[200] = "";
    const size_t len = strlen(compact);
    const unsigned args = tdi_signature_args(compact);
    ck_assert_uint_le(tdi_signature_fixed(compact), args);
    for (int i = -1; i <= (int)args; i++)
        ck_assert_uint_le((size_t)(tdi_signature_type(compact, i) - compact), len);
    tdi_signature_format(shown, sizeof shown, compact);
    if (!tdi_signature_is_sound(compact))
        return;
    ck_assert_str_eq(tdi_signature_type(compact, (int)args), "");
    ck_assert_msg(tdi_signature_parse(shown, again, why, sizeof why) == 0, "%s: %s: %s", compact, shown, why);
    ck_assert_str_eq(again, compact);
}

/* In memory of its own size, so that a sanitizer sees a look beyond the end. */
static bool check_text(const char *text)
{
    char *copy = strdup(text), why[200] = "", compact[TDI_SIGNATURE_TEXT];
    int error = tdi_signature_parse(copy, compact, why, sizeof why);
    ck_assert_int_eq(error != 0, why[0] != '\0');
    ck_assert(error == 0 || error == -EINVAL);
    ck_assert_msg(tdi_signature_is_sound(compact) == (error == 0), "'%s' -> '%s'", text, compact);
    check_compact(compact);
    free(copy);
    return error == 0;
}

START_TEST(whatever_is_read_is_sound)
{
    static const char *const words[] = {
        "int",   "(",    ")",  ",",      "(",   ")",    "int",    "pointer", "void", "*",        "{",
        "}",     "...",  "[",  "struct", "foo", "long", "double", "float",   "char", "unsigned", "const",
        "short", "bool", ", ", "size_t", "x",   "enum", "_Bool",  "signed",  "__m1", "__int128", "."};
    uint64_t state = 1;
    unsigned good = 0;
    for (unsigned round = 0; round < 30000; round++) {
        char text[200] = "";
        if (cases_random(&state) % 4 != 0)
            strcpy(text, "int (");
        for (uint64_t i = cases_random(&state) % 12; i > 0; i--) {
            strcat(text, words[cases_random(&state) % (sizeof words / sizeof *words)]);
            strcat(text, cases_random(&state) % 3 != 0 ? " " : "");
        }
        if (cases_random(&state) % 4 != 0)
            strcat(text, ")");
        good += check_text(text);
    }
    ck_assert_uint_gt(good, 300);
}
END_TEST

START_TEST(bytes_at_random_do_no_harm)
{
    uint64_t state = 2;
    for (unsigned round = 0; round < 10000; round++) {
        char text[64] = "";
        for (uint64_t i = 0, len = cases_random(&state) % sizeof text; i < len; i++)
            text[i] = (char)cases_random(&state);
        check_text(text);
    }
}
END_TEST

START_TEST(compact_forms_at_random_do_no_harm)
{
    static const char types[] = "vpbhilBHILfde{}{}..";
    uint64_t state = 3;
    unsigned sound = 0;
    for (unsigned round = 0; round < 30000; round++) {
        const size_t len = cases_random(&state) % 12;
        char *text = calloc(len + 1, 1); /* of its own size, as above */
        ck_assert_ptr_nonnull(text);
        for (size_t i = 0; i < len; i++)
            text[i] = types[cases_random(&state) % (sizeof types - 1)];
        sound += tdi_signature_is_sound(text);
        check_compact(text);
        free(text);
    }
    ck_assert_uint_gt(sound, 300);
}
END_TEST

static Suite *signature(void)
{
    Suite *suite = suite_create("signature");
    TCase *cases = kit_case(suite, "cases");
    tcase_add_test(cases, signatures_are_read_as_the_cases_say);
    tcase_add_test(cases, mistakes_are_named_as_the_cases_say);
    TCase *manners = kit_case(suite, "manners");
    tcase_add_test(manners, char_and_wchar_have_the_sign_of_this_machine);
    tcase_add_test(manners, types_are_found_by_their_number);
    tcase_add_test(manners, unsound_compact_forms_are_known);
    tcase_add_test(manners, the_longest_compact_form_is_sound_and_no_longer_one);
    tcase_add_test(manners, what_is_written_fits);
    tcase_add_test(manners, whatever_is_read_is_sound);
    tcase_add_test(manners, bytes_at_random_do_no_harm);
    tcase_add_test(manners, compact_forms_at_random_do_no_harm);
    return suite;
}

KIT_MAIN(signature)
