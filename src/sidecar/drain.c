/* SPDX-License-Identifier: MIT */
/* See drain.h. An instance that another drainer attends, which lives, is left to that one. */
#include "sidecar/drain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define RECORDS_MAX 256 /* taken out at a time */

struct tdi_drain_bucket {
    char *name;
    char *label;
    struct tundish *bucket;
    uint64_t size; /* of the file: one that was cut short is not touched any more */
    bool seen;
};

void tdi_drain_init(struct tdi_drain *drain)
{
    tdi_drainer_init(&drain->drainer);
}

/* ---- records ---- */

static double now_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void hand_over(const struct tdi_drain *drain, const struct tdi_drain_bucket *watched,
                      const struct tdi_identity *who, const struct tdi_observation *records, size_t count)
{
    /* The date now, less the time that the bucket says has gone by. */
    double born_s = now_s(CLOCK_REALTIME) - tdi_observe_age_s(watched->bucket);
    for (size_t i = 0; i < count; i++) {
        struct tdi_drain_record record = {
            .label = watched->label,
            .program = records[i].process == who->pid ? who->program : "",
            .at_s = born_s + (double)records[i].at_us / 1e6,
            .observation = records[i],
        };
        drain->record(&record, drain->context);
    }
}

/* What is in an instance's rings; it is attended. */
static size_t take_out(struct tdi_drain *drain, struct tdi_drain_bucket *watched, uint32_t index)
{
    struct tdi_observation records[RECORDS_MAX];
    struct tdi_identity who;
    size_t count, all = 0;
    if (!tdi_observe_owner(watched->bucket, index, &who))
        memset(&who, 0, sizeof who);
    do {
        count = tdi_drainer_drain(&drain->drainer, watched->bucket, index, records, RECORDS_MAX);
        hand_over(drain, watched, &who, records, count);
        all += count;
    } while (count == RECORDS_MAX && all < TDI_LAYOUT_STRIPES * TDI_LAYOUT_OBSERVATIONS);
    return all;
}

static size_t drain_bucket(struct tdi_drain *drain, struct tdi_drain_bucket *watched, uint32_t every)
{
    size_t all = 0;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_drainer_attend(&drain->drainer, watched->bucket, i, every) == 0)
            all += take_out(drain, watched, i);
    return all;
}

/* First nothing more goes in, then what is in is taken out: nothing stays behind. */
static void let_go(struct tdi_drain *drain, struct tdi_drain_bucket *watched)
{
    if (drain->every == 0)
        return;
    drain_bucket(drain, watched, 0);
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        tdi_drainer_leave(&drain->drainer, watched->bucket, i);
}

/* ---- which buckets ---- */

static void free_bucket(struct tdi_drain_bucket *watched)
{
    tundish_close(watched->bucket);
    free(watched->name);
    free(watched->label);
    free(watched);
}

void tdi_drain_begin(struct tdi_drain *drain)
{
    for (size_t i = 0; i < drain->count; i++)
        drain->bucket[i]->seen = false;
}

static void drop(struct tdi_drain *drain, struct tdi_drain_bucket *watched)
{
    size_t i = 0;
    while (drain->bucket[i] != watched)
        i++;
    drain->bucket[i] = drain->bucket[--drain->count];
    free_bucket(watched);
}

static struct tdi_drain_bucket *find(const struct tdi_drain *drain, const char *name)
{
    for (size_t i = 0; i < drain->count; i++)
        if (strcmp(drain->bucket[i]->name, name) == 0)
            return drain->bucket[i];
    return NULL;
}

/* Whether the name still is the file that is mapped, in one piece. */
static int look_at_file(const char *name, struct stat *st)
{
    char path[4096];
    int error = tundish_path(name, path, sizeof path);
    if (error)
        return error;
    return lstat(path, st) == 0 ? 0 : -errno;
}

static int add(struct tdi_drain *drain, const char *name, const char *label, uint64_t size)
{
    size_t bytes = (drain->count + 1) * sizeof(struct tdi_drain_bucket *);
    struct tdi_drain_bucket **grown = realloc(drain->bucket, bytes);
    if (!grown)
        return -ENOMEM;
    drain->bucket = grown;
    struct tdi_drain_bucket *watched = calloc(1, sizeof *watched);
    if (!watched)
        return -ENOMEM;
    int error = tdi_observe_open(&watched->bucket, name);
    watched->name = strdup(name);
    watched->label = strdup(label);
    watched->seen = true;
    watched->size = size;
    if (!error && (!watched->name || !watched->label))
        error = -ENOMEM;
    if (error)
        free_bucket(watched);
    else
        drain->bucket[drain->count++] = watched;
    return error;
}

int tdi_drain_see(struct tdi_drain *drain, const char *name, const char *label)
{
    struct stat st;
    struct tdi_drain_bucket *watched = find(drain, name);
    int error = look_at_file(name, &st);
    if (error)
        return error;
    bool is_it = watched && tdi_observe_is_file(watched->bucket, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    if (is_it && (uint64_t)st.st_size == watched->size) {
        watched->seen = true;
        return 0;
    }
    if (watched && !is_it)
        let_go(drain, watched);
    if (watched)
        drop(drain, watched);
    return add(drain, name, label, (uint64_t)st.st_size);
}

void tdi_drain_end(struct tdi_drain *drain)
{
    size_t kept = 0;
    for (size_t i = 0; i < drain->count; i++) {
        struct tdi_drain_bucket *watched = drain->bucket[i];
        if (watched->seen) {
            drain->bucket[kept++] = watched;
            continue;
        }
        let_go(drain, watched); /* processes may have it open still: they are not to record for nobody */
        free_bucket(watched);
    }
    drain->count = kept;
}

void tdi_drain_free(struct tdi_drain *drain)
{
    for (size_t i = 0; i < drain->count; i++) {
        let_go(drain, drain->bucket[i]);
        free_bucket(drain->bucket[i]);
    }
    free(drain->bucket);
    drain->bucket = NULL;
    drain->count = 0;
}

/* ---- what is done to them ---- */

size_t tdi_drain_scan(struct tdi_drain *drain)
{
    size_t all = 0;
    for (size_t i = 0; drain->every != 0 && i < drain->count; i++)
        all += drain_bucket(drain, drain->bucket[i], drain->every);
    return all;
}

void tdi_drain_bury(struct tdi_drain *drain)
{
    for (size_t i = 0; i < drain->count; i++) {
        struct tundish *bucket = drain->bucket[i]->bucket;
        for (uint32_t index = 0; drain->every == 0 && index < TDI_LAYOUT_INSTANCES; index++)
            tdi_drainer_relieve(&drain->drainer, bucket, index);
        tdi_observe_bury(bucket);
    }
}
