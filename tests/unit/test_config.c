/* SPDX-License-Identifier: MIT */
/* Configuration records: what is published is read, by whoever and after whatever was left half written. */
#include <errno.h>
#include <stdlib.h>
#include <tundish/tundish.h>

#include "core/bucket.h"
#include "core/config.h"
#include "unit.h"

#define VALUE_MASK (TIME_MAX_US - 1)
#define TAG_COUNT (1u << TDI_FIELD_TAG_BITS)

static void expect_same(const struct tdi_config *is, const struct tdi_config *should_be)
{
    unit_expect(is->interval_us == should_be->interval_us && is->since_us == should_be->since_us &&
                    is->carry == should_be->carry && is->rate_fraction == should_be->rate_fraction &&
                    is->rate_whole == should_be->rate_whole && is->refill == should_be->refill &&
                    is->capacity == should_be->capacity && is->extra == should_be->extra &&
                    is->flags == should_be->flags,
                "record %" PRIx64 " is not what was published: %" PRIu32 " per %" PRIu64 " us of %" PRIu32,
                is->current, should_be->refill, should_be->interval_us, should_be->capacity);
}

static struct tdi_config some_config(uint64_t current)
{
    struct tdi_config config = unit_random_config();
    config.since_us = unit_chance(4) ? VALUE_MASK : unit_log_between(1, VALUE_MASK);
    config.carry = unit_between(0, config.interval_us - 1);
    config.current = current;
    return config;
}

static struct tdi_clock_base some_base(void)
{
    const uint64_t half = TIME_MAX_US / 2;
    struct tdi_clock_base base = {.boot_id = {unit_random(), unit_random()}};
    uint64_t far = unit_chance(4) ? half - 1 : unit_log_between(1, half - 1);
    base.shift_us = unit_chance(2) ? (int64_t)far : -(int64_t)far - 1;
    return base;
}

static uint64_t current_of(const struct tdi_layout *file)
{
    return atomic_load(&file->head.current);
}

static uint32_t number_of(const struct tdi_layout *file)
{
    return (uint32_t)current_of(file);
}

/* Publishes once and reads it back. */
static void change(struct tdi_layout *file)
{
    struct tdi_config want = some_config(current_of(file)), read;
    struct tdi_clock_base base = some_base(), read_base;
    unit_expect(tdi_config_publish(file, &want, &base) == 0, "record %" PRIx64 " refused", want.current);
    unit_expect(tdi_config_try_read(file, &read), "record %" PRIx64 " is not whole", want.current);
    expect_same(&read, &want);
    unit_expect(read.current == current_of(file) && read.current != want.current, "the number stays");
    unit_expect(tdi_config_read_base(file, &read_base) == read.current, "the base's number");
    unit_expect(read_base.shift_us == base.shift_us && read_base.boot_id[0] == base.boot_id[0] &&
                    read_base.boot_id[1] == base.boot_id[1],
                "shift %" PRId64 " became %" PRId64, base.shift_us, read_base.shift_us);
}

static struct tdi_layout *new_file(void)
{
    struct tdi_config config = unit_config(10, 5, SECOND_US, 0);
    return unit_file(&config, 10);
}

START_TEST(a_new_file_reads_as_it_was_made)
{
    for (int i = 0; i < 1000; i++) {
        struct tdi_config config = some_config(0), read;
        struct tdi_layout *file = unit_file(&config, 0);
        ck_assert(tdi_config_try_read(file, &read));
        expect_same(&read, &config);
        ck_assert_uint_eq((uint32_t)read.current, 0);
    }
}
END_TEST

START_TEST(what_is_published_is_read_through_several_rounds_of_tags)
{
    struct tdi_layout *file = new_file();
    for (unsigned i = 0; i < 3 * TAG_COUNT; i++)
        change(file);
    ck_assert_uint_gt(number_of(file), 2 * TAG_COUNT);
}
END_TEST

START_TEST(numbers_go_on_after_their_last_one)
{
    struct tdi_layout *file = new_file();
    struct tdi_config config;
    tdi_config_read(file, &config);
    uint32_t last = UINT32_MAX - 20;
    struct tdi_layout_record *record = &file->record[last % TDI_LAYOUT_RECORDS];
    for (int i = 0; i < TDI_FIELD_COUNT; i++) {
        uint64_t value = atomic_load(&file->record[0].field[i]) >> TDI_FIELD_TAG_BITS << TDI_FIELD_TAG_BITS;
        for (int j = 0; j < TDI_LAYOUT_RECORDS; j++)
            atomic_store(&file->record[j].field[i], (last - 8) % TAG_COUNT);
        atomic_store(&record->field[i], value | last % TAG_COUNT);
    }
    atomic_store(&file->head.current, (uint64_t)(last + 1) << 32 | last);
    atomic_store(&file->head.next, last + 1);
    for (int i = 0; i < 100; i++)
        change(file);
    ck_assert_uint_lt(number_of(file), 200);
}
END_TEST

START_TEST(who_starts_from_an_old_record_is_refused_and_changes_nothing)
{
    struct tdi_layout *file = new_file();
    for (int i = 0; i < 500; i++) {
        uint64_t old = current_of(file);
        struct tdi_config stale = some_config(old), before, after;
        struct tdi_clock_base base = some_base();
        for (uint64_t n = unit_between(1, 20); n > 0; n--)
            change(file);
        tdi_config_read(file, &before);
        unit_expect(tdi_config_publish(file, &stale, &base) == -EAGAIN, "record %" PRIx64 " was accepted",
                    old);
        unit_expect(tdi_config_try_read(file, &after), "the record in force was harmed");
        expect_same(&after, &before);
        unit_expect(after.current == before.current, "another record is in force");
    }
}
END_TEST

/*
 * As when many change the configuration at once: one is first, and the others started from what it replaced.
 */
START_TEST(however_many_come_too_late_the_record_in_force_stays)
{
    for (unsigned late = 1; late < 5 * TDI_LAYOUT_RECORDS; late++) {
        struct tdi_layout *file = new_file();
        struct tdi_config before, after;
        struct tdi_clock_base base = some_base(), base_before, base_after;
        uint64_t old = current_of(file);
        change(file);
        tdi_config_read(file, &before);
        tdi_config_read_base(file, &base_before);
        for (unsigned i = 0; i < late; i++) {
            struct tdi_config stale = some_config(old);
            unit_expect(tdi_config_publish(file, &stale, &base) == -EAGAIN, "number %u was accepted", i);
        }
        unit_expect(tdi_config_try_read(file, &after) && after.current == before.current,
                    "%u late writers spoilt the record in force", late);
        expect_same(&after, &before);
        tdi_config_read_base(file, &base_after);
        unit_expect(base_after.shift_us == base_before.shift_us, "%u late writers changed the base", late);
    }
}
END_TEST

/* A writer that took a number and was stopped or killed after `fields` of its stores. */
struct writer {
    uint64_t started_from;
    uint32_t number;
    int fields;
    uint64_t found[TDI_FIELD_COUNT];
};

static void write_on(struct tdi_layout *file, struct writer *writer, int until)
{
    _Atomic(uint64_t) *field = file->record[writer->number % TDI_LAYOUT_RECORDS].field;
    for (; writer->fields < until; writer->fields++) {
        uint64_t expected = writer->found[writer->fields];
        uint64_t bits = unit_random() << TDI_FIELD_TAG_BITS | writer->number % TAG_COUNT;
        if (!atomic_compare_exchange_strong(&field[writer->fields], &expected, bits))
            return; /* somebody was here since: it would look at the tag and give up */
    }
}

static struct writer start_writing(struct tdi_layout *file)
{
    struct writer writer = {.started_from = current_of(file)};
    do
        writer.number = atomic_fetch_add(&file->head.next, 1);
    while (writer.number % TDI_LAYOUT_RECORDS == writer.started_from % TDI_LAYOUT_RECORDS);
    for (int i = 0; i < TDI_FIELD_COUNT; i++)
        writer.found[i] = atomic_load(&file->record[writer.number % TDI_LAYOUT_RECORDS].field[i]);
    write_on(file, &writer, (int)unit_between(0, TDI_FIELD_COUNT));
    return writer;
}

START_TEST(writers_stopped_half_way_never_harm_whether_they_go_on_or_not)
{
    struct tdi_layout *file = new_file();
    for (int i = 0; i < 4000; i++) {
        struct tdi_config before, after;
        tdi_config_read(file, &before);
        struct writer writer[3];
        int writers = (int)unit_between(1, 3);
        for (int w = 0; w < writers; w++)
            writer[w] = start_writing(file);
        unit_expect(tdi_config_try_read(file, &after) && after.current == before.current,
                    "a half-written record is in the way");
        expect_same(&after, &before);
        for (uint64_t n = unit_between(1, 20); n > 0; n--)
            change(file);
        tdi_config_read(file, &before);
        for (int w = 0; w < writers; w++) {
            uint64_t expected = writer[w].started_from;
            write_on(file, &writer[w], TDI_FIELD_COUNT);
            ck_assert(!atomic_compare_exchange_strong(&file->head.current, &expected, writer[w].number));
        }
        unit_expect(tdi_config_try_read(file, &after), "a writer that went on spoilt the record in force");
        expect_same(&after, &before);
    }
}
END_TEST

START_TEST(changes_go_on_after_any_number_of_writers_killed_at_once)
{
    static const unsigned killed[] = {1,        7, 8, 9, 64, TAG_COUNT / 2 - 9, TAG_COUNT / 2, TAG_COUNT - 8,
                                      TAG_COUNT};
    for (size_t i = 0; i < sizeof killed / sizeof killed[0]; i++) {
        struct tdi_config same = unit_config(20, 6, SECOND_US, 0), read;
        struct tdi_layout *file = new_file();
        for (int n = 0; n < 100; n++)
            change(file);
        atomic_fetch_add(&file->head.next, killed[i]);
        unit_configure(file, 1000, &same);
        tdi_config_read(file, &read);
        ck_assert_uint_eq(read.capacity, 20);
        ck_assert_uint_eq(read.refill, 6);
    }
}
END_TEST

static int check(uint64_t capacity, uint64_t refill, uint64_t interval_us, uint64_t flags)
{
    return tdi_config_check(capacity, refill, interval_us, flags);
}

START_TEST(each_field_has_its_bounds)
{
    const uint64_t longest = TUNDISH_INTERVAL_US_MAX, most = TUNDISH_CAPACITY_MAX;
    const uint64_t all = TUNDISH_UNFAIR | TUNDISH_STEPPED | TUNDISH_STRICT | TUNDISH_BYTES;
    ck_assert_int_eq(check(1, 1, 1, 0), 0);
    ck_assert_int_eq(check(1, 1, longest, all), 0);
    ck_assert_int_eq(check(most, UINT32_MAX, 1, TUNDISH_STRICT), 0);
    ck_assert_int_eq(check(0, 1, 1, 0), -EINVAL);
    ck_assert_int_eq(check(most + 1, 1, 1, TUNDISH_STRICT), -EINVAL);
    ck_assert_int_eq(check(UINT64_C(1) << 32 | 1, 1, 1, 0), -EINVAL);
    ck_assert_int_eq(check(UINT64_MAX, 1, 1, 0), -EINVAL);
    ck_assert_int_eq(check(1, 0, 1, 0), -EINVAL);
    ck_assert_int_eq(check(1, UINT64_C(1) << 32, 1, 0), -EINVAL);
    ck_assert_int_eq(check(1, UINT64_C(1) << 32 | 1, 1, 0), -EINVAL);
    ck_assert_int_eq(check(1, 1, 0, 0), -EINVAL);
    ck_assert_int_eq(check(1, 1, longest + 1, 0), -EINVAL);
    ck_assert_int_eq(check(1, 1, UINT64_MAX, 0), -EINVAL);
    for (int bit = 0; bit < 64; bit++)
        ck_assert_int_eq(check(1, 1, SECOND_US, UINT64_C(1) << bit), UINT64_C(1) << bit & all ? 0 : -EINVAL);
}
END_TEST

START_TEST(the_capacity_and_what_falls_due_in_10_ms_must_fit)
{
    const uint64_t most = TUNDISH_CAPACITY_MAX;
    ck_assert_int_eq(check(most, 1, TUNDISH_INTERVAL_US_MAX, 0), -EINVAL); /* one may fall due in any 10 ms */
    ck_assert_int_eq(check(most - 1, 1, TUNDISH_INTERVAL_US_MAX, 0), 0);
    ck_assert_int_eq(check(most - 10, 1000, SECOND_US, 0), 0);
    ck_assert_int_eq(check(most - 9, 1000, SECOND_US, 0), -EINVAL);
    ck_assert_int_eq(check(most - 11, 1001, SECOND_US, 0), 0);
    ck_assert_int_eq(check(most - 10, 1001, SECOND_US, 0), -EINVAL);
    ck_assert_int_eq(check(1, UINT32_MAX, 1, 0), -EINVAL);
    ck_assert_int_eq(check(1, most / 10000, 1, 0), 0);
    ck_assert_int_eq(check(1, most / 10000 + 1, 1, 0), -EINVAL);
    /* A step may end in any 10 ms. */
    ck_assert_int_eq(check(most - 500, 500, DAY_US, TUNDISH_STEPPED), 0);
    ck_assert_int_eq(check(most - 499, 500, DAY_US, TUNDISH_STEPPED), -EINVAL);
    ck_assert_int_eq(check(most - 499, 500, DAY_US, TUNDISH_STEPPED | TUNDISH_STRICT), 0);
    ck_assert_int_eq(check(1, UINT32_MAX, DAY_US, TUNDISH_STEPPED), -EINVAL);
}
END_TEST

/* Somebody scribbled zeroes over the fields one by one. */
START_TEST(zeroes_in_a_spoilt_record_are_read_as_ones)
{
    struct tdi_config want = some_config(0), read;
    struct tdi_clock_base base = some_base();
    struct tdi_layout *file = unit_file(&want, 0);
    const enum tdi_layout_field fields[] = {TDI_FIELD_CAPACITY, TDI_FIELD_REFILL, TDI_FIELD_INTERVAL_US};
    tdi_config_init(file, &want, &base);
    tdi_config_read(file, &read);
    ck_assert(!read.spoilt);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        atomic_store(&file->record[0].field[fields[i]], 0);
        tdi_config_read(file, &read);
        ck_assert(read.spoilt && read.capacity > 0 && read.refill > 0 && read.interval_us > 0);
        ck_assert(read.units_per_interval > 0 && read.tokens_per_unit > 0);
    }
}
END_TEST

static Suite *config(void)
{
    Suite *suite = suite_create("config");
    TCase *records = unit_case(suite, "records");
    tcase_add_test(records, a_new_file_reads_as_it_was_made);
    tcase_add_test(records, what_is_published_is_read_through_several_rounds_of_tags);
    tcase_add_test(records, numbers_go_on_after_their_last_one);
    tcase_add_test(records, who_starts_from_an_old_record_is_refused_and_changes_nothing);
    tcase_add_test(records, however_many_come_too_late_the_record_in_force_stays);
    TCase *deaths = unit_case(suite, "deaths");
    tcase_add_test(deaths, writers_stopped_half_way_never_harm_whether_they_go_on_or_not);
    tcase_add_test(deaths, changes_go_on_after_any_number_of_writers_killed_at_once);
    TCase *spoilt = unit_case(suite, "spoilt");
    tcase_add_test(spoilt, zeroes_in_a_spoilt_record_are_read_as_ones);
    TCase *bounds = unit_case(suite, "bounds");
    tcase_add_test(bounds, each_field_has_its_bounds);
    tcase_add_test(bounds, the_capacity_and_what_falls_due_in_10_ms_must_fit);
    return suite;
}

KIT_MAIN(config)
