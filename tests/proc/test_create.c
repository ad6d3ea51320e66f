/* SPDX-License-Identifier: MIT */
/*
 * Creators race. Each one brings a configuration of its own that tells its maker by every number, so that a
 * mixture of two, or one half written, is noticed by whoever opens it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "proc/proc.h"

#define ROUNDS 200
#define ROUNDS_WITHOUT 50 /* where something is denied */
#define RACERS 8
#define CREATORS 4 /* the first ones; then as many openers-or-creators; then those who only open */
#define EITHERS 2

enum denied {
    NOTHING,
    NAMELESS_FILES,
    NAMELESS_FILES_AND_NOREPLACE
};

struct race {
    struct kit_barrier barrier;
    enum denied denied;
    unsigned rounds;
    atomic_int unable;
    _Atomic(uint64_t) start_ns;
    atomic_int result[RACERS]; /* of the racer's call */
    atomic_uint maker[RACERS]; /* whose configuration it saw */
};

static struct tundish_options options_of(unsigned racer)
{
    struct tundish_options options = proc_options(1000 + racer, 1 + racer, 3600 * UINT64_C(1000000) + racer);
    options.flags = racer % 2 ? TUNDISH_BYTES : 0;
    options.initial = 500 + racer;
    return options;
}

static unsigned maker_of(const struct tundish *bucket)
{
    struct tundish_info info = proc_info(bucket);
    unsigned maker = info.capacity - 1000;
    struct tundish_options options = options_of(maker);
    kit_expect(maker < RACERS && info.refill == options.refill && info.interval_us == options.interval_us &&
                   info.flags == options.flags,
               "capacity %u, refill %u, interval %llu, flags %u are nobody's", info.capacity, info.refill,
               (unsigned long long)info.interval_us, info.flags);
    kit_expect(info.available == options.initial, "%u tokens of %u's", info.available, maker);
    kit_expect(info.instances >= 1, "not even its maker is listed");
    return maker;
}

static int open_patiently(struct tundish **bucket, const char *name)
{
    uint64_t end_ns = kit_now_ns() + 20 * KIT_SECOND;
    int error;
    while ((error = tundish_open(bucket, name)) == -ENOENT)
        kit_expect(kit_now_ns() < end_ns, "nobody made the bucket");
    return error;
}

static int run_one(unsigned racer, const char *name, struct tundish **bucket)
{
    struct tundish_options options = options_of(racer);
    if (racer < CREATORS)
        return tundish_create(bucket, name, &options);
    if (racer < CREATORS + EITHERS)
        return tundish_open_or_create(bucket, name, &options);
    return open_patiently(bucket, name);
}

static int race_for_each_name(unsigned racer, void *shared)
{
    struct race *race = shared;
    char name[32];
    if (race->denied != NOTHING && !proc_deny_nameless_files(race->denied == NAMELESS_FILES_AND_NOREPLACE))
        atomic_store(&race->unable, 1);
    for (unsigned round = 0; round < race->rounds; round++) {
        struct tundish *bucket;
        snprintf(name, sizeof name, "race-%u", round);
        kit_barrier_wait(&race->barrier);
        uint64_t now_ns = kit_now_ns();
        if (now_ns < atomic_load(&race->start_ns))
            kit_sleep_ns(atomic_load(&race->start_ns) - now_ns);
        int error = run_one(racer, name, &bucket);
        atomic_store(&race->result[racer], error);
        if (error == 0)
            atomic_store(&race->maker[racer], maker_of(bucket));
        else
            kit_expect(bucket == NULL, "a handle in spite of %d", error);
        kit_barrier_wait(&race->barrier);
        tundish_close(bucket);
        kit_barrier_wait(&race->barrier);
    }
    return 0;
}

static void judge(struct race *race, unsigned round)
{
    unsigned created = 0;
    unsigned maker = atomic_load(&race->maker[RACERS - 1]);
    for (unsigned racer = 0; racer < RACERS; racer++) {
        int result = atomic_load(&race->result[racer]);
        created += racer < CREATORS && result == 0;
        kit_expect(result == 0 || (racer < CREATORS && result == -EEXIST), "round %u: racer %u got %s", round,
                   racer, tundish_strerror(result));
        kit_expect(result != 0 || atomic_load(&race->maker[racer]) == maker,
                   "round %u: racers saw the buckets of %u and %u", round, maker,
                   atomic_load(&race->maker[racer]));
    }
    kit_expect(created == (maker < CREATORS), "round %u: %u creators won, the bucket is of %u", round,
               created, maker);
    kit_expect(maker >= CREATORS || atomic_load(&race->result[maker]) == 0, "round %u: a loser's bucket",
               round);
    kit_expect(maker < CREATORS + EITHERS, "round %u: the bucket of an opener", round);
}

static void hold_races(enum denied denied)
{
    struct race *race = kit_shared_new(sizeof *race);
    char name[32];
    race->denied = denied;
    race->rounds = denied == NOTHING ? ROUNDS : ROUNDS_WITHOUT;
    kit_barrier_init(&race->barrier, RACERS + 1);
    struct kit_children *racers = kit_spawn(RACERS, race_for_each_name, race);
    for (unsigned round = 0; round < race->rounds; round++) {
        atomic_store(&race->start_ns, kit_now_ns() + KIT_MILLISECOND / 2);
        kit_barrier_wait(&race->barrier);
        kit_barrier_wait(&race->barrier);
        judge(race, round);
        ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 1);
        kit_barrier_wait(&race->barrier);
        snprintf(name, sizeof name, "race-%u", round);
        ck_assert_int_eq(tundish_unlink(name), 0);
    }
    kit_collect(racers, 30 * KIT_SECOND);
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 0);
    if (atomic_load(&race->unable))
        printf("no seccomp filters here: nameless files were used after all\n");
}

START_TEST(racing_creators_make_exactly_one_whole_bucket)
{
    hold_races(NOTHING);
}
END_TEST

START_TEST(they_do_so_where_there_are_no_nameless_files)
{
    hold_races(NAMELESS_FILES);
}
END_TEST

START_TEST(they_do_so_where_renaming_always_replaces)
{
    hold_races(NAMELESS_FILES_AND_NOREPLACE);
}
END_TEST

static _Noreturn void create_and_remove_for_ever(unsigned index)
{
    struct tundish_options options = options_of(index % RACERS);
    struct tundish *bucket;
    for (;;) {
        int error = tundish_create(&bucket, "contested", &options);
        kit_expect(error == 0 || error == -EEXIST, "%s", tundish_strerror(error));
        tundish_close(bucket);
        error = tundish_unlink("contested");
        kit_expect(error == 0 || error == -ENOENT, "%s", tundish_strerror(error));
    }
}

static int create_over_and_over(unsigned index, void *shared)
{
    (void)shared;
    create_and_remove_for_ever(index);
}

START_TEST(a_creator_killed_anywhere_leaves_a_whole_bucket_or_none)
{
    uint32_t random = 1;
    for (unsigned round = 0; round < 60; round++) {
        struct tundish *bucket;
        struct kit_children *creators = kit_spawn(1, create_over_and_over, NULL);
        kit_sleep_ns(KIT_MILLISECOND + proc_random(&random, 2000000));
        kit_child_kill(creators, 0);
        kit_collect(creators, 30 * KIT_SECOND);
        int error = tundish_open(&bucket, "contested");
        kit_expect(error == 0 || error == -ENOENT, "%s", tundish_strerror(error));
        ck_assert_uint_eq(proc_count_files(kit_tmpdir()), error == 0 ? 1 : 0);
        if (error == 0) {
            maker_of(bucket);
            tundish_close(bucket);
            ck_assert_int_eq(tundish_unlink("contested"), 0);
        }
    }
}
END_TEST

START_TEST(an_existing_file_is_never_touched_by_create)
{
    struct tundish_options options = options_of(0);
    struct tundish *bucket;
    struct stat before, after;
    const char *path = kit_tmpfile("foreign");
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("not yours", file);
    fclose(file);
    ck_assert_int_eq(stat(path, &before), 0);
    ck_assert_int_eq(tundish_create(&bucket, "foreign", &options), -EEXIST);
    ck_assert_ptr_null(bucket);
    ck_assert_int_eq(tundish_open_or_create(&bucket, "foreign", &options), -EPROTO);
    ck_assert_int_eq(tundish_unlink("foreign"), -EPROTO);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
    ck_assert_int_eq(before.st_size, after.st_size);
    ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    ck_assert_uint_eq(proc_count_files(kit_tmpdir()), 1);
}
END_TEST

static void ignore(int signal)
{
    (void)signal;
}

START_TEST(creating_and_opening_go_on_under_a_storm_of_signals)
{
    struct sigaction action = {.sa_handler = ignore};
    struct itimerval often = {{0, 60}, {0, 60}}, never = {{0, 0}, {0, 0}};
    struct tundish_options options = options_of(3);
    char memory[64];
    snprintf(memory, sizeof memory, "/dev/shm/tundish-test-storm-%ld", (long)getpid());
    const char *name[] = {"stormy", memory}; /* one on each of two file systems */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    int error = 0;
    uint64_t end_ns = kit_now_ns() + 8 * KIT_SECOND; /* the storm takes most of a busy machine's time */
    for (unsigned round = 0; round < 1000 && error == 0 && kit_now_ns() < end_ns; round++) {
        struct tundish *made, *opened = NULL;
        error = tundish_create(&made, name[round % 2], &options);
        if (error == 0)
            error = tundish_open(&opened, name[round % 2]);
        tundish_close(opened);
        tundish_close(made);
        unlink(name[round % 2]);
        tundish_unlink(name[round % 2]);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    unlink(memory);
    kit_expect(error == 0, "%s", tundish_strerror(error));
}
END_TEST

static Suite *create(void)
{
    Suite *suite = suite_create("create");
    TCase *races = kit_case(suite, "races");
    tcase_set_timeout(races, 60);
    tcase_add_test(races, racing_creators_make_exactly_one_whole_bucket);
    tcase_add_test(races, they_do_so_where_there_are_no_nameless_files);
    tcase_add_test(races, they_do_so_where_renaming_always_replaces);
    TCase *interrupted = kit_case(suite, "interrupted");
    tcase_set_timeout(interrupted, 30);
    tcase_add_test(interrupted, a_creator_killed_anywhere_leaves_a_whole_bucket_or_none);
    tcase_add_test(interrupted, an_existing_file_is_never_touched_by_create);
    tcase_add_test(interrupted, creating_and_opening_go_on_under_a_storm_of_signals);
    return suite;
}

KIT_MAIN(create)
