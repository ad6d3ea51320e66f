/* SPDX-License-Identifier: MIT */
/*
 * Whatever is written into the file, by a process that died or by one that means harm: every operation comes
 * back soon, within its bounds, and touches nothing beside the file (which lies between forbidden pages).
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <tundish/tundish.h>

#include "core/bucket.h"
#include "core/instance.h"
#include "core/queue.h"
#include "unit.h"

#define STEPS_MAX 200 /* of one waiter; each loses its turn at most */

static uint64_t extreme(void)
{
    static const uint64_t values[] = {0,
                                      1,
                                      UINT64_MAX,
                                      UINT64_C(1) << 63,
                                      (UINT64_C(1) << 63) - 1,
                                      UINT32_MAX,
                                      UINT64_C(1) << 31,
                                      (UINT64_C(1) << 31) - 1,
                                      UINT64_C(1) << 32,
                                      TIME_MAX_US - 1,
                                      UINT64_C(0xffffffff80000000)};
    if (unit_chance(2))
        return values[unit_between(0, sizeof values / sizeof values[0] - 1)];
    return unit_chance(2) ? unit_random() : unit_log_between(1, UINT64_MAX);
}

/* A time near the hint, before it or behind it: how far a climb may go is another matter. */
static uint64_t some_now(const struct tdi_layout *file)
{
    uint64_t hint = atomic_load(&file->head.hint_us);
    if (hint > TIME_MAX_US)
        return unit_log_between(1, TIME_MAX_US);
    uint64_t away = unit_log_between(1, UINT64_C(1) << 34);
    return unit_chance(4) && away < hint ? hint - away : hint + away;
}

static void look(const struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_clock_base base;
    struct tdi_config config;
    struct tdi_queue_census census;
    struct tdi_queue_suspect suspect;
    unit_remember(file);
    tdi_config_read(file, &config);
    unit_expect(config.capacity <= TUNDISH_CAPACITY_MAX && config.extra <= TUNDISH_CAPACITY_MAX,
                "what was read is not clamped: capacity %" PRIu32, config.capacity);
    tdi_config_read_base(file, &base);
    uint64_t half = TIME_MAX_US / 2;
    unit_expect(base.shift_us >= -(int64_t)half && base.shift_us < (int64_t)half, "shift %" PRId64,
                base.shift_us);
    unit_expect(tdi_bucket_available(file, now_us) <= config.capacity, "more than %" PRIu32, config.capacity);
    uint64_t when_us = tdi_bucket_when(file, now_us, (uint32_t)extreme());
    unit_expect(when_us >= now_us, "tokens in the past: %" PRIu64, when_us);
    tdi_bucket_stamp(file);
    tdi_queue_count(file, now_us, &census);
    unit_expect(census.waiting <= TDI_LAYOUT_SLOTS, "%" PRIu32 " in line", census.waiting);
    if (tdi_queue_find_suspect(file, now_us, &suspect))
        unit_expect(suspect.slot < TDI_LAYOUT_SLOTS, "slot %" PRIu32, suspect.slot);
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++) {
        struct tdi_instance instance;
        struct tdi_identity who;
        if (tdi_instance_get(file, i, &instance, &who))
            unit_expect(memchr(who.program, '\0', sizeof who.program) && instance.index == i,
                        "entry %" PRIu32, i);
    }
    unit_expect(tdi_instance_count(file) <= TDI_LAYOUT_INSTANCES, "too many of %d", TDI_LAYOUT_INSTANCES);
    unit_expect(unit_is_as_remembered(file), "looking wrote at %" PRIu64, now_us);
}

static void wait_in_line(struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_queue_waiter waiter;
    tdi_queue_init(&waiter, (uint32_t)unit_log_between(1, UINT32_MAX),
                   (uint32_t)unit_log_between(1, UINT32_MAX), unit_chance(2));
    uint32_t wanted = waiter.need;
    for (int step = 0; step < STEPS_MAX; step++, now_us += unit_between(0, 1000)) {
        enum tdi_queue_result result = tdi_queue_step(file, &waiter, now_us, UINT64_MAX);
        unit_expect(waiter.need <= wanted && waiter.slot < TDI_LAYOUT_SLOTS, "need %" PRIu32, waiter.need);
        if (result == TDI_QUEUE_GRANTED || result == TDI_QUEUE_TIMED_OUT)
            break;
        if (result == TDI_QUEUE_SUSPECT && unit_chance(2))
            tdi_queue_evict(file, waiter.suspect.slot, waiter.suspect.id, now_us, &waiter.ring);
        else if (result == TDI_QUEUE_SUSPECT)
            tdi_queue_vouch(file, waiter.suspect.slot, now_us);
        else if (result == TDI_QUEUE_SLEEP && unit_chance(4))
            break;
    }
    tdi_queue_cancel(file, &waiter, now_us);
}

static void change(struct tdi_layout *file, uint64_t now_us)
{
    struct tdi_config want = unit_random_config();
    struct tdi_clock_base base = {.shift_us = (int64_t)extreme(), .boot_id = {extreme(), extreme()}};
    struct tdi_identity who = {.pid = (uint32_t)extreme()};
    struct tdi_instance instance = {.index = (uint32_t)extreme(), .owner = extreme()};
    struct tdi_queue_ring ring = {.slots = 0};
    uint32_t n = (uint32_t)extreme(), taken = 0;
    switch (unit_between(0, 8)) {
    case 0:
        tdi_bucket_try(file, now_us, n);
        break;
    case 1:
        n = n ? n : 1;
        if (tdi_bucket_try_some(file, now_us, n, &taken) == 0)
            unit_expect(taken > 0 && taken <= n, "%" PRIu32 " taken of %" PRIu32, taken, n);
        break;
    case 2:
        tdi_bucket_refund(file, now_us, n);
        break;
    case 3:
        tdi_bucket_reset(file, now_us);
        break;
    case 4:
        unit_configure(file, now_us, &want);
        break;
    case 5:
        tdi_bucket_rebase(file, atomic_load(&file->head.current), &base);
        break;
    case 6:
        tdi_instance_leave(file, &instance);
        if (tdi_instance_enter(file, &who, tdi_instance_number(file), &instance) == 0)
            unit_expect(instance.index < TDI_LAYOUT_INSTANCES, "entry %" PRIu32, instance.index);
        break;
    case 7:
        wait_in_line(file, now_us);
        break;
    default:
        tdi_queue_ring_front(file, now_us, &ring);
        tdi_queue_ring_all(file, &ring);
        tdi_queue_shut_door(file);
        break;
    }
}

static void use(struct tdi_layout *file, int operations)
{
    for (int i = 0; i < operations; i++) {
        look(file, some_now(file));
        change(file, some_now(file));
    }
}

static struct tdi_layout *new_file(void)
{
    struct tdi_config config = unit_random_config();
    return unit_file(&config, config.capacity);
}

static void scribble(void *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)at)[i] = (unsigned char)unit_random();
}

/* How a scribbler may leave each byte from `at` on. */
static void spoil(void *at, size_t len)
{
    size_t from = unit_between(0, len - 1), n = unit_between(1, len - from);
    unsigned char *bytes = at;
    switch (unit_between(0, 3)) {
    case 0:
        scribble(at, len);
        break;
    case 1:
        memset(at, unit_chance(2) ? 0xff : 0, len);
        break;
    case 2:
        scribble(bytes + from, n);
        break;
    default:
        for (size_t i = unit_between(1, 8); i > 0; i--)
            bytes[unit_between(0, len - 1)] ^= (unsigned char)(1 << unit_between(0, 7));
    }
}

START_TEST(any_bytes_in_the_whole_file_do_no_harm)
{
    for (int i = 0; i < 2000; i++) {
        struct tdi_layout *file = new_file();
        spoil(file, sizeof *file);
        use(file, 4);
    }
}
END_TEST

START_TEST(any_bytes_in_one_part_of_the_file_do_no_harm)
{
    for (int i = 0; i < 1000; i++) {
        struct tdi_layout *file = new_file();
        spoil(&file->head, sizeof file->head);
        use(file, 2);
        file = new_file();
        spoil(&file->record, sizeof file->record);
        use(file, 2);
        file = new_file();
        spoil(&file->line, sizeof file->line);
        atomic_fetch_or(&file->word, TDI_WORD_QUEUED);
        use(file, 2);
        file = new_file();
        spoil(&file->instance, sizeof file->instance);
        use(file, 2);
    }
}
END_TEST

START_TEST(extreme_hints_and_words_do_no_harm)
{
    for (int i = 0; i < 8000; i++) {
        struct tdi_layout *file = new_file();
        if (unit_chance(2))
            atomic_store(&file->head.hint_us, extreme());
        atomic_store(&file->word, extreme());
        use(file, 2);
    }
}
END_TEST

START_TEST(extreme_configurations_do_no_harm)
{
    for (int i = 0; i < 8000; i++) {
        struct tdi_layout *file = new_file();
        _Atomic(uint64_t) *field = file->record[0].field;
        for (uint64_t n = unit_between(1, 4); n > 0; n--)
            atomic_store(&field[unit_between(0, TDI_FIELD_COUNT - 1)], extreme() << TDI_FIELD_TAG_BITS);
        use(file, 3);
    }
}
END_TEST

/* A year behind and no whole record to read: as much as an unspoilt file may ask of one call, and more. */
START_TEST(a_spoilt_record_does_not_hold_up_who_comes_after_a_year)
{
    struct tdi_config config = unit_config(10, 1, DAY_US, 0);
    struct tdi_layout *file = unit_file(&config, 0);
    struct timespec used;
    atomic_fetch_xor(&file->record[0].field[TDI_FIELD_SINCE_US], 1);
    ck_assert_int_eq(tdi_bucket_try(file, YEAR_US, 1), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    ck_assert_msg(used.tv_sec < 1, "one call took %ld s of processor time", (long)used.tv_sec);
}
END_TEST

static Suite *hostile(void)
{
    Suite *suite = suite_create("hostile");
    TCase *bytes = unit_case(suite, "bytes");
    tcase_add_test(bytes, any_bytes_in_the_whole_file_do_no_harm);
    tcase_add_test(bytes, any_bytes_in_one_part_of_the_file_do_no_harm);
    TCase *values = unit_case(suite, "values");
    tcase_add_test(values, extreme_hints_and_words_do_no_harm);
    tcase_add_test(values, extreme_configurations_do_no_harm);
    TCase *time = unit_case(suite, "time");
    tcase_add_test(time, a_spoilt_record_does_not_hold_up_who_comes_after_a_year);
    return suite;
}

KIT_MAIN(hostile)
