/* SPDX-License-Identifier: MIT */
/*
 * Processes that kill themselves at each marked point of the line while others wait in it. The rooms are built
 * once more for this with TUNDISH_CRASH_POINTS.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <tundish/tundish.h>
#include <unistd.h>

#include "core/word.h"
#include "kit/kit.h"
#include "lib/handle.h"
#include "plat/crash.h"
#include "proc/proc.h"

#define SURVIVORS 6
#define VICTIMS 6
#define CAPACITY 100
#define RATE 1000
#define PATIENCE_NS (30 * KIT_SECOND)

struct stage {
    struct tundish *bucket;
    int point;
    _Atomic(int) armed;
    _Atomic(int) over;
    _Atomic(uint64_t) granted;
    _Atomic(uint64_t) grants[SURVIVORS];
    _Atomic(uint64_t) longest_ns;
};

/* Of this process only: the point it dies at, and chance. */
static struct stage *victim_stage;
static uint32_t victim_random;

void tdi_crash_here(enum tdi_crash_point point)
{
    if (!victim_stage || !atomic_load(&victim_stage->armed) || victim_stage->point != (int)point)
        return;
    if (point == TDI_CRASH_CLIMBED || proc_random(&victim_random, 3) == 0)
        raise(SIGKILL);
}

static int survive(unsigned index, void *shared)
{
    struct stage *stage = shared;
    while (!atomic_load(&stage->over)) {
        uint64_t start_ns = kit_now_ns();
        int error = tundish_acquire_for(stage->bucket, 1, 10 * KIT_SECOND);
        kit_expect(error == 0, "survivor %u: %s", index, tundish_strerror(error));
        uint64_t took_ns = kit_now_ns() - start_ns;
        atomic_fetch_add(&stage->granted, 1);
        atomic_fetch_add(&stage->grants[index], 1);
        uint64_t longest_ns = atomic_load(&stage->longest_ns);
        while (took_ns > longest_ns &&
               !atomic_compare_exchange_weak(&stage->longest_ns, &longest_ns, took_ns))
            ;
    }
    return 0;
}

/* Asks for one token, for all, and for more than there is room for, with and without patience. */
static int perish(unsigned index, void *shared)
{
    struct stage *stage = shared;
    const uint32_t needs[] = {1, CAPACITY / 2, CAPACITY, 3 * CAPACITY};
    victim_stage = stage;
    victim_random = 1 + 77 * index + (uint32_t)stage->point;
    for (;;) {
        uint32_t n = needs[proc_random(&victim_random, PROC_LEN(needs))];
        int error = n < CAPACITY / 2 ? tundish_acquire(stage->bucket, n)
                                     : tundish_acquire_for(stage->bucket, n, 20 * KIT_MILLISECOND);
        kit_expect(error == 0 || error == -ETIMEDOUT, "%s", tundish_strerror(error));
        if (error == 0)
            atomic_fetch_add(&stage->granted, n);
    }
}

/* Until as many as are due are granted in a third of a second; the machine may be busy with other things. */
static void expect_full_rate_within(struct stage *stage, uint64_t limit_ns)
{
    uint64_t end_ns = kit_now_ns() + limit_ns;
    for (;;) {
        uint64_t before = atomic_load(&stage->granted), start_ns = kit_now_ns();
        kit_sleep_ns(330 * KIT_MILLISECOND);
        uint64_t due = (kit_now_ns() - start_ns) * RATE / KIT_SECOND;
        uint64_t got = atomic_load(&stage->granted) - before;
        if (got >= due * 85 / 100)
            return;
        kit_expect(kit_now_ns() < end_ns, "point %d: still only %llu of %llu tokens", stage->point,
                   (unsigned long long)got, (unsigned long long)due);
    }
}

/* The word itself: what was generated until its stamp is all that was ever granted, and what is there. */
static void expect_nothing_minted(const struct stage *stage)
{
    struct tdi_config config;
    const struct tdi_layout *file = stage->bucket->file;
    tdi_config_read(file, &config);
    struct tdi_word word = tdi_word_look(file);
    uint64_t granted = atomic_load(&stage->granted);
    uint64_t generated = tdi_rate_due(&config, 0, word.last_us);
    kit_expect(granted + (word.bits & TDI_WORD_TOKENS) <= generated,
               "point %d: %llu granted and %llu left of %llu", stage->point, (unsigned long long)granted,
               (unsigned long long)(word.bits & TDI_WORD_TOKENS), (unsigned long long)generated);
}

static void expect_in_turn(struct stage *stage)
{
    /* One token each in turn: over a second nobody gets ahead by more than the fast path lets it. */
    for (int attempt = 0;; attempt++) {
        uint64_t before[SURVIVORS], least = UINT64_MAX, most = 0;
        for (unsigned i = 0; i < SURVIVORS; i++)
            before[i] = atomic_load(&stage->grants[i]);
        kit_sleep_ns(500 * KIT_MILLISECOND);
        for (unsigned i = 0; i < SURVIVORS; i++) {
            uint64_t got = atomic_load(&stage->grants[i]) - before[i];
            least = got < least ? got : least;
            most = got > most ? got : most;
        }
        if (least > 0 && least * 10 >= most * 7)
            return;
        kit_expect(attempt < 4, "point %d: survivors got between %llu and %llu", stage->point,
                   (unsigned long long)least, (unsigned long long)most);
    }
}

static void kill_victims(struct stage *stage, unsigned count)
{
    struct kit_children *victims = kit_spawn(count, perish, stage);
    kit_sleep_ns(stage->point == TDI_CRASH_CLIMBED ? 0 : 50 * KIT_MILLISECOND);
    atomic_store(&stage->armed, 1);
    uint64_t end_ns = kit_now_ns() + PATIENCE_NS;
    for (unsigned i = 0; i < count; i++)
        while (!kit_child_ended(victims, i)) {
            kit_expect(kit_now_ns() < end_ns, "point %d was not reached by victim %u", stage->point, i);
            kit_sleep_ns(KIT_MILLISECOND);
        }
    kit_expect(kit_collect_failures(victims, KIT_SECOND) == count, "all were to be killed");
}

START_TEST(a_death_at_any_point_of_the_line_is_got_over)
{
    struct tundish_options options = proc_options(CAPACITY, RATE, 1000000);
    struct stage *stage = kit_shared_new(sizeof *stage);
    options.initial = 0;
    stage->bucket = proc_create_private(&options);
    stage->point = _i;
    atomic_store(&stage->armed, _i == TDI_CRASH_CLIMBED);
    /* One point is for a bucket that nobody came by for long: who comes first has to die. */
    bool climbs = _i == TDI_CRASH_CLIMBED;
    if (climbs)
        stage->bucket->shift_us += INT64_C(40) << 30;
    if (climbs)
        kill_victims(stage, 1);
    struct kit_children *survivors = kit_spawn(SURVIVORS, survive, stage);
    kit_sleep_ns(50 * KIT_MILLISECOND);
    if (!climbs)
        kill_victims(stage, VICTIMS);
    expect_full_rate_within(stage, 3 * KIT_SECOND);
    expect_in_turn(stage);
    atomic_store(&stage->over, 1);
    kit_collect(survivors, 10 * KIT_SECOND);
    expect_nothing_minted(stage);
    kit_expect(atomic_load(&stage->longest_ns) < 3 * KIT_SECOND, "somebody waited for %llu ms",
               (unsigned long long)(atomic_load(&stage->longest_ns) / KIT_MILLISECOND));
    printf("point %2d: longest wait %llu ms\n", _i,
           (unsigned long long)(atomic_load(&stage->longest_ns) / KIT_MILLISECOND));
    struct tundish_info info = proc_info(stage->bucket);
    kit_expect(info.waiting <= VICTIMS, "%u in line", info.waiting);
    /* Who is refused clears the rest away. */
    kit_expect(tundish_try_acquire(stage->bucket, CAPACITY) != -E2BIG, "capacity");
    kit_sleep_ns(50 * KIT_MILLISECOND);
    while (tundish_try_acquire(stage->bucket, 1) == 0)
        ;
    info = proc_info(stage->bucket);
    kit_expect(info.waiting == 0, "%u dead ones are still in line", info.waiting);
    tundish_close(stage->bucket);
}
END_TEST

static Suite *crash(void)
{
    Suite *suite = suite_create("crash");
    TCase *points = kit_case(suite, "points");
    tcase_add_loop_test(points, a_death_at_any_point_of_the_line_is_got_over, 0, TDI_CRASH_POINTS);
    return suite;
}

KIT_MAIN(crash)
