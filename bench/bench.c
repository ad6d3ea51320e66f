/* SPDX-License-Identifier: MIT */
/* See bench.h. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_NS UINT64_C(1500000) /* longer than the library's clock needs to find its rate */
#define BATCH 1024
#define REPLAYS 3 /* none where few rounds are asked for: somebody only wants to see it run */
#define FEW_ROUNDS 3
#define DISTURBED 0.02 /* of a round's time without a processor */

/* One round of one contestant, in memory that forked workers share. */
struct round {
    const struct bench_contestant *contestant;
    unsigned workers;
    uint64_t round_ns;
    _Atomic(unsigned) arrived;
    _Atomic(uint64_t) start_ns; /* 0 until all have arrived */
    struct {
        double ns;    /* per operation */
        double aside; /* part of the time without a processor */
    } worker[BENCH_WORKERS];
};

struct seat {
    struct round *round;
    unsigned number;
};

void bench_fail(const char *what, int error)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(-error));
    exit(1);
}

uint64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The processors at the start: pinning narrows what the kernel answers later. */
static const cpu_set_t *allowed(void)
{
    static cpu_set_t set;
    static bool asked;
    if (!asked && sched_getaffinity(0, sizeof set, &set) != 0)
        bench_fail("sched_getaffinity", -errno);
    asked = true;
    return &set;
}

unsigned bench_processors(void)
{
    return (unsigned)CPU_COUNT(allowed());
}

void bench_pin(unsigned which)
{
    cpu_set_t one;
    which %= bench_processors();
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed()) || which-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one); /* without it the figures are only rougher */
        return;
    }
}

uint64_t bench_not_running_ns(void)
{
    char text[96];
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) : 0;
}

/* ---- the head ---- */

static void print_field_of(const char *path, const char *field, const char *otherwise)
{
    char line[256];
    FILE *file = fopen(path, "re");
    const char *found = NULL;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, field, strlen(field)) == 0)
            found = line + strlen(field) + strspn(line + strlen(field), "\t :");
    }
    fputs(found ? found : otherwise, stdout);
    if (file)
        fclose(file);
}

static void print_head(void)
{
    struct utsname system;
    char date[32];
    time_t now = time(NULL);
    struct tm local;
    double load = 0;
    uname(&system);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M %Z", localtime_r(&now, &local));
    (void)getloadavg(&load, 1);
    printf("machine   ");
    print_field_of("/proc/cpuinfo", "model name", system.machine);
    printf(", %u processors, load %.1f, %s\n", bench_processors(), load, date);
    printf("system    %s %s, glibc %s, clocksource ", system.sysname, system.release, gnu_get_libc_version());
    print_field_of("/sys/devices/system/clocksource/clocksource0/current_clocksource", "", "unknown");
    printf("\ncompiler  %s\n", BENCH_COMPILER);
}

static double parse_seconds(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    if (*text && !*end && seconds > 0 && seconds <= 86400)
        return seconds;
    fprintf(stderr, "bench: '%s' is no number of seconds\n", text);
    exit(64);
}

const char *bench_take_file(int *argc, char **argv, const char *option)
{
    for (int i = 1; i + 1 < *argc; i++) {
        if (strcmp(argv[i], option) != 0)
            continue;
        const char *file = argv[i + 1];
        memmove(&argv[i], &argv[i + 2], (size_t)(*argc - i - 1) * sizeof *argv);
        *argc -= 2;
        return access(file, R_OK) == 0 ? file : NULL;
    }
    return NULL;
}

double bench_start(int argc, char **argv, double seconds)
{
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 's'}, {"no-head", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0}};
    const char *asked = getenv("BENCH_SECONDS");
    bool head = true;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's')
            asked = optarg;
        else if (option == 'n')
            head = false;
        else
            exit(64);
    }
    (void)allowed();
    if (head)
        print_head();
    fflush(stdout);
    return asked && *asked ? parse_seconds(asked) : seconds;
}

/* ---- series ---- */

void bench_add(struct bench_series *series, double value)
{
    if (series->count < BENCH_ROUNDS_MAX)
        series->value[series->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(const struct bench_series *series, double percent)
{
    struct bench_series sorted = *series;
    if (sorted.count == 0)
        return 0;
    qsort(sorted.value, sorted.count, sizeof *sorted.value, compare);
    double place = percent / 100 * (double)(sorted.count - 1);
    size_t below = (size_t)place;
    size_t above = below + 1 < sorted.count ? below + 1 : below;
    return sorted.value[below] + (place - (double)below) * (sorted.value[above] - sorted.value[below]);
}

double bench_median(const struct bench_series *series)
{
    return bench_percentile(series, 50);
}

struct bench_series bench_ratio(const struct bench_series *above, const struct bench_series *below)
{
    struct bench_series ratio = {.count = 0};
    for (size_t i = 0; i < above->count && i < below->count; i++)
        bench_add(&ratio, above->value[i] / below->value[i]);
    return ratio;
}

struct bench_series bench_difference(const struct bench_series *a, const struct bench_series *b)
{
    struct bench_series difference = {.count = 0};
    for (size_t i = 0; i < a->count && i < b->count; i++)
        bench_add(&difference, a->value[i] - b->value[i]);
    return difference;
}

/* ---- rounds ---- */

static void await_all(struct round *round)
{
    if (atomic_fetch_add(&round->arrived, 1) + 1 == round->workers)
        atomic_store(&round->start_ns, bench_now_ns() + WARM_NS);
    while (atomic_load(&round->start_ns) == 0)
        sched_yield();
}

static void work(struct round *round, unsigned number)
{
    const struct bench_contestant *c = round->contestant;
    bench_pin(number);
    await_all(round);
    uint64_t begin = atomic_load(&round->start_ns);
    uint64_t now, operations = 0;
    do
        c->batch(c->context, BATCH);
    while (bench_now_ns() < begin);

    uint64_t aside = bench_not_running_ns();
    begin = bench_now_ns();
    do {
        c->batch(c->context, BATCH);
        operations += BATCH;
        now = bench_now_ns();
    } while (now - begin < round->round_ns);
    aside = bench_not_running_ns() - aside;

    double spent = (double)(now - begin);
    double lost = (double)aside < spent ? (double)aside : 0;
    round->worker[number].ns = (spent - lost) / (double)operations;
    round->worker[number].aside = lost / spent;
}

static void *work_in_thread(void *argument)
{
    const struct seat *seat = argument;
    work(seat->round, seat->number);
    return NULL;
}

static void play_in_threads(struct round *round)
{
    pthread_t thread[BENCH_WORKERS];
    struct seat seat[BENCH_WORKERS];
    for (unsigned i = 0; i < round->workers; i++) {
        seat[i] = (struct seat){round, i};
        int error = pthread_create(&thread[i], NULL, work_in_thread, &seat[i]);
        if (error)
            bench_fail("pthread_create", -error);
    }
    for (unsigned i = 0; i < round->workers; i++)
        pthread_join(thread[i], NULL);
}

static void play_in_processes(struct round *round)
{
    for (unsigned i = 0; i < round->workers; i++) {
        pid_t child = fork();
        if (child < 0)
            bench_fail("fork", -errno);
        if (child == 0) {
            work(round, i);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < round->workers; i++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            bench_fail("a worker", -ECHILD);
    }
}

/* Plays once; false if a worker had to stand aside. */
static bool play_round(struct round *round, enum bench_team team, double *ns)
{
    atomic_store(&round->arrived, 0);
    atomic_store(&round->start_ns, 0);
    if (team == BENCH_TWO_PROCESSES)
        play_in_processes(round);
    else
        play_in_threads(round);
    double sum = 0, aside = 0;
    for (unsigned i = 0; i < round->workers; i++) {
        sum += round->worker[i].ns;
        aside = round->worker[i].aside > aside ? round->worker[i].aside : aside;
    }
    *ns = sum / round->workers;
    return aside <= DISTURBED;
}

size_t bench_play(struct bench_contestant *contestants, size_t count, enum bench_team team, size_t rounds,
                  uint64_t round_ns)
{
    size_t disturbed = 0;
    const int replays_max = rounds > FEW_ROUNDS ? REPLAYS : 0;
    struct round *round =
        mmap(NULL, sizeof *round, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (round == MAP_FAILED)
        bench_fail("mmap", -errno);
    round->workers = team == BENCH_ONE_THREAD ? 1 : BENCH_WORKERS;
    round->round_ns = round_ns;
    fflush(stdout); /* forked workers would print it again */
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < count; i++) {
            struct bench_contestant *c = &contestants[(r + i) % count];
            double ns;
            int replays = 0;
            round->contestant = c;
            while (!play_round(round, team, &ns) && ++replays <= replays_max)
                ;
            disturbed += replays > replays_max;
            bench_add(&c->ns, ns);
        }
    }
    munmap(round, sizeof *round);
    return disturbed;
}
