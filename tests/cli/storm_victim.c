/* SPDX-License-Identifier: MIT */
/*
 * A process to be killed at any instruction while it is observed. Usage: storm_victim BUCKET WAY, which is one of
 *   opens      opens and closes the bucket all the time
 *   keeps      takes a token and has the bucket open
 *   takes      three threads take tokens, and wait for them
 *   leases     the same with a sidecar of its own that has them lease
 *   registers  comes and goes at its own sidecar all the time
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tundish/tundish.h>
#include <unistd.h>

#define THREADS 3

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

static int open_for_ever(const char *name)
{
    for (;;) {
        tundish_try_acquire(bucket, 1);
        tundish_close(bucket);
        if (tundish_open(&bucket, name) != 0)
            return 1;
    }
}

static void register_for_ever(const struct tundish_sidecar_policy *policy)
{
    for (;;) {
        tundish_sidecar_register(bucket, policy);
        tundish_try_acquire(bucket, 1);
        tundish_sidecar_unregister(bucket);
    }
}

int main(int argc, char **argv)
{
    struct tundish_sidecar_policy policy = TUNDISH_SIDECAR_POLICY_INIT;
    pthread_t thread;
    if (argc != 3 || tundish_open(&bucket, argv[1]) != 0)
        return 1;
    if (strcmp(argv[2], "opens") == 0)
        return open_for_ever(argv[1]);
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
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
