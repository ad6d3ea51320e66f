/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: the cases of the folders good/ and bad/ (see the README), and what a file of cases
 * cannot well hold: strange bytes, many of a thing, and what chance makes of the grammar.
 */
#include "conf/describe.h"
#include "kit/kit.h"
#include "policy/cases.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tdi_conf conf;
static const char *why;

/* All of a file; *len may be NULL. */
static char *slurp(const char *path, size_t *len)
{
    char *text = NULL;
    size_t size;
    FILE *in = fopen(path, "r");
    ck_assert_msg(in != NULL, "%s: %s", path, strerror(errno));
    FILE *out = open_memstream(&text, &size);
    for (int c; (c = getc(in)) != EOF;)
        putc(c, out);
    fclose(in);
    fclose(out);
    if (len != NULL)
        *len = size;
    return text;
}

static char *describe(void)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    describe_conf(out, &conf);
    fclose(out);
    return text;
}

static int check_sound(void)
{
    tdi_frozen_seal(&conf.frozen);
    return tdi_frozen_check(&conf.frozen, tdi_frozen_size(&conf.frozen), &why);
}

/* What is made of a file: its complaints, or what it says. */
static char *answer(const char *path)
{
    char *complaints;
    size_t len;
    char *text = slurp(path, &len);
    unsigned mistakes = read_conf(&conf, text, len, &complaints);
    free(text);
    if (mistakes > 0)
        return complaints;
    free(complaints);
    ck_assert_msg(check_sound() == 0, "%s %s", path, why);
    return describe();
}

static unsigned check_case(const char *path)
{
    char expected_path[4096];
    const int stem = (int)(strlen(path) - strlen(".conf"));
    snprintf(expected_path, sizeof expected_path, "%.*s.txt", stem, path);
    char *got = answer(path), *expected = slurp(expected_path, NULL);
    const bool met = strcmp(got, expected) == 0;
    if (!met)
        fprintf(stderr, "%s is\n%s  expected\n%s\n", path, got, expected);
    free(got);
    free(expected);
    return met ? 0 : 1;
}

static void check_folder(const char *pattern)
{
    glob_t found;
    unsigned failures = 0;
    ck_assert_msg(glob(pattern, 0, NULL, &found) == 0, "%s holds no case", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++)
        failures += check_case(found.gl_pathv[i]);
    ck_assert_msg(failures == 0, "%u of %zu cases of %s fail", failures, found.gl_pathc, pattern);
    globfree(&found);
}

START_TEST(files_are_understood_as_the_cases_say)
{
    check_folder(CASES "/good/*.conf");
}
END_TEST

START_TEST(mistakes_are_named_as_the_cases_say)
{
    check_folder(CASES "/bad/*.conf");
}
END_TEST

/* Fails unless the text has exactly these complaints. */
static void expect_bytes(const char *text, size_t len, const char *expected)
{
    char *complaints;
    unsigned mistakes = read_conf(&conf, text, len, &complaints);
    ck_assert_str_eq(complaints, expected);
    ck_assert_int_eq(mistakes == 0, *expected == '\0');
    free(complaints);
}

static void expect(const char *text, const char *expected)
{
    expect_bytes(text, strlen(text), expected);
}

START_TEST(an_empty_file_says_nothing)
{
    expect("", "");
    expect("\n\n; nothing\n", "");
    ck_assert_uint_eq(conf.buckets + conf.frozen.rules + conf.frozen.hooks, 0);
    ck_assert_int_eq(check_sound(), 0);
}
END_TEST

START_TEST(a_mark_and_foreign_line_ends_are_read_over)
{
    expect("\xef\xbb\xbf[bucket \"a\"]\r\nrate = 5/s\r\n\r\n[rule \"r\"] \r\nbucket = a\r\ncalls = up", "");
    ck_assert_uint_eq(conf.bucket[0].line, 1);
    ck_assert_uint_eq(conf.rule_line[0], 4);
    ck_assert_uint_eq(conf.frozen.rule[0].rule.calls, TDI_CALLS_UP);
    expect(
        "\xef\xbb\xbf\n\xef\xbb\xbf[bucket \"a\"]\n",
        "2: is neither [SECTION \"NAME\"] nor KEY = VALUE; a value is one line, and no line goes on in the "
        "next\n");
}
END_TEST

START_TEST(a_nul_byte_is_no_text)
{
    static const char text[] = "[bucket \"a\"]\nrate = 5/s\0/min\nburst = 7\n";
    expect_bytes(text, sizeof text - 1, "2: a NUL byte: this is no text file\n");
}
END_TEST

/* A file whose third line has this length, its end included. */
static char *make_long_line(size_t len)
{
    static const char before[] = "[rule \"r\"]\nrate = 1/s\nprogram = ";
    const size_t names = len - strlen("program = \n");
    char *text = malloc(sizeof before + names + 1);
    ck_assert_ptr_nonnull(text);
    memcpy(text, before, sizeof before);
    memset(text + sizeof before - 1, 'a', names);
    memcpy(text + sizeof before - 1 + names, "\n", 2);
    return text;
}

START_TEST(a_line_is_read_whole_or_not_at_all)
{
    for (size_t len = 190; len <= TDI_CONF_LINE; len += len < 210 ? 1 : len < 4080 ? 500 : 1) {
        char *text = make_long_line(len);
        expect(text, "");
        ck_assert_uint_eq(strlen(tdi_frozen_text(&conf.frozen, conf.frozen.rule[0].only)),
                          len - strlen("program = \n"));
        free(text);
    }
    char *text = make_long_line(TDI_CONF_LINE + 1);
    expect(text, "3: a line is at most 4095 bytes long\n");
    free(text);
}
END_TEST

START_TEST(a_file_has_a_greatest_length)
{
    const size_t most = 1024 * 1024;
    char *text = malloc(most + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, '\n', most + 1);
    expect_bytes(text, most, "");
    expect_bytes(text, most + 1, "1048576: a file is at most 1 MiB long\n");
    free(text);
}
END_TEST

START_TEST(what_is_no_text_at_all_is_read_to_no_end)
{
    char *complaints;
    size_t len;
    FILE *in = fopen("/dev/zero", "r"), *out = open_memstream(&complaints, &len);
    ck_assert(in && out);
    ck_assert_uint_eq(tdi_conf_read(&conf, in, note_complaint, out), 2);
    fclose(in);
    fclose(out);
    free(complaints);
}
END_TEST

START_TEST(a_directory_cannot_be_read)
{
    char *complaints;
    size_t len;
    FILE *in = fopen("/", "r"), *out = open_memstream(&complaints, &len);
    ck_assert(in && out);
    ck_assert_uint_eq(tdi_conf_read(&conf, in, note_complaint, out), 1);
    fclose(in);
    fclose(out);
    ck_assert_str_eq(complaints, "0: cannot be read on from here\n");
    free(complaints);
}
END_TEST

/* `count` sections, from 0. */
static char *make_many(unsigned count, const char *format)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    for (unsigned i = 0; i < count; i++) {
        for (const char *at = format; *at; at++)
            if (*at == '#')
                fprintf(out, "%u", i);
            else
                putc(*at, out);
    }
    fclose(out);
    return text;
}

static void expect_most(unsigned most, const char *format, unsigned line, const char *complaint)
{
    char expected[128];
    char *text = make_many(most, format);
    expect(text, "");
    free(text);
    snprintf(expected, sizeof expected, "%u: %s\n", line, complaint);
    text = make_many(most + 1, format);
    expect(text, expected);
    free(text);
}

START_TEST(there_can_be_so_many_of_each_and_no_more)
{
    expect_most(64, "[bucket \"b#\"]\nrate = 1/s\n", 129, "more than 64 buckets");
    expect_most(64, "[rule \"r#\"]\nrate = 1/s\n", 129, "more than 64 rules");
    expect_most(32, "[hook \"f#\"]\nsignature = void ()\n", 65, "more than 32 hooks");
    expect_most(64, "[rule \"r#\"]\nrate = 1/s\ndest = 10.0.0.#\n", 193, "more than 64 rules");
}
END_TEST

START_TEST(a_rule_has_room_for_so_many_places)
{
    char text[1024] = "[rule \"r\"]\nrate = 1/s\ndest = unix";
    for (unsigned i = 0; i < 63; i++)
        strcat(text, ",tty");
    expect(text, "");
    strcat(text, ",tty");
    char *complaints;
    ck_assert_uint_eq(read_conf(&conf, text, strlen(text), &complaints), 1);
    ck_assert_ptr_nonnull(strstr(complaints, "more than 64 destinations"));
    free(complaints);
}
END_TEST

START_TEST(names_that_do_not_fit_are_complained_about)
{
    char *text = malloc(65536), *at = text, *complaints;
    for (unsigned i = 0; i < 12; i++) {
        at += sprintf(at, "[rule \"r%u\"]\nrate = 1/s\nprogram = ", i);
        memset(at, 'a' + (int)i, 3000);
        at += 3000;
        at += sprintf(at, "\n");
    }
    ck_assert_uint_eq(read_conf(&conf, text, (size_t)(at - text), &complaints), 2);
    ck_assert_ptr_nonnull(
        strstr(complaints, "is too much: the names in all rules and hooks are at most 32 KiB"));
    free(complaints);
    free(text);
}
END_TEST

START_TEST(twenty_mistakes_are_told_and_then_no_more)
{
    char *text = make_many(21, "fly\n"), *complaints;
    unsigned lines = 0;
    ck_assert_uint_gt(read_conf(&conf, text, strlen(text), &complaints), 20);
    for (const char *at = complaints; (at = strchr(at, '\n')); at++)
        lines++;
    ck_assert_uint_eq(lines, 21);
    ck_assert_ptr_nonnull(strstr(complaints, "\n0: and more\n"));
    free(complaints);
    free(text);
}
END_TEST

START_TEST(the_first_mistakes_are_told_whenever_they_are_found)
{
    char *late = make_many(30, "fly = #\n"), *text, *complaints;
    ck_assert_int_gt(asprintf(&text, "[rule \"r\"]\nmax-wait = 5\n[bucket \"b\"]\n%s", late), 0);
    ck_assert_uint_gt(read_conf(&conf, text, strlen(text), &complaints), 20);
    ck_assert_int_eq(strncmp(complaints, "1: ", 3), 0);
    ck_assert_ptr_nonnull(strstr(complaints, "\n2: max-wait = 5: is no time"));
    free(complaints);
    free(text);
    free(late);
}
END_TEST

START_TEST(a_complaint_is_clean_whatever_the_file_holds)
{
    char *complaints;
    static const char text[] =
        "[rule \"\033[1m\"]\n[rule \"r\"]\nrate = \033[31m\n\033 = 1\nca\all = 3\n[\033]\n";
    ck_assert_uint_eq(read_conf(&conf, text, strlen(text), &complaints), 5);
    free(complaints);
}
END_TEST

START_TEST(a_bucket_is_found_by_its_name)
{
    expect("[bucket \"a\"]\nrate = 1/s\n[bucket \"b%h\"]\nrate = 2/s\n", "");
    ck_assert_ptr_eq(tdi_conf_find_bucket(&conf, "b%h"), &conf.bucket[1]);
    ck_assert_ptr_null(tdi_conf_find_bucket(&conf, "b"));
    ck_assert_ptr_null(tdi_conf_find_bucket(&conf, ""));
}
END_TEST

/* A line of the grammar, or nearly one. */
static void add_line(uint64_t *state, FILE *out)
{
    static const char *const headings[] = {
        "[bucket \"a\"]",       "[bucket \"b%h\"]", "[bucket \"c\"]",   "[rule \"r\"]",   "[rule \"s\"]",
        "[hook \"SSL_write\"]", "[hook \"open\"]",  "[hook \"fsync\"]", "[hook \"fly\"]", "[hook \"write\"]"};
    static const char *const values[] = {"10/s",   "1MB/s",         "7",          "full",     "0660", "yes",
                                         "no",     "up,SSL_write",  "open,fsync", "fly",      "send", "bytes",
                                         "calls",  "curl,wget",     "unix,:443",  "a",        "b%h",  "a,c",
                                         "refuse", "drop",          "refuse:EIO", "500ms",    "arg3", "arg1",
                                         "result", "int (pointer)", "void ()",    "-1 EAGAIN"};
    static const char *const words[] = {"rate",      "burst",   "initial", "mode",   "fair",       "calls",
                                        "count",     "program", "dest",    "bucket", "when-empty", "max-wait",
                                        "signature", "cost",    "library", "exact",  "refuse",     "fly"};
    if (cases_random(state) % 4 == 0)
        fputs(headings[cases_random(state) % 10], out);
    else
        fprintf(out, "%s = %s", words[cases_random(state) % 18], values[cases_random(state) % 28]);
    fputc('\n', out);
}

static char *make_file(uint64_t *state)
{
    static const char signs[] = "[]\"=;#%, \t09af\n\r";
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    for (unsigned lines = 1 + (unsigned)(cases_random(state) % 30); lines > 0; lines--)
        add_line(state, out);
    fclose(out);
    for (unsigned slips = (unsigned)(cases_random(state) % 4); slips > 1; slips--)
        text[cases_random(state) % len] = signs[cases_random(state) % (sizeof signs - 1)];
    return text;
}

START_TEST(what_is_read_without_a_complaint_is_sound)
{
    uint64_t state = 7;
    unsigned good = 0;
    for (unsigned i = 0; i < 6000; i++) {
        char *text = make_file(&state), *complaints;
        unsigned mistakes = read_conf(&conf, text, strlen(text), &complaints);
        ck_assert_int_eq(mistakes == 0, *complaints == '\0');
        if (mistakes == 0 && ++good)
            ck_assert_msg(check_sound() == 0, "%s\n%s", why, text);
        free(complaints);
        free(text);
    }
    ck_assert_uint_gt(good, 0);
}
END_TEST

static Suite *configuration(void)
{
    Suite *suite = suite_create("configuration");
    TCase *cases = kit_case(suite, "cases");
    tcase_add_test(cases, files_are_understood_as_the_cases_say);
    tcase_add_test(cases, mistakes_are_named_as_the_cases_say);
    TCase *bytes = kit_case(suite, "bytes");
    tcase_add_test(bytes, an_empty_file_says_nothing);
    tcase_add_test(bytes, a_mark_and_foreign_line_ends_are_read_over);
    tcase_add_test(bytes, a_nul_byte_is_no_text);
    tcase_add_test(bytes, a_line_is_read_whole_or_not_at_all);
    tcase_add_test(bytes, a_file_has_a_greatest_length);
    tcase_add_test(bytes, what_is_no_text_at_all_is_read_to_no_end);
    tcase_add_test(bytes, a_directory_cannot_be_read);
    TCase *limits = kit_case(suite, "limits");
    tcase_add_test(limits, there_can_be_so_many_of_each_and_no_more);
    tcase_add_test(limits, a_rule_has_room_for_so_many_places);
    tcase_add_test(limits, names_that_do_not_fit_are_complained_about);
    tcase_add_test(limits, twenty_mistakes_are_told_and_then_no_more);
    tcase_add_test(limits, the_first_mistakes_are_told_whenever_they_are_found);
    TCase *manners = kit_case(suite, "manners");
    tcase_add_test(manners, a_complaint_is_clean_whatever_the_file_holds);
    tcase_add_test(manners, a_bucket_is_found_by_its_name);
    tcase_add_test(manners, what_is_read_without_a_complaint_is_sound);
    return suite;
}

KIT_MAIN(configuration)
