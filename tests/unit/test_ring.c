/* SPDX-License-Identifier: MIT */
/*
 * Rings of observations: each record is made from its number, so that one that was torn, invented or handed out
 * twice gives itself away. First step by step, then with somebody coming between any two instructions (step.h),
 * then with threads flat out.
 */
#include <pthread.h>
#include <string.h>

#include "core/ring.h"
#include "plat/proc.h"
#include "unit.h"
#include "unit/step.h"

#define PLACE (TDI_LAYOUT_INSTANCES - 1) /* its rings end where nobody may read */
#define ROOM TDI_LAYOUT_OBSERVATIONS
#define DRAINER (UINT64_C(77) << 32 | 1)
#define OTHER (UINT64_C(78) << 32 | 2)
#define NOBODYS UINT64_C(0x5a5a5a5a5a5a5a5a) /* in the rings of other places */

static struct tdi_layout *file;
static struct tdi_layout_account *account;
static _Atomic(uint32_t) busy[TDI_LAYOUT_STRIPES];

/* A file with a drainer, in which all rings but those of the place are full of what must not be read. */
static void new_file(void)
{
    struct tdi_config config = unit_config(100, 10, SECOND_US, 0);
    file = unit_file(&config, 100);
    account = &file->account[PLACE];
    memset((void *)file->rings, 0x5a, sizeof file->rings);
    memset((void *)&file->rings[PLACE], 0, sizeof file->rings[PLACE]);
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        atomic_store(&busy[i], 0);
    ck_assert(tdi_ring_claim(account, 0, DRAINER, 1));
    tdi_ring_arm(account, 1);
}

static uint64_t mixed(uint64_t number)
{
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return number ^ number >> 27;
}

static struct tdi_observation record_of(uint64_t number)
{
    return (struct tdi_observation){
        .at_us = number,
        .wait_ns = mixed(number),
        .tokens = (uint32_t)mixed(number + 1),
        .thread = (uint32_t)mixed(number + 2),
        .process = (uint32_t)mixed(number + 3),
        .kind = (uint16_t)(number % TDI_KINDS),
        .error = (uint16_t)(mixed(number + 4) >> 13),
    };
}

static void expect_whole(const struct tdi_observation *got)
{
    struct tdi_observation whole = record_of(got->at_us);
    unit_expect(got->wait_ns == whole.wait_ns && got->tokens == whole.tokens && got->thread == whole.thread &&
                    got->process == whole.process && got->kind == whole.kind && got->error == whole.error,
                "record %" PRIx64 " is not what was pushed", got->at_us);
}

static void push(uint32_t stripe, uint64_t number)
{
    struct tdi_observation observation = record_of(number);
    tdi_ring_push(file, PLACE, stripe, &busy[stripe], &observation);
}

static size_t drain(struct tdi_observation *out, size_t most)
{
    return tdi_ring_drain(file, PLACE, DRAINER, 2, out, most);
}

static uint64_t dropped(uint32_t stripe)
{
    return atomic_load(&account->stripe[stripe].tally.sum[TDI_SUM_DROPPED]);
}

static void expect_numbers(const struct tdi_observation *got, size_t count, uint64_t first)
{
    for (size_t i = 0; i < count; i++) {
        expect_whole(&got[i]);
        unit_expect(got[i].at_us == first + i, "record %" PRIu64 " instead of %" PRIu64, got[i].at_us,
                    first + i);
    }
}

START_TEST(records_come_out_as_they_went_in)
{
    static struct tdi_observation out[ROOM];
    new_file();
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++)
        for (uint64_t round = 0, next = 0; round < 300; round++) {
            uint64_t count = unit_between(0, ROOM);
            for (uint64_t i = 0; i < count; i++)
                push(stripe, next + i);
            ck_assert_uint_eq(drain(out, ROOM), count);
            expect_numbers(out, count, next);
            next += count;
            ck_assert_uint_eq(dropped(stripe), 0);
        }
}
END_TEST

START_TEST(what_finds_no_room_is_dropped_and_counted)
{
    static struct tdi_observation out[2 * ROOM];
    new_file();
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
        for (uint64_t i = 0; i < ROOM + 70; i++)
            push(stripe, i);
        ck_assert_uint_eq(dropped(stripe), 70);
        ck_assert_uint_eq(drain(out, 2 * ROOM), ROOM);
        expect_numbers(out, ROOM, 0);
        push(stripe, 1000);
        ck_assert_uint_eq(drain(out, 2 * ROOM), 1);
        expect_numbers(out, 1, 1000);
        ck_assert_uint_eq(dropped(stripe), 70);
    }
}
END_TEST

START_TEST(draining_in_parts_loses_and_repeats_nothing)
{
    struct tdi_observation out[ROOM];
    uint64_t pushed[TDI_LAYOUT_STRIPES] = {0}, next[TDI_LAYOUT_STRIPES] = {0}, all = 0, observed = 0;
    new_file();
    for (int round = 0; round < 20000; round++) {
        uint32_t stripe = (uint32_t)unit_between(0, TDI_STATS_SHARED);
        for (uint64_t i = unit_between(0, 12); i > 0; i--, all++)
            push(stripe, (uint64_t)stripe << 40 | pushed[stripe]++);
        size_t count = drain(out, unit_between(0, 6));
        observed += count;
        for (size_t i = 0; i < count; i++) {
            uint64_t from = out[i].at_us >> 40, number = out[i].at_us & UINT32_MAX;
            expect_whole(&out[i]);
            unit_expect(number >= next[from], "record %" PRIu64 " after %" PRIu64, number, next[from]);
            next[from] = number + 1;
        }
    }
    for (size_t count; (count = drain(out, ROOM)) > 0;)
        observed += count;
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        observed += dropped(i);
    ck_assert_uint_eq(observed, all);
}
END_TEST

START_TEST(only_the_drainer_drains)
{
    struct tdi_observation out[4];
    uint64_t seen_us;
    new_file();
    push(0, 1);
    ck_assert_uint_eq(tdi_ring_drain(file, PLACE, OTHER, 3, out, 4), 0);
    ck_assert_uint_eq(tdi_ring_drainer(account, &seen_us), DRAINER);
    ck_assert_uint_eq(seen_us, 1);
    ck_assert(!tdi_ring_claim(account, 0, OTHER, 4));
    ck_assert_uint_eq(tdi_ring_drainer(account, &seen_us), DRAINER);
    ck_assert(tdi_ring_claim(account, DRAINER, OTHER, 5));
    ck_assert_uint_eq(tdi_ring_drainer(account, &seen_us), OTHER);
    ck_assert_uint_eq(seen_us, 5);
    ck_assert_uint_eq(drain(out, 4), 0);
    ck_assert_uint_eq(tdi_ring_drain(file, PLACE, OTHER, 6, out, 4), 1);
    tdi_ring_drainer(account, &seen_us);
    ck_assert_uint_eq(seen_us, 6);
}
END_TEST

static void expect_armed(uint32_t every)
{
    for (uint32_t i = 0; i < TDI_LAYOUT_STRIPES; i++)
        ck_assert_uint_eq(tdi_ring_every(&account->stripe[i]), every);
}

START_TEST(who_leaves_disarms_but_not_for_another)
{
    uint64_t seen_us;
    new_file();
    tdi_ring_arm(account, 17);
    expect_armed(17);
    tdi_ring_leave(account, OTHER);
    expect_armed(17);
    ck_assert_uint_eq(tdi_ring_drainer(account, &seen_us), DRAINER);
    tdi_ring_leave(account, DRAINER);
    expect_armed(0);
    ck_assert_uint_eq(tdi_ring_drainer(account, &seen_us), 0);
    ck_assert(tdi_ring_claim(account, 0, OTHER, 7));
}
END_TEST

START_TEST(a_new_owner_may_write_and_records_for_a_drainer_that_was_heard_of)
{
    struct tdi_observation out[4];
    for (int silent = 0; silent < 2; silent++) {
        new_file();
        atomic_store(&account->watch.writer, 1); /* killed in the middle of a push */
        push(TDI_STATS_SHARED, 1);
        ck_assert_uint_eq(dropped(TDI_STATS_SHARED), 1);
        tdi_ring_begin(account, 1 + TDI_RING_SILENT_US + (uint64_t)silent);
        expect_armed(silent ? 0 : 1);
        push(TDI_STATS_SHARED, 2);
        ck_assert_uint_eq(drain(out, 4), 1);
        expect_numbers(out, 1, 2);
    }
    new_file();
    tdi_ring_leave(account, DRAINER);
    tdi_ring_arm(account, 1);
    tdi_ring_begin(account, 2);
    expect_armed(0);
}
END_TEST

START_TEST(a_push_within_a_push_is_dropped)
{
    struct tdi_observation out[4];
    new_file();
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
        _Atomic(uint32_t) *flag = stripe == TDI_STATS_SHARED ? &account->watch.writer : &busy[stripe];
        atomic_store(flag, 1);
        push(stripe, 1);
        ck_assert_uint_eq(dropped(stripe), 1);
        ck_assert_uint_eq(drain(out, 4), 0);
        atomic_store(flag, 0);
        push(stripe, 2);
        ck_assert_uint_eq(drain(out, 4), 1);
        expect_numbers(out, 1, 2);
        ck_assert_uint_eq(dropped(stripe), 1);
    }
}
END_TEST

static uint64_t some_position(uint64_t near)
{
    switch (unit_between(0, 3)) {
    case 0:
        return unit_random();
    case 1:
        return UINT64_MAX - unit_between(0, ROOM);
    case 2:
        return near + unit_between(0, 2 * ROOM) - ROOM;
    default:
        return unit_between(0, ROOM);
    }
}

START_TEST(spoilt_positions_read_nothing_outside_the_ring)
{
    static struct tdi_observation out[TDI_LAYOUT_STRIPES * ROOM];
    for (int round = 0; round < 300; round++) {
        new_file();
        for (int i = 0; i < 50; i++) {
            for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
                atomic_store(&account->stripe[stripe].pushed, some_position(0));
                atomic_store(&account->taken[stripe],
                             some_position(atomic_load(&account->stripe[stripe].pushed)));
                push(stripe, unit_random());
            }
            size_t most = unit_between(0, sizeof out / sizeof out[0]);
            size_t count = drain(out, most);
            unit_expect(count <= most, "%zu records of %zu", count, most);
            for (size_t k = 0; k < count; k++)
                unit_expect(out[k].at_us != NOBODYS && out[k].kind < TDI_KINDS, "at %zu of %zu", k, count);
        }
    }
}
END_TEST

START_TEST(a_spoilt_ring_works_again_once_it_is_drained)
{
    struct tdi_observation out[ROOM];
    for (int round = 0; round < 300; round++) {
        new_file();
        for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
            atomic_store(&account->stripe[stripe].pushed, some_position(0));
            atomic_store(&account->taken[stripe], some_position(0));
            while (drain(out, ROOM) > 0)
                ;
            push(stripe, 5);
            ck_assert_uint_eq(drain(out, ROOM), 1);
            expect_numbers(out, 1, 5);
        }
    }
}
END_TEST

START_TEST(spoilt_records_have_a_kind_there_is)
{
    static struct tdi_observation out[TDI_LAYOUT_STRIPES * ROOM];
    new_file();
    for (int round = 0; round < 20; round++) {
        unsigned char *bytes = (unsigned char *)&file->rings[PLACE];
        for (size_t i = 0; i < sizeof file->rings[PLACE]; i++)
            bytes[i] = round == 0 ? 0xff : (unsigned char)unit_random();
        for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++)
            atomic_fetch_add(&account->stripe[stripe].pushed, ROOM);
        size_t count = drain(out, sizeof out / sizeof out[0]);
        ck_assert_uint_eq(count, sizeof out / sizeof out[0]);
        for (size_t i = 0; i < count; i++)
            unit_expect(out[i].kind < TDI_KINDS, "kind %u", (unsigned)out[i].kind);
    }
}
END_TEST

/* ---- somebody comes between two instructions ---- */

#define NUMBERS 4096

#define PART 3 /* records that are drained in the time when somebody comes */

static struct {
    uint32_t stripe;
    uint64_t own;            /* number of the record that is pushed when somebody comes */
    uint64_t next;           /* of the next one */
    uint32_t times[NUMBERS]; /* each was handed out */
    uint64_t observed;
    struct tdi_observation out[PART];
    size_t count;
} scene;

/* The place as new_file makes it; the rest of the file is not touched here. */
static void set_scene(uint32_t stripe)
{
    memset((void *)account, 0, sizeof *account);
    ck_assert(tdi_ring_claim(account, 0, DRAINER, 1));
    memset(&scene, 0, sizeof scene);
    scene.stripe = stripe;
    scene.next = 1;
}

static void push_next(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        push(scene.stripe, scene.next++);
}

static void take_note(const struct tdi_observation *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_whole(&out[i]);
        unit_expect(out[i].at_us < scene.next, "record %" PRIu64 " was never pushed", out[i].at_us);
        unit_expect(scene.times[out[i].at_us]++ == 0, "record %" PRIu64 " was handed out twice",
                    out[i].at_us);
    }
    scene.observed += count;
}

static void expect_all_accounted_for(unsigned long at)
{
    struct tdi_observation out[ROOM];
    uint64_t seen_us, drainer = tdi_ring_drainer(account, &seen_us);
    for (size_t count; (count = tdi_ring_drain(file, PLACE, drainer, 9, out, ROOM)) > 0;)
        take_note(out, count);
    unit_expect(scene.observed + dropped(scene.stripe) == scene.next - 1,
                "after instruction %lu: %" PRIu64 " observed, %" PRIu64 " dropped, %" PRIu64 " pushed", at,
                scene.observed, dropped(scene.stripe), scene.next - 1);
}

static void act_push(void *unused)
{
    (void)unused;
    push(scene.stripe, scene.own);
}

static void act_drain(void *unused)
{
    (void)unused;
    scene.count = drain(scene.out, PART);
}

static void intrude_push(void *unused)
{
    (void)unused;
    push_next(3);
}

/* Takes over, drains all and leaves the ring in use. */
static void intrude_take_over(void *count)
{
    struct tdi_observation out[ROOM];
    (void)tdi_ring_claim(account, DRAINER, OTHER, 3);
    for (int round = 0; round < 3; round++) {
        take_note(out, tdi_ring_drain(file, PLACE, OTHER, 4, out, ROOM));
        push_next(*(const uint64_t *)count);
    }
}

/* A drain looks at the first stripe first: what comes after that is the same for the other ones. */
#define MOMENTS 400

static void try_everywhere(step_fn *act, step_fn *intrude, uint64_t before, void *context)
{
    uint32_t stripes = act == act_drain ? 1 : TDI_LAYOUT_STRIPES;
    new_file();
    for (uint32_t stripe = 0; stripe < stripes; stripe += TDI_STATS_SHARED) {
        bool in_time = true;
        for (unsigned long at = 1; in_time && at < MOMENTS; at++) {
            set_scene(stripe);
            push_next(before);
            scene.own = act == act_push ? scene.next++ : 0;
            in_time = step_intrude(act, intrude, context, at);
            take_note(scene.out, scene.count);
            expect_all_accounted_for(at);
        }
    }
}

START_TEST(a_handlers_push_at_any_moment_of_a_push_is_whole_or_dropped)
{
    try_everywhere(act_push, intrude_push, 2, NULL);
    try_everywhere(act_push, intrude_push, ROOM - 2, NULL);
}
END_TEST

START_TEST(a_push_at_any_moment_of_a_drain_is_whole)
{
    try_everywhere(act_drain, intrude_push, 10, NULL);
    try_everywhere(act_drain, intrude_push, ROOM - 2, NULL);
}
END_TEST

START_TEST(a_drain_at_any_moment_of_a_push_sees_whole_records)
{
    uint64_t none = 0;
    try_everywhere(act_push, intrude_take_over, 5, &none);
    try_everywhere(act_push, intrude_take_over, ROOM, &none);
}
END_TEST

/* The new drainer takes so many that the old one, going on, finds the ring to have gone round, or not. */
START_TEST(a_drainer_taken_over_at_any_moment_repeats_and_loses_nothing)
{
    static uint64_t counts[] = {0, PART, ROOM / 2, ROOM};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        try_everywhere(act_drain, intrude_take_over, 30, &counts[i]);
}
END_TEST

/* ---- threads ---- */

#define SHARING 3
#define PRODUCERS (TDI_STATS_SHARED + SHARING)
#define PUSHES 200000

static struct {
    _Atomic(uint32_t) ready;
    _Atomic(uint32_t) producing;
    _Atomic(uint32_t) last_seen[PRODUCERS]; /* number + 1 */
    _Atomic(uint64_t) observed[TDI_LAYOUT_STRIPES];
    _Atomic(unsigned char) times[PRODUCERS][PUSHES];
} crowd;

static uint32_t stripe_of(uint32_t producer)
{
    return producer < TDI_STATS_SHARED ? producer : TDI_STATS_SHARED;
}

static void *produce(void *argument)
{
    uint32_t producer = (uint32_t)(uintptr_t)argument;
    atomic_fetch_add(&crowd.ready, 1);
    while (atomic_load(&crowd.ready) < PRODUCERS)
        tdi_proc_yield();
    for (uint64_t i = 0; i < PUSHES; i++)
        push(stripe_of(producer), (uint64_t)producer << 40 | i);
    atomic_fetch_sub(&crowd.producing, 1);
    return NULL;
}

static void expect_once(const struct tdi_observation *got)
{
    uint64_t producer = got->at_us >> 40, number = got->at_us & UINT32_MAX;
    expect_whole(got);
    unit_expect(producer < PRODUCERS && number < PUSHES, "record %" PRIx64 " is invented", got->at_us);
    unit_expect(atomic_fetch_add(&crowd.times[producer][number], 1) == 0, "record %" PRIx64 " came twice",
                got->at_us);
    atomic_fetch_add(&crowd.observed[stripe_of((uint32_t)producer)], 1);
}

static void expect_in_order(const struct tdi_observation *got)
{
    uint64_t producer = got->at_us >> 40, number = got->at_us & UINT32_MAX;
    unit_expect(number + 1 > atomic_load(&crowd.last_seen[producer]), "record %" PRIx64 " is out of order",
                got->at_us);
    atomic_store(&crowd.last_seen[producer], (uint32_t)number + 1);
}

static void start_crowd(pthread_t thread[PRODUCERS])
{
    new_file();
    memset((void *)&crowd, 0, sizeof crowd);
    atomic_store(&crowd.producing, PRODUCERS);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, produce, (void *)i), 0);
}

static void expect_every_push_accounted_for(void)
{
    for (uint32_t stripe = 0; stripe < TDI_LAYOUT_STRIPES; stripe++) {
        uint64_t pushed = (stripe == TDI_STATS_SHARED ? SHARING : 1) * (uint64_t)PUSHES;
        uint64_t observed = atomic_load(&crowd.observed[stripe]);
        unit_expect(observed + dropped(stripe) == pushed,
                    "stripe %" PRIu32 ": %" PRIu64 " observed, %" PRIu64 " dropped of %" PRIu64, stripe,
                    observed, dropped(stripe), pushed);
        unit_expect(observed > 0, "stripe %" PRIu32 ": nothing was observed", stripe);
    }
}

START_TEST(many_producers_and_a_drainer_tear_lose_and_invent_nothing)
{
    static struct tdi_observation out[2 * ROOM];
    pthread_t thread[PRODUCERS];
    start_crowd(thread);
    for (bool last = false; !last;) {
        size_t count;
        last = atomic_load(&crowd.producing) == 0;
        while ((count = drain(out, unit_between(1, 2 * ROOM))) > 0)
            for (size_t i = 0; i < count; i++) {
                expect_once(&out[i]);
                expect_in_order(&out[i]);
            }
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(thread[i], NULL);
    expect_every_push_accounted_for();
}
END_TEST

/* Takes over from whoever is at it, which may be in the middle of it. */
static void *take_over_for_ever(void *argument)
{
    uint64_t self = (uint64_t)(uintptr_t)argument << 32 | 1, seen_us;
    struct tdi_observation out[ROOM];
    for (bool last = false; !last;) {
        size_t count;
        last = atomic_load(&crowd.producing) == 0;
        do {
            (void)tdi_ring_claim(account, tdi_ring_drainer(account, &seen_us), self, 5);
            count = tdi_ring_drain(file, PLACE, self, 6, out, ROOM);
            for (size_t i = 0; i < count; i++)
                expect_once(&out[i]);
        } while (count > 0);
    }
    return NULL;
}

START_TEST(drainers_that_take_over_from_each_other_get_each_record_once)
{
    pthread_t thread[PRODUCERS], drainer[2];
    struct tdi_observation out[ROOM];
    start_crowd(thread);
    for (uintptr_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&drainer[i], NULL, take_over_for_ever, (void *)(i + 1)), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(drainer[i], NULL);
    uint64_t seen_us, last = tdi_ring_drainer(account, &seen_us);
    for (size_t count; (count = tdi_ring_drain(file, PLACE, last, 7, out, ROOM)) > 0;)
        for (size_t i = 0; i < count; i++)
            expect_once(&out[i]);
    expect_every_push_accounted_for();
}
END_TEST

static Suite *ring(void)
{
    Suite *suite = suite_create("ring");
    TCase *order = unit_case(suite, "order");
    tcase_add_test(order, records_come_out_as_they_went_in);
    tcase_add_test(order, what_finds_no_room_is_dropped_and_counted);
    tcase_add_test(order, draining_in_parts_loses_and_repeats_nothing);
    tcase_add_test(order, a_push_within_a_push_is_dropped);
    TCase *drainers = unit_case(suite, "drainers");
    tcase_add_test(drainers, only_the_drainer_drains);
    tcase_add_test(drainers, who_leaves_disarms_but_not_for_another);
    tcase_add_test(drainers, a_new_owner_may_write_and_records_for_a_drainer_that_was_heard_of);
    TCase *hostile = unit_case(suite, "hostile");
    tcase_add_test(hostile, spoilt_positions_read_nothing_outside_the_ring);
    tcase_add_test(hostile, a_spoilt_ring_works_again_once_it_is_drained);
    tcase_add_test(hostile, spoilt_records_have_a_kind_there_is);
    TCase *moments = unit_case(suite, "moments");
    tcase_add_test(moments, a_handlers_push_at_any_moment_of_a_push_is_whole_or_dropped);
    tcase_add_test(moments, a_push_at_any_moment_of_a_drain_is_whole);
    tcase_add_test(moments, a_drain_at_any_moment_of_a_push_sees_whole_records);
    tcase_add_test(moments, a_drainer_taken_over_at_any_moment_repeats_and_loses_nothing);
    TCase *threads = unit_case(suite, "threads");
    tcase_add_test(threads, many_producers_and_a_drainer_tear_lose_and_invent_nothing);
    tcase_add_test(threads, drainers_that_take_over_from_each_other_get_each_record_once);
    return suite;
}

KIT_MAIN(ring)
