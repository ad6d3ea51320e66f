/* SPDX-License-Identifier: MIT */
/*
 * A process to be killed at any instruction while it is observed. Usage: storm_victim BUCKET WAY [N], which is one of
 *   opens      opens and closes the bucket all the time
 *   keeps      takes a token and has the bucket open
 *   takes      three threads take tokens, and wait for them
 *   leases     the same with a sidecar of its own that has them lease
 *   returns    takes five tokens, gives three of them back and ends
 *   crowds     opens the bucket until 70 have it open, itself included, and keeps it open
 *   registers  comes and goes at its own sidecar all the time
 *   reckons    opens and closes the bucket all the time, and each time compares what is said of it with what it did:
 *              it ends if that differs. "reckons N" does so N times
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tundish/tundish.h>
#include <unistd.h>

#define THREADS 3
#define CROWD 70

static struct tundish *bucket;

static int lease_always(struct tundish *unused, const struct tundish_sidecar_stats *stats, void *context)
{
    (void)unused, (void)stats, (void)context;
    return TUNDISH_LEASED;
}

static void *take_for_ever(void *unused)
{
    (void)unused;
    for (;;) {
        tundish_try_acquire(bucket, 1);
        tundish_acquire_for(bucket, 1, 1000000);
    }
    return NULL;
}

static int keep_open(void)
{
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}

static int open_for_ever(const char *name)
{
    for (;;) {
        tundish_try_acquire(bucket, 1);
        tundish_close(bucket);
        if (tundish_open(&bucket, name) != 0)
            return 1;
    }
}

static int take_and_return(void)
{
    int error = tundish_try_acquire(bucket, 5);
    tundish_release(bucket, 3);
    tundish_close(bucket);
    return error != 0;
}

static int keep_many_open(const char *name)
{
    struct tundish *other;
    for (int i = 1; i < CROWD; i++)
        if (tundish_open(&other, name) != 0)
            return 1;
    return keep_open();
}

static void register_for_ever(const struct tundish_sidecar_policy *policy)
{
    for (;;) {
        tundish_sidecar_register(bucket, policy);
        tundish_try_acquire(bucket, 1);
        tundish_sidecar_unregister(bucket);
    }
}

/* Whether the file says of this handle what it did: nobody who was killed in its place has left anything. */
static bool is_counted(unsigned takes)
{
    struct tundish_sidecar_stats stats = TUNDISH_SIDECAR_STATS_INIT;
    unsigned refused = 0;
    for (unsigned i = 0; i < takes; i++)
        refused += tundish_try_acquire(bucket, 2) != 0;
    tundish_try_acquire(bucket, UINT32_MAX);
    if (tundish_sidecar_register(bucket, NULL) != 0 || tundish_sidecar_stats(bucket, &stats) != 0)
        return false;
    return stats.granted == takes - refused && stats.refused == refused + 1 &&
           stats.tokens == 2 * stats.granted && stats.ended == 0;
}

static int reckon(const char *name, long times)
{
    for (long i = 0; i != times; i++) {
        bool right = is_counted((unsigned)i % 50);
        tundish_close(bucket);
        if (!right || tundish_open(&bucket, name) != 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tundish_sidecar_policy policy = TUNDISH_SIDECAR_POLICY_INIT;
    pthread_t thread;
    if (argc < 3 || tundish_open(&bucket, argv[1]) != 0)
        return 1;
    if (strcmp(argv[2], "opens") == 0)
        return open_for_ever(argv[1]);
    if (strcmp(argv[2], "reckons") == 0)
        return reckon(argv[1], argc > 3 ? strtol(argv[3], NULL, 10) : -1);
    if (strcmp(argv[2], "returns") == 0)
        return take_and_return();
    if (strcmp(argv[2], "crowds") == 0)
        return keep_many_open(argv[1]);
    policy.every = 1;
    if (strcmp(argv[2], "registers") == 0)
        register_for_ever(&policy);
    policy.decide = lease_always;
    if (strcmp(argv[2], "leases") == 0)
        tundish_sidecar_register(bucket, &policy);
    int threads = strcmp(argv[2], "keeps") == 0 ? 0 : THREADS;
    tundish_try_acquire(bucket, 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, take_for_ever, NULL) != 0)
            return 1;
    return keep_open();
}
