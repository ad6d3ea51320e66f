/* SPDX-License-Identifier: MIT */
/*
 * tundish stat: what happens in a bucket, one line per interval. Each line is of the time that really went by,
 * and intervals start from the first one, so that being late once makes no later line late.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/observed.h"

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

enum {
    HEADER_EVERY = 20, /* lines of a terminal */
};

#define INTERVAL_NS_MIN UINT64_C(10000000)

struct watched {
    const struct tundish *bucket;
    const char *name;
    const char *path;
    uint64_t size; /* of the file: one that was cut short is not touched any more */
};

struct plan {
    uint64_t interval_ns;
    uint32_t count; /* lines, 0 without end */
};

/* What is known at the end of an interval, and at its start. */
struct reading {
    uint64_t at_ns;
    struct tundish_info info;
    struct tdi_stats total;
};

/* Like the deadlines: a machine that was suspended was not busy, and the line says so. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * CLI_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {(time_t)(at_ns / CLI_NS_PER_S), (long)(at_ns % CLI_NS_PER_S)};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static void take_reading(const struct tundish *bucket, struct reading *out)
{
    out->info = (struct tundish_info)TUNDISH_INFO_INIT;
    tundish_info(bucket, &out->info); /* its size is right, so it cannot fail */
    out->at_ns = now_ns();
    tdi_observe_total(bucket, &out->total);
}

/* Whether the name still is all of this bucket; if not, that is said. What cannot be told is taken to be so. */
static bool is_there(const struct watched *watched)
{
    struct stat facts;
    if (stat(watched->path, &facts) != 0) {
        if (errno == ENOENT)
            cli_say(watched->name, "was removed");
        return errno != ENOENT;
    }
    bool same = tdi_observe_is_file(watched->bucket, facts.st_dev, facts.st_ino);
    if (same && (uint64_t)facts.st_size >= watched->size)
        return true;
    cli_say(watched->name, same ? "was cut short" : "is another bucket now");
    return false;
}

/* Counts only grow; one that seems to have shrunk was scribbled on. */
static double per_second(uint64_t count, uint64_t span_ns)
{
    return count <= INT64_MAX && span_ns ? (double)count * (double)CLI_NS_PER_S / (double)span_ns : 0;
}

/* Granted and not given back: tokens of an earlier interval may be back. */
static uint64_t net_tokens(const struct tdi_stats *done)
{
    uint64_t taken = tdi_stats_all(done, TDI_COUNT_TOKENS), back = done->sum[TDI_SUM_RELEASED];
    if (back > INT64_MAX)
        return taken;
    return taken > back ? taken - back : 0;
}

static void format_wait(char text[32], const uint64_t waits[TDI_LAYOUT_WAITS], double share)
{
    uint64_t ns = tdi_stats_wait_quantile_ns(waits, share);
    if (ns == 0)
        snprintf(text, 32, "-");
    else
        snprintf(text, 32, "%.3f", (double)ns / 1e6);
}

static void format_time(char text[16])
{
    time_t now = time(NULL);
    struct tm parts;
    if (!localtime_r(&now, &parts) || strftime(text, 16, "%H:%M:%S", &parts) == 0)
        text[0] = '\0';
}

static void print_header(void)
{
    printf("%-8s %12s %12s %12s %10s %7s %10s %10s %10s\n", "TIME", "TOKENS/S", "OPS/S", "REFUSED/S",
           "TOKENS", "WAITING", "P50 MS", "P99 MS", "RETRIES/S");
}

static void print_line(const struct reading *before, const struct reading *now)
{
    char time[16], p50[32], p99[32];
    struct tdi_stats done = now->total;
    uint64_t span_ns = now->at_ns - before->at_ns;
    tdi_stats_subtract(&done, &before->total);
    uint64_t refused = tdi_stats_all(&done, TDI_COUNT_REFUSED);
    uint64_t all = tdi_stats_all(&done, TDI_COUNT_GRANTED) + refused + tdi_stats_all(&done, TDI_COUNT_ENDED);
    format_time(time);
    format_wait(p50, done.waits, 0.5);
    format_wait(p99, done.waits, 0.99);
    printf("%-8s %12.1f %12.1f %12.1f %10" PRIu32 " %7" PRIu32 " %10s %10s %10.1f\n", time,
           per_second(net_tokens(&done), span_ns), per_second(all, span_ns), per_second(refused, span_ns),
           now->info.available, now->info.waiting, p50, p99, per_second(done.sum[TDI_SUM_RETRIES], span_ns));
}

enum outcome {
    GO_ON,
    READER_LEFT,
    LOST,
};

/* A reader that has left has seen enough, and nothing is to be said of it. */
static enum outcome flush_line(void)
{
    if (fflush(stdout) == 0)
        return GO_ON;
    int error = errno;
    __fpurge(stdout); /* the program does not try again, nor complain again, when it ends */
    clearerr(stdout);
    if (error == EPIPE)
        return READER_LEFT;
    cli_say("standard output", "%s", strerror(error));
    return LOST;
}

/* The end of the next interval; those that were slept through are left out. */
static uint64_t next_end(uint64_t end_ns, uint64_t interval_ns)
{
    uint64_t late_ns = now_ns() > end_ns ? now_ns() - end_ns : 0;
    uint64_t next_ns = end_ns + late_ns / interval_ns * interval_ns;
    return next_ns <= UINT64_MAX - interval_ns ? next_ns + interval_ns : UINT64_MAX;
}

/* One interval: reads at its end and prints. false if there is no bucket to read any more. */
static bool print_interval(const struct watched *watched, struct reading *before, uint64_t end_ns)
{
    struct reading now;
    sleep_until(end_ns);
    if (!is_there(watched))
        return false;
    take_reading(watched->bucket, &now);
    print_line(before, &now);
    *before = now;
    return true;
}

static int watch(const struct watched *watched, const struct plan *plan)
{
    struct reading before;
    bool repeat = isatty(STDOUT_FILENO);
    take_reading(watched->bucket, &before);
    uint64_t end_ns = before.at_ns;
    for (uint32_t line = 0; plan->count == 0 || line < plan->count; line++) {
        if (line == 0 || (repeat && line % HEADER_EVERY == 0))
            print_header();
        enum outcome outcome = flush_line();
        if (outcome != GO_ON)
            return outcome == LOST ? CLI_FAILED : CLI_OK;
        end_ns = next_end(end_ns, plan->interval_ns);
        if (!print_interval(watched, &before, end_ns))
            return CLI_OK;
    }
    return flush_line() == LOST ? CLI_FAILED : CLI_OK;
}

static int stat_bucket(const char *name, const struct plan *plan)
{
    struct tundish *bucket;
    struct stat facts;
    char path[PATH_MAX];
    int error = tundish_path(name, path, sizeof(path));
    if (!error)
        error = tdi_observe_open(&bucket, name);
    if (error)
        return cli_bucket_error(name, error);
    uint64_t size = stat(path, &facts) == 0 ? (uint64_t)facts.st_size : 0;
    const struct watched watched = {bucket, name, path, size};
    int status = watch(&watched, plan);
    tundish_close(bucket);
    return status;
}

static int parse_interval(const char *text, uint64_t *out)
{
    static const struct cli_span bounds = {INTERVAL_NS_MIN, UINT64_MAX};
    return cli_time_parse(&cmd_stat, "interval", text, &bounds, out);
}

static int run(int argc, char **argv)
{
    struct plan plan = {CLI_NS_PER_S, 0};
    int option = getopt_long(argc, argv, ":h", long_options, NULL);
    int status = CLI_OK;
    if (option != -1)
        return cli_other_option(&cmd_stat, option, argv);
    if (argc - optind < 1 || argc - optind > 3)
        return cli_usage(&cmd_stat, "needs NAME and perhaps an interval and a count");
    if (argc - optind > 1)
        status = parse_interval(argv[optind + 1], &plan.interval_ns);
    if (status == CLI_OK && argc - optind > 2)
        status = cli_number_parse(&cmd_stat, "count", argv[optind + 2], &plan.count);
    return status == CLI_OK ? stat_bucket(argv[optind], &plan) : status;
}

const struct cli_command cmd_stat = {
    .name = "stat",
    .arguments = "NAME [INTERVAL [COUNT]]",
    .summary = "Show what happens in a bucket, a line for each INTERVAL (1 s)",
    .details =
        "INTERVAL is in seconds or has a unit (500ms), COUNT how many lines there are to be. Tokens, "
        "operations,\n"
        "refusals and retries are per second of the interval that is over, TOKENS/S those that were granted\n"
        "less those given back; P50 and P99 what half and 99 of 100 of its waits took at most, in ms; "
        "TOKENS\n"
        "and WAITING are as of now. Ends when the bucket is removed.\n",
    .run = run,
};
