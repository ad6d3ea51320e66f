/* SPDX-License-Identifier: MIT */
/*
 * The public functions on one process's buckets, without waiting. The clock is the real one, so the rates are
 * such that nothing falls due while a test runs: a token in 366 days.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <tundish/tundish.h>

#include "core/config.h"
#include "lib/handle.h"
#include "unit.h"

#define TOKEN_NS (TUNDISH_INTERVAL_US_MAX * 1000)

/* A full bucket that gains nothing while a test lasts. */
static struct tundish_options still(uint32_t capacity)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(capacity, 1);
    options.interval_us = TUNDISH_INTERVAL_US_MAX;
    return options;
}

static struct tundish *new_bucket(uint32_t capacity, uint32_t initial)
{
    struct tundish_options options = still(capacity);
    struct tundish *bucket = NULL;
    options.initial = initial;
    ck_assert_int_eq(tundish_create_private(&bucket, &options), 0);
    ck_assert_ptr_nonnull(bucket);
    return bucket;
}

/* Options. */

typedef void spoil_fn(struct tundish_options *options);

static void no_size(struct tundish_options *options)
{
    options->size = 0;
}

static void other_size(struct tundish_options *options)
{
    options->size++;
}

static void no_capacity(struct tundish_options *options)
{
    options->capacity = 0;
}

static void too_much_capacity(struct tundish_options *options)
{
    options->capacity = TUNDISH_CAPACITY_MAX + 1;
}

static void no_room_for_late_waiters(struct tundish_options *options)
{
    options->capacity = TUNDISH_CAPACITY_MAX;
}

static void no_refill(struct tundish_options *options)
{
    options->refill = 0;
}

static void no_interval(struct tundish_options *options)
{
    options->interval_us = 0;
}

static void long_interval(struct tundish_options *options)
{
    options->interval_us = TUNDISH_INTERVAL_US_MAX + 1;
}

static void unknown_flag(struct tundish_options *options)
{
    options->flags |= UINT32_C(1) << 31;
}

static void more_than_full(struct tundish_options *options)
{
    options->initial = options->capacity + 1;
}

static void more_than_a_mode(struct tundish_options *options)
{
    options->mode = 0100600;
}

/* What both making and changing refuse, and what only making looks at. */
static spoil_fn *const bad_rules[] = {
    no_size,   other_size,  no_capacity,   too_much_capacity, no_room_for_late_waiters,
    no_refill, no_interval, long_interval, unknown_flag,      NULL};
static spoil_fn *const bad_starts[] = {more_than_full, more_than_a_mode, NULL};

static void expect_refused(spoil_fn *const *spoil)
{
    for (size_t i = 0; spoil[i]; i++) {
        struct tundish_options options = still(10);
        struct tundish *bucket = (struct tundish *)&options;
        spoil[i](&options);
        ck_assert_msg(tundish_create_private(&bucket, &options) == -EINVAL, "private, %zu", i);
        ck_assert_ptr_null(bucket);
        bucket = (struct tundish *)&options;
        ck_assert_msg(tundish_create(&bucket, "refused", &options) == -EINVAL, "named, %zu", i);
        ck_assert_ptr_null(bucket);
        ck_assert_msg(tundish_open_or_create(&bucket, "refused", &options) == -EINVAL, "either, %zu", i);
        ck_assert_ptr_null(bucket);
        ck_assert_int_eq(tundish_open(&bucket, "refused"), -ENOENT);
    }
}

START_TEST(options_out_of_range_make_no_bucket)
{
    struct tundish *bucket;
    expect_refused(bad_rules);
    expect_refused(bad_starts);
    ck_assert_int_eq(tundish_create_private(&bucket, NULL), -EINVAL);
    ck_assert_int_eq(tundish_create(&bucket, "refused", NULL), -EINVAL);
}
END_TEST

START_TEST(options_out_of_range_change_nothing)
{
    struct tundish *bucket = new_bucket(10, 7);
    unit_remember(bucket->file);
    for (size_t i = 0; bad_rules[i]; i++) {
        struct tundish_options options = still(20);
        bad_rules[i](&options);
        ck_assert_msg(tundish_configure(bucket, &options) == -EINVAL, "number %zu", i);
        ck_assert_msg(unit_is_as_remembered(bucket->file), "number %zu changed something", i);
    }
    ck_assert_int_eq(tundish_configure(bucket, NULL), -EINVAL);
    ck_assert(unit_is_as_remembered(bucket->file));
    tundish_close(bucket);
}
END_TEST

START_TEST(the_limits_themselves_are_in_range)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(TUNDISH_CAPACITY_MAX, UINT32_MAX);
    struct tundish *bucket;
    options.flags = TUNDISH_STRICT | TUNDISH_UNFAIR | TUNDISH_STEPPED | TUNDISH_BYTES;
    options.interval_us = 1;
    options.initial = 0;
    options.mode = 07777;
    ck_assert_int_eq(tundish_create_private(&bucket, &options), 0);
    tundish_close(bucket);
    options = still(TUNDISH_CAPACITY_MAX - 1);
    ck_assert_int_eq(tundish_create_private(&bucket, &options), 0);
    ck_assert_uint_eq(tundish_available(bucket), TUNDISH_CAPACITY_MAX - 1);
    tundish_close(bucket);
}
END_TEST

START_TEST(a_change_looks_at_neither_initial_nor_mode)
{
    struct tundish *bucket = new_bucket(10, 7);
    struct tundish_options options = still(20);
    options.initial = 10000;
    options.mode = (mode_t)-1;
    ck_assert_int_eq(tundish_configure(bucket, &options), 0);
    ck_assert_uint_eq(tundish_available(bucket), 7);
    tundish_close(bucket);
}
END_TEST

/* Looking. */

START_TEST(a_bucket_tells_what_it_is)
{
    struct tundish_options options = {.size = sizeof options,
                                      .capacity = 1000,
                                      .refill = 3,
                                      .interval_us = TUNDISH_INTERVAL_US_MAX,
                                      .initial = 999,
                                      .flags = TUNDISH_UNFAIR | TUNDISH_STEPPED | TUNDISH_BYTES,
                                      .mode = 0600};
    struct tundish_info info = TUNDISH_INFO_INIT;
    struct tundish *bucket;
    uint64_t before_ns = tundish_now_ns();
    ck_assert_int_eq(tundish_create_private(&bucket, &options), 0);
    ck_assert_int_eq(tundish_info(bucket, &info), 0);
    uint64_t span_ns = tundish_now_ns() - before_ns;
    ck_assert_uint_eq(info.size, sizeof info);
    ck_assert_uint_eq(info.capacity, 1000);
    ck_assert_uint_eq(info.refill, 3);
    ck_assert_uint_eq(info.interval_us, TUNDISH_INTERVAL_US_MAX);
    ck_assert_uint_eq(info.flags, options.flags);
    ck_assert_uint_eq(info.available, 999);
    ck_assert_uint_le(info.age_ns, span_ns + 1000);
    ck_assert_uint_le(info.full_in_ns, TOKEN_NS);
    ck_assert_uint_ge(info.full_in_ns + span_ns + 1000, TOKEN_NS);
    ck_assert_uint_eq(info.instances, 1);
    ck_assert_uint_eq(info.unlisted, 0);
    tundish_close(bucket);
}
END_TEST

START_TEST(a_snapshot_of_unknown_size_is_refused_and_not_written)
{
    struct tundish *bucket = new_bucket(10, 10);
    struct tundish_info info, before;
    memset(&info, 0x55, sizeof info);
    static const size_t sizes[] = {0, 1, sizeof info.size, sizeof info + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        info.size = sizes[i];
        before = info;
        ck_assert_int_eq(tundish_info(bucket, &info), -EINVAL);
        ck_assert_mem_eq(&info, &before, sizeof info);
    }
    ck_assert_int_eq(tundish_info(bucket, NULL), -EINVAL);
    tundish_close(bucket);
}
END_TEST

START_TEST(waiting_times_are_the_time_that_tokens_take)
{
    struct tundish *bucket = new_bucket(10, 4);
    uint64_t before_ns = tundish_now_ns();
    ck_assert_uint_eq(tundish_wait_time_ns(bucket, 0), 0);
    ck_assert_uint_eq(tundish_wait_time_ns(bucket, 4), 0);
    static const uint32_t wanted[] = {5, 6, 10, 11, 100};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        uint64_t wait_ns = tundish_wait_time_ns(bucket, wanted[i]), all_ns = (wanted[i] - 4) * TOKEN_NS;
        uint64_t age_ns = tundish_now_ns() - before_ns + KIT_SECOND; /* the bucket is a little older */
        ck_assert_uint_le(wait_ns, all_ns);
        ck_assert_uint_ge(wait_ns + age_ns, all_ns);
    }
    ck_assert_uint_gt(tundish_wait_time_ns(bucket, UINT32_MAX), UINT64_C(1) << 62);
    tundish_close(bucket);
}
END_TEST

START_TEST(looking_writes_nothing)
{
    struct tundish *bucket = new_bucket(10, 4);
    struct tundish_info info = TUNDISH_INFO_INIT;
    unit_remember(bucket->file);
    tundish_available(bucket);
    tundish_wait_time_ns(bucket, 7);
    tundish_info(bucket, &info);
    ck_assert(unit_is_as_remembered(bucket->file));
    tundish_close(bucket);
}
END_TEST

/* Taking and giving back. */

START_TEST(a_bucket_gives_what_it_has_and_no_more)
{
    struct tundish *bucket = new_bucket(10, 10);
    ck_assert_int_eq(tundish_try_acquire(bucket, 11), -E2BIG);
    ck_assert_int_eq(tundish_try_acquire(bucket, 4), 0);
    ck_assert_int_eq(tundish_try_acquire(bucket, 7), -EAGAIN);
    ck_assert_int_eq(tundish_try_acquire(bucket, 6), 0);
    ck_assert_int_eq(tundish_try_acquire(bucket, 1), -EAGAIN);
    ck_assert_int_eq(tundish_try_acquire(bucket, 11), -E2BIG);
    ck_assert_int_eq(tundish_reset(bucket), 0);
    ck_assert_uint_eq(tundish_available(bucket), 10);
    tundish_close(bucket);
}
END_TEST

START_TEST(nothing_costs_nothing_and_refusals_write_nothing)
{
    struct tundish *bucket = new_bucket(10, 3);
    struct tundish_demand none = {bucket, 0}, much = {bucket, 4}, too_much = {bucket, 11};
    unit_remember(bucket->file);
    ck_assert_int_eq(tundish_try_acquire(bucket, 0), 0);
    ck_assert_int_eq(tundish_acquire(bucket, 0), 0);
    ck_assert_int_eq(tundish_acquire_for(bucket, 0, 0), 0);
    ck_assert_int_eq(tundish_acquire_until(bucket, 0, 0), 0);
    ck_assert_int_eq(tundish_try_acquire_all(&none, 1), 0);
    ck_assert_int_eq(tundish_try_acquire_all(NULL, 0), 0);
    ck_assert_int_eq(tundish_acquire_all(&none, 1, 0), 0);
    tundish_release(bucket, 0);
    ck_assert(unit_is_as_remembered(bucket->file));
    ck_assert_int_eq(tundish_try_acquire(bucket, 4), -EAGAIN);
    ck_assert_int_eq(tundish_try_acquire(bucket, 11), -E2BIG);
    ck_assert_int_eq(tundish_try_acquire_all(&much, 1), -EAGAIN);
    ck_assert_int_eq(tundish_try_acquire_all(&too_much, 1), -E2BIG);
    ck_assert(unit_is_as_remembered(bucket->file));
    tundish_close(bucket);
}
END_TEST

START_TEST(what_does_not_fit_is_dropped_on_release)
{
    struct tundish *bucket = new_bucket(10, 3);
    tundish_release(bucket, 4);
    ck_assert_uint_eq(tundish_available(bucket), 7);
    tundish_release(bucket, 4);
    ck_assert_uint_eq(tundish_available(bucket), 10);
    tundish_release(bucket, UINT32_MAX);
    ck_assert_uint_eq(tundish_available(bucket), 10);
    tundish_close(bucket);
}
END_TEST

START_TEST(all_demands_are_met_or_none)
{
    struct tundish *a = new_bucket(10, 10), *b = new_bucket(10, 5), *c = new_bucket(10, 1);
    struct tundish_demand demands[] = {{a, 3}, {b, 4}, {c, 2}};
    ck_assert_int_eq(tundish_try_acquire_all(demands, 3), -EAGAIN);
    ck_assert_uint_eq(tundish_available(a), 10);
    ck_assert_uint_eq(tundish_available(b), 5);
    ck_assert_uint_eq(tundish_available(c), 1);
    demands[2].n = 11;
    ck_assert_int_eq(tundish_try_acquire_all(demands, 3), -E2BIG);
    ck_assert_int_eq(tundish_acquire_all(demands, 3, TUNDISH_NO_DEADLINE), -E2BIG);
    ck_assert_uint_eq(tundish_available(a), 10);
    demands[2].n = 1;
    ck_assert_int_eq(tundish_try_acquire_all(demands, 3), 0);
    ck_assert_uint_eq(tundish_available(a), 7);
    ck_assert_uint_eq(tundish_available(b), 1);
    ck_assert_uint_eq(tundish_available(c), 0);
    ck_assert_int_eq(tundish_acquire_all(demands, 3, 0), -ETIMEDOUT);
    ck_assert_uint_eq(tundish_available(a), 7);
    ck_assert_uint_eq(tundish_available(b), 1);
    tundish_close(a);
    tundish_close(b);
    tundish_close(c);
}
END_TEST

START_TEST(demands_on_one_bucket_add_up)
{
    struct tundish *a = new_bucket(10, 10), *b = new_bucket(10, 5);
    struct tundish_demand demands[] = {{a, 3}, {b, 3}, {a, 4}, {b, 3}, {a, 2}};
    ck_assert_int_eq(tundish_try_acquire_all(demands, 5), -EAGAIN);
    ck_assert_uint_eq(tundish_available(a), 10);
    ck_assert_uint_eq(tundish_available(b), 5);
    demands[3].n = 2;
    ck_assert_int_eq(tundish_try_acquire_all(demands, 5), 0);
    ck_assert_uint_eq(tundish_available(a), 1);
    ck_assert_uint_eq(tundish_available(b), 0);
    demands[4].n = 4;
    ck_assert_int_eq(tundish_try_acquire_all(demands, 5), -E2BIG);
    struct tundish_demand sums[] = {{a, UINT32_MAX}, {a, 2}};
    ck_assert_int_eq(tundish_try_acquire_all(sums, 2), -E2BIG);
    struct tundish_demand last_short[] = {{b, 0}, {a, 1}, {b, 1}};
    ck_assert_int_eq(tundish_try_acquire_all(last_short, 3), -EAGAIN);
    ck_assert_uint_eq(tundish_available(a), 1);
    tundish_close(a);
    tundish_close(b);
}
END_TEST

START_TEST(two_handles_of_one_file_are_one_bucket)
{
    struct tundish_options options = still(10);
    struct tundish_info info = TUNDISH_INFO_INIT;
    struct tundish *a, *b;
    ck_assert_int_eq(tundish_create(&a, "one", &options), 0);
    ck_assert_int_eq(tundish_create(&b, "one", &options), -EEXIST);
    ck_assert_int_eq(tundish_open(&b, "one"), 0);
    ck_assert_int_eq(tundish_info(b, &info), 0);
    ck_assert_uint_eq(info.instances, 2);
    struct tundish_demand demands[] = {{a, 6}, {b, 5}};
    ck_assert_int_eq(tundish_try_acquire_all(demands, 2), -E2BIG);
    demands[1].n = 4;
    ck_assert_int_eq(tundish_try_acquire_all(demands, 2), 0);
    ck_assert_uint_eq(tundish_available(a), 0);
    tundish_close(a);
    ck_assert_int_eq(tundish_info(b, &info), 0);
    ck_assert_uint_eq(info.instances, 1);
    tundish_close(b);
    tundish_close(NULL);
    ck_assert_int_eq(tundish_unlink("one"), 0);
    ck_assert_int_eq(tundish_unlink("one"), -ENOENT);
}
END_TEST

/* Any demands on a few buckets: either all sums are gone or nothing is. */
START_TEST(random_demands_take_their_sums_or_nothing)
{
    struct tundish *bucket[3];
    struct tundish_demand demands[6];
    for (int i = 0; i < 3; i++)
        bucket[i] = new_bucket(20, 20);
    for (int round = 0; round < 3000; round++) {
        uint32_t before[3], sum[3] = {0, 0, 0};
        size_t count = unit_between(0, 6);
        int expected = 0;
        for (size_t j = 0; j < count; j++) {
            uint64_t which = unit_between(0, 2);
            demands[j] = (struct tundish_demand){bucket[which], (uint32_t)unit_between(0, 8)};
            sum[which] += demands[j].n;
        }
        for (int i = 0; i < 3; i++) {
            before[i] = tundish_available(bucket[i]);
            expected = sum[i] > before[i] ? -EAGAIN : expected;
        }
        for (int i = 0; i < 3; i++)
            expected = sum[i] > 20 ? -E2BIG : expected;
        int error = tundish_try_acquire_all(demands, count);
        unit_expect(error == expected, "round %d: %d instead of %d", round, error, expected);
        for (int i = 0; i < 3; i++) {
            uint32_t left = before[i] - (error ? 0 : sum[i]);
            unit_expect(tundish_available(bucket[i]) == left, "round %d: not %" PRIu32 " left", round, left);
        }
        tundish_release(bucket[unit_between(0, 2)], (uint32_t)unit_between(0, 10));
    }
    for (int i = 0; i < 3; i++)
        tundish_close(bucket[i]);
}
END_TEST

START_TEST(a_deadline_in_the_past_tries_once)
{
    struct tundish *bucket = new_bucket(10, 7);
    uint64_t now_ns = tundish_now_ns();
    ck_assert_int_eq(tundish_acquire_until(bucket, 3, 0), 0);
    ck_assert_uint_eq(tundish_available(bucket), 4);
    ck_assert_int_eq(tundish_acquire_until(bucket, 5, 0), -ETIMEDOUT);
    ck_assert_int_eq(tundish_acquire_until(bucket, 5, now_ns), -ETIMEDOUT);
    ck_assert_int_eq(tundish_acquire_for(bucket, 5, 0), -ETIMEDOUT);
    ck_assert_uint_eq(tundish_available(bucket), 4);
    ck_assert_int_eq(tundish_acquire_for(bucket, 4, 0), 0);
    ck_assert_uint_eq(tundish_available(bucket), 0);
    tundish_close(bucket);
}
END_TEST

START_TEST(more_than_the_capacity_is_given_back_exactly_when_time_is_up)
{
    struct tundish *bucket = new_bucket(10, 7);
    ck_assert_int_eq(tundish_acquire_until(bucket, 11, 0), -ETIMEDOUT);
    ck_assert_uint_eq(tundish_available(bucket), 7);
    ck_assert_int_eq(tundish_acquire_for(bucket, UINT32_MAX, 0), -ETIMEDOUT);
    ck_assert_uint_eq(tundish_available(bucket), 7);
    ck_assert_int_eq(tundish_try_acquire(bucket, 7), 0);
    ck_assert_int_eq(tundish_acquire_until(bucket, 11, 0), -ETIMEDOUT);
    ck_assert_uint_eq(tundish_available(bucket), 0);
    tundish_close(bucket);
}
END_TEST

START_TEST(every_error_of_the_interface_has_words)
{
    static const int errors[] = {EAGAIN, E2BIG,   ETIMEDOUT, EINPROGRESS, EPROTO,       EEXIST, ENOENT,
                                 EINVAL, ENOTSUP, EACCES,    ENOTDIR,     ENAMETOOLONG, ELOOP,  ENOSPC,
                                 ENOMEM, EMFILE,  EDEADLK,   EALREADY,    ECANCELED};
    const char *unknown = tundish_strerror(INT_MIN);
    ck_assert_str_eq(unknown, tundish_strerror(4095));
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        ck_assert_str_ne(tundish_strerror(errors[i]), unknown);
        ck_assert_ptr_eq(tundish_strerror(errors[i]), tundish_strerror(-errors[i]));
    }
}
END_TEST

START_TEST(errno_is_kept)
{
    struct tundish *bucket = new_bucket(10, 7), *other;
    struct tundish_info info = TUNDISH_INFO_INIT;
    struct tundish_options options = still(10);
    errno = EXDEV;
    tundish_try_acquire(bucket, 8);
    tundish_acquire_until(bucket, 8, 0);
    tundish_release(bucket, 1);
    tundish_configure(bucket, &options);
    tundish_info(bucket, &info);
    tundish_flush(bucket);
    tundish_open(&other, "nowhere");
    tundish_unlink("nowhere");
    tundish_create(&other, "here", &options);
    tundish_close(other);
    tundish_unlink("here");
    tundish_now_ns();
    ck_assert_int_eq(errno, EXDEV);
    tundish_close(bucket);
}
END_TEST

/* A spoilt file beneath a handle: see test_hostile for the rooms below. */

static uint64_t extreme(void)
{
    static const uint64_t values[] = {0,
                                      1,
                                      UINT64_MAX,
                                      UINT64_C(1) << 63,
                                      (UINT64_C(1) << 63) - 1,
                                      TIME_MAX_US / 2,
                                      TIME_MAX_US / 2 - 1,
                                      TIME_MAX_US - 1,
                                      UINT32_MAX};
    return unit_chance(4) ? unit_random() : values[unit_between(0, sizeof values / sizeof values[0] - 1)];
}

static void spoil(struct tdi_layout *file)
{
    unsigned char *bytes = (unsigned char *)&file->head;
    size_t len = sizeof *file - offsetof(struct tdi_layout, head);
    struct tdi_layout_record *record = &file->record[atomic_load(&file->head.current) % TDI_LAYOUT_RECORDS];
    switch (unit_between(0, 3)) {
    case 0: /* near the handle's time, since climbing from far away takes long */
        for (size_t i = sizeof file->head; i < len; i++)
            bytes[i] = (unsigned char)unit_random();
        break;
    case 1:
        for (size_t i = unit_between(1, 40); i > 0; i--)
            bytes[unit_between(sizeof file->head, len - 1)] = (unsigned char)unit_random();
        break;
    case 2:
        for (size_t i = unit_between(1, 3); i > 0; i--)
            atomic_store(&record->field[unit_between(0, TDI_FIELD_COUNT - 1)],
                         extreme() << TDI_FIELD_TAG_BITS | atomic_load(&file->head.current) % 4096);
        break;
    default:
        atomic_store(&file->word, extreme());
        atomic_store(&file->head.hint_us, UINT64_MAX - (extreme() >> 4));
        break;
    }
}

static void use(struct tundish *bucket)
{
    struct tundish_info info = TUNDISH_INFO_INIT;
    struct tundish_demand demands[] = {{bucket, (uint32_t)unit_between(0, 9)}, {bucket, 1}};
    struct tundish_options options = still(10);
    ck_assert_int_eq(tundish_info(bucket, &info), 0);
    ck_assert_uint_le(info.available, TUNDISH_CAPACITY_MAX);
    tundish_wait_time_ns(bucket, (uint32_t)extreme());
    tundish_try_acquire(bucket, (uint32_t)unit_between(0, 20));
    tundish_acquire_until(bucket, (uint32_t)unit_between(0, 20), 0);
    tundish_try_acquire_all(demands, 2);
    tundish_release(bucket, (uint32_t)extreme());
    if (unit_chance(3))
        tundish_reset(bucket);
    if (unit_chance(3))
        tundish_configure(bucket, &options);
}

START_TEST(a_spoilt_file_beneath_a_handle_does_no_harm)
{
    for (int i = 0; i < 600; i++) {
        struct tundish *bucket = new_bucket(10, 5);
        spoil(bucket->file);
        use(bucket);
        tundish_close(bucket);
    }
}
END_TEST

/* The file is spoilt while nobody has it open, and its boot forgotten now and then: the base is found anew.
 */
START_TEST(opening_a_spoilt_file_does_no_harm)
{
    struct tundish_options options = still(10);
    for (int i = 0; i < 600; i++) {
        struct tundish *maker, *bucket;
        ck_assert_int_eq(tundish_create(&maker, "spoilt", &options), 0);
        spoil(maker->file);
        if (unit_chance(2))
            atomic_fetch_xor(&maker->file->record[0].field[TDI_FIELD_BOOT_A], UINT64_C(1) << 60);
        int error = tundish_open(&bucket, "spoilt");
        ck_assert_msg(error == 0 || error == -EPROTO, "%d", error);
        if (error == 0)
            use(bucket);
        tundish_close(bucket);
        tundish_close(maker);
        ck_assert_int_eq(tundish_unlink("spoilt"), 0);
    }
}
END_TEST

START_TEST(time_goes_on_where_it_stopped_after_another_boot)
{
    struct tundish_options options = still(10);
    struct tundish_info info = TUNDISH_INFO_INIT;
    struct tundish *maker, *bucket;
    options.initial = 3;
    ck_assert_int_eq(tundish_create(&maker, "old", &options), 0);
    struct tdi_layout *file = maker->file;
    /* A year old, counted until then, on a machine that had run for longer. */
    atomic_store(&file->head.hint_us, YEAR_US);
    atomic_store(&file->word, YEAR_US << 32 | 3);
    atomic_store(&file->record[0].field[TDI_FIELD_SHIFT_US], (YEAR_US / 2) << TDI_FIELD_TAG_BITS);
    atomic_fetch_xor(&file->record[0].field[TDI_FIELD_BOOT_B], UINT64_C(1) << 30);
    tundish_close(maker);
    ck_assert_int_eq(tundish_open(&bucket, "old"), 0);
    ck_assert_int_eq(tundish_info(bucket, &info), 0);
    ck_assert_uint_eq(info.available, 3);
    ck_assert_uint_ge(info.age_ns, YEAR_US * 1000);
    ck_assert_uint_le(info.age_ns, (YEAR_US + 3600 * SECOND_US) * 1000);
    ck_assert_int_eq(tundish_try_acquire(bucket, 3), 0);
    ck_assert_int_eq(tundish_try_acquire(bucket, 1), -EAGAIN);
    tundish_close(bucket);
    ck_assert_int_eq(tundish_unlink("old"), 0);
}
END_TEST

/* The furthest future that can be written, on a file of another boot. */
START_TEST(a_stamp_at_the_end_of_time_is_no_trouble_after_another_boot)
{
    static const uint64_t ends[] = {UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, UINT64_MAX, TIME_MAX_US};
    struct tundish_options options = still(10);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct tundish *maker, *bucket;
        ck_assert_int_eq(tundish_create(&maker, "end", &options), 0);
        atomic_store(&maker->file->head.hint_us, ends[i]);
        atomic_store(&maker->file->word, ends[i] << 32 | 5);
        atomic_fetch_xor(&maker->file->record[0].field[TDI_FIELD_BOOT_A], UINT64_C(1) << 60);
        tundish_close(maker);
        int error = tundish_open(&bucket, "end");
        ck_assert_msg(error == 0 || error == -EPROTO, "%d", error);
        if (error == 0)
            use(bucket);
        tundish_close(bucket);
        ck_assert_int_eq(tundish_unlink("end"), 0);
    }
}
END_TEST

static Suite *lib(void)
{
    Suite *suite = suite_create("lib");
    TCase *ranges = unit_case(suite, "options");
    tcase_add_test(ranges, options_out_of_range_make_no_bucket);
    tcase_add_test(ranges, options_out_of_range_change_nothing);
    tcase_add_test(ranges, the_limits_themselves_are_in_range);
    tcase_add_test(ranges, a_change_looks_at_neither_initial_nor_mode);
    TCase *looking = unit_case(suite, "looking");
    tcase_add_test(looking, a_bucket_tells_what_it_is);
    tcase_add_test(looking, a_snapshot_of_unknown_size_is_refused_and_not_written);
    tcase_add_test(looking, waiting_times_are_the_time_that_tokens_take);
    tcase_add_test(looking, looking_writes_nothing);
    TCase *taking = unit_case(suite, "taking");
    tcase_add_test(taking, a_bucket_gives_what_it_has_and_no_more);
    tcase_add_test(taking, nothing_costs_nothing_and_refusals_write_nothing);
    tcase_add_test(taking, what_does_not_fit_is_dropped_on_release);
    tcase_add_test(taking, all_demands_are_met_or_none);
    tcase_add_test(taking, demands_on_one_bucket_add_up);
    tcase_add_test(taking, two_handles_of_one_file_are_one_bucket);
    tcase_add_test(taking, random_demands_take_their_sums_or_nothing);
    tcase_add_test(taking, a_deadline_in_the_past_tries_once);
    tcase_add_test(taking, more_than_the_capacity_is_given_back_exactly_when_time_is_up);
    tcase_add_test(taking, errno_is_kept);
    tcase_add_test(taking, every_error_of_the_interface_has_words);
    TCase *spoilt = unit_case(suite, "spoilt");
    tcase_add_test(spoilt, a_spoilt_file_beneath_a_handle_does_no_harm);
    tcase_add_test(spoilt, opening_a_spoilt_file_does_no_harm);
    tcase_add_test(spoilt, time_goes_on_where_it_stopped_after_another_boot);
    tcase_add_test(spoilt, a_stamp_at_the_end_of_time_is_no_trouble_after_another_boot);
    return suite;
}

KIT_MAIN(lib)
