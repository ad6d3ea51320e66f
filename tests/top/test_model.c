/* SPDX-License-Identifier: MIT */
/*
 * What `tundish top` knows of buckets, look by look, and the lines it makes of that; and what `tundish sidecar` has
 * said of names already.
 */
#include <errno.h>
#include <locale.h>
#include <string.h>
#include <tundish/tundish.h>

#include "kit/kit.h"
#include "sidecar/faults.h"
#include "sidecar/top_view.h"

static struct tdi_top top;

static void look_at(const char *first, const char *second)
{
    tdi_top_begin(&top);
    ck_assert_int_eq(tdi_top_see(&top, first, first), 0);
    if (second)
        ck_assert_int_eq(tdi_top_see(&top, second, second), 0);
    tdi_top_end(&top);
}

static struct tundish *make(const char *name, uint32_t capacity)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(capacity, 1);
    struct tundish *bucket;
    ck_assert_int_eq(tundish_create(&bucket, name, &options), 0);
    return bucket;
}

/* What a rate per second comes to in the interval that it is of. */
static double over(uint64_t before_ns, double rate)
{
    return rate * (double)(top.bucket[0]->at_ns - before_ns) / 1e9;
}

START_TEST(what_is_given_back_was_not_achieved)
{
    struct tundish *bucket = make("a", 1000);
    tundish_try_acquire(bucket, 500);
    look_at("a", NULL);
    ck_assert(!top.bucket[0]->rates.measured);
    uint64_t before_ns = top.bucket[0]->at_ns;
    tundish_try_acquire(bucket, 100);
    tundish_try_acquire(bucket, 900);
    tundish_release(bucket, 30);
    look_at("a", NULL);
    const struct tdi_top_rates *rates = &top.bucket[0]->rates, *mine = &top.bucket[0]->instance[0].rates;
    ck_assert(rates->measured && mine->measured);
    ck_assert_double_eq_tol(over(before_ns, rates->tokens), 70, 1e-6);
    ck_assert_double_eq_tol(over(before_ns, rates->operations), 2, 1e-6);
    ck_assert_double_eq_tol(over(before_ns, rates->refused), 1, 1e-6);
    ck_assert_double_eq_tol(over(before_ns, mine->tokens), 70, 1e-6);
    ck_assert_double_eq_tol(top.bucket[0]->used, rates->tokens, 1e-6);
    tundish_close(bucket);
    look_at("a", NULL);
    ck_assert_uint_eq(top.bucket[0]->instances, 0);
    tdi_top_free(&top);
}
END_TEST

START_TEST(a_handle_that_came_in_between_has_rates_of_the_interval)
{
    struct tundish *bucket = make("a", 1000);
    tundish_close(bucket);
    look_at("a", NULL);
    uint64_t before_ns = top.bucket[0]->at_ns;
    ck_assert_int_eq(tundish_open(&bucket, "a"), 0);
    tundish_try_acquire(bucket, 5);
    look_at("a", NULL);
    ck_assert_uint_eq(top.bucket[0]->instances, 1);
    ck_assert_double_eq_tol(over(before_ns, top.bucket[0]->instance[0].rates.tokens), 5, 1e-6);
    tundish_close(bucket);
    tdi_top_free(&top);
}
END_TEST

START_TEST(a_bucket_made_again_starts_anew)
{
    struct tundish *bucket = make("a", 10);
    look_at("a", NULL);
    look_at("a", NULL);
    ck_assert_uint_eq(top.bucket[0]->intervals, 1);
    tundish_close(bucket);
    tundish_unlink("a");
    bucket = make("a", 20);
    look_at("a", NULL);
    ck_assert_uint_eq(top.count, 1);
    ck_assert_uint_eq(top.bucket[0]->info.capacity, 20);
    ck_assert_uint_eq(top.bucket[0]->intervals, 0);
    tundish_unlink("a");
    tdi_top_begin(&top);
    ck_assert_int_eq(tdi_top_see(&top, "a", "a"), -ENOENT);
    tdi_top_end(&top);
    ck_assert_uint_eq(top.count, 0);
    tundish_close(bucket);
    tdi_top_free(&top);
}
END_TEST

START_TEST(what_is_not_seen_is_dropped)
{
    struct tundish *a = make("a", 10), *b = make("b", 10);
    look_at("a", "b");
    ck_assert_uint_eq(top.count, 2);
    look_at("b", NULL);
    ck_assert_uint_eq(top.count, 1);
    ck_assert_str_eq(top.bucket[0]->label, "b");
    tundish_close(a);
    tundish_close(b);
    tdi_top_free(&top);
}
END_TEST

START_TEST(the_busiest_comes_first_and_those_nobody_has_open_last)
{
    struct tundish *a = make("a", 1000), *b = make("b", 1000), *gone = make("aa", 1000);
    look_at("a", "b");
    tundish_try_acquire(b, 500);
    tundish_try_acquire(gone, 900);
    tundish_close(gone);
    tdi_top_begin(&top);
    tdi_top_see(&top, "aa", "aa");
    tdi_top_see(&top, "a", "a");
    tdi_top_see(&top, "b", "b");
    tdi_top_end(&top);
    tdi_top_sort(&top, TDI_TOP_BY_RATE);
    ck_assert_str_eq(top.bucket[0]->label, "b");
    ck_assert_str_eq(top.bucket[2]->label, "aa");
    tdi_top_sort(&top, TDI_TOP_BY_NAME);
    ck_assert_str_eq(top.bucket[0]->label, "a");
    ck_assert_str_eq(top.bucket[2]->label, "aa");
    tundish_close(a);
    tundish_close(b);
    tdi_top_free(&top);
}
END_TEST

static void check_line(const struct tdi_top_line *line, uint32_t columns)
{
    ck_assert_uint_le(line->columns, columns);
    ck_assert_uint_eq(strlen(line->text), line->bytes);
    for (const char *byte = line->text; *byte; byte++)
        ck_assert((unsigned char)*byte >= ' ' && *byte != 127);
}

START_TEST(lines_fit_any_width)
{
    struct tundish *bucket = make("a", 1000);
    struct tdi_top_line line;
    struct tdi_top_layout layout;
    setlocale(LC_CTYPE, "C.UTF-8");
    tdi_top_see(&top, "a", "\033[2J\377\303 \xe6\xbc\xa2\xe5\xad\x97 a rather long name of a bucket\xc2\x9b");
    look_at("a", NULL);
    for (uint32_t columns = 1; columns < 2 * TDI_TOP_COLUMNS; columns++) {
        tdi_top_lay_out(&layout, &top, columns, true);
        tdi_top_heading(&line, &layout);
        check_line(&line, columns);
        tdi_top_bucket_line(&line, &layout, top.bucket[0]);
        check_line(&line, columns);
        tdi_top_instance_line(&line, &layout, &top.bucket[0]->instance[0], &top.bucket[0]->info);
        check_line(&line, columns);
    }
    ck_assert(strncmp(top.bucket[0]->label, "\033", 1) == 0);
    tdi_top_bucket_line(&line, &layout, top.bucket[0]);
    ck_assert(strncmp(line.text, "?[2J?? \xe6\xbc\xa2\xe5\xad\x97 a", 15) == 0);
    tundish_close(bucket);
    tdi_top_free(&top);
}
END_TEST

/* The first column of the line that somebody has below a bucket, without the blanks around; its width. */
static uint32_t name_of_instance(char *name, struct tdi_top_instance *instance, uint32_t columns)
{
    struct tdi_top_line line;
    struct tdi_top_layout layout;
    tdi_top_lay_out(&layout, &top, columns, true);
    const struct tundish_info info = TUNDISH_INFO_INIT;
    tdi_top_instance_line(&line, &layout, instance, &info);
    line.text[layout.width[0]] = '\0';
    strcpy(name, line.text + strspn(line.text, " "));
    for (size_t len = strlen(name); len > 0 && name[len - 1] == ' '; len--)
        name[len - 1] = '\0';
    return layout.width[0];
}

START_TEST(a_process_id_is_whole_or_not_there)
{
    struct tundish *bucket = make("a", 1000);
    char name[TDI_TOP_COLUMNS + 1];
    look_at("a", NULL);
    struct tdi_top_instance *instance = &top.bucket[0]->instance[0];
    strcpy(instance->program, "redis-server");
    instance->pid = 82481;
    name_of_instance(name, instance, 80);
    ck_assert_str_eq(name, "redis-server 82481");
    for (uint32_t columns = 1; columns < 80; columns++) {
        uint32_t width = name_of_instance(name, instance, columns);
        size_t len = strlen(name);
        bool whole = len >= 5 && strcmp(name + len - 5, "82481") == 0;
        ck_assert_msg(whole || (len == 0 && width < 7), "%u: %s", columns, name);
    }
    ck_assert_uint_eq(name_of_instance(name, instance, 26), 16);
    ck_assert_str_eq(name, "redis-se 82481");
    tundish_close(bucket);
    tdi_top_free(&top);
}
END_TEST

START_TEST(what_cannot_be_opened_is_counted_anew_at_each_look)
{
    struct tundish *bucket = make("a", 10);
    for (int look = 0; look < 2; look++) {
        tdi_top_begin(&top);
        ck_assert_int_eq(tdi_top_see(&top, "a", "a"), 0);
        ck_assert_int_eq(tdi_top_see(&top, "missing", "missing"), -ENOENT);
        ck_assert_int_eq(tdi_top_see(&top, "/dev/null", "null"), -EPROTO);
        tdi_top_end(&top);
        ck_assert_uint_eq(top.closed, 1);
        ck_assert_uint_eq(top.count, 1);
    }
    look_at("a", NULL);
    ck_assert_uint_eq(top.closed, 0);
    tundish_close(bucket);
    tdi_top_free(&top);
}
END_TEST

START_TEST(a_fault_is_said_once_until_it_changes_or_was_gone)
{
    const uint64_t second = TDI_FAULTS_LAST_NS;
    struct tdi_faults faults = {.at = 0};
    tdi_faults_begin(&faults, 5 * second);
    ck_assert(tdi_faults_note(&faults, "a", -EPROTO));
    ck_assert(tdi_faults_note(&faults, "c", -EPROTO));
    for (uint64_t at_ns = 6 * second; at_ns < 8 * second; at_ns += second / 2) {
        tdi_faults_begin(&faults, at_ns);
        ck_assert(!tdi_faults_note(&faults, "a", -EPROTO));
        ck_assert(tdi_faults_note(&faults, "b", -EPROTO) == (at_ns == 7 * second));
        ck_assert(tdi_faults_note(&faults, "c", -EACCES) == (at_ns == 7 * second));
    }
    tdi_faults_begin(&faults, 8 * second);
    ck_assert(!tdi_faults_note(&faults, "c", -EACCES));
    ck_assert_uint_eq(faults.now.count, 1);
    tdi_faults_begin(&faults, 9 * second);
    ck_assert(!tdi_faults_note(&faults, "a", -EPROTO));
    tdi_faults_begin(&faults, 10 * second);
    ck_assert(tdi_faults_note(&faults, "a", -EPROTO));
    tdi_faults_free(&faults);
}
END_TEST

static Suite *model(void)
{
    Suite *suite = suite_create("top");
    TCase *looks = kit_case(suite, "looks");
    tcase_add_test(looks, what_is_given_back_was_not_achieved);
    tcase_add_test(looks, a_handle_that_came_in_between_has_rates_of_the_interval);
    tcase_add_test(looks, a_bucket_made_again_starts_anew);
    tcase_add_test(looks, what_is_not_seen_is_dropped);
    tcase_add_test(looks, the_busiest_comes_first_and_those_nobody_has_open_last);
    TCase *lines = kit_case(suite, "lines");
    tcase_add_test(lines, lines_fit_any_width);
    tcase_add_test(lines, a_process_id_is_whole_or_not_there);
    tcase_add_test(looks, what_cannot_be_opened_is_counted_anew_at_each_look);
    TCase *faults = kit_case(suite, "faults");
    tcase_add_test(faults, a_fault_is_said_once_until_it_changes_or_was_gone);
    return suite;
}

KIT_MAIN(model)
