/* SPDX-License-Identifier: MIT */
/* tundish sidecar: looks after all buckets of a directory, and writes what it sees for other programs. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/observed.h"
#include "sidecar/directory.h"
#include "sidecar/drain.h"
#include "sidecar/faults.h"
#include "sidecar/notify.h"
#include "sidecar/output.h"
#include "sidecar/textfile.h"

#define TEXTFILE "tundish.prom"

#define NS_PER_MS UINT64_C(1000000)
#define INTERVAL_NS (10 * CLI_NS_PER_S)
#define INTERVAL_MIN_NS (100 * NS_PER_MS)
#define INTERVAL_MAX_NS (UINT64_C(366) * 86400 * CLI_NS_PER_S)
#define LOOK_NS CLI_NS_PER_S      /* at the directory, without being told, and at the dead */
#define IDLE_NS (250 * NS_PER_MS) /* between scans that find nothing */
#define BUSY_NS (5 * NS_PER_MS)   /* a ring of 128 is emptied before a thread fills it at 25,000/s */
#define REST_NS (50 * NS_PER_MS)  /* after a change of the directory: names may come and go all the time */

enum {
    OPTION_INTERVAL = CLI_OPTION_OWN,
    OPTION_JSON,
    OPTION_RECORDS,
    OPTION_TEXTFILE,
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"json", no_argument, NULL, OPTION_JSON},
    {"records", optional_argument, NULL, OPTION_RECORDS},
    {"textfile", required_argument, NULL, OPTION_TEXTFILE},
    {NULL, 0, NULL, 0},
};

struct wish {
    char directory[PATH_MAX];
    const char *textfile; /* directory of it, NULL: none */
    bool json;
    uint32_t every;
    uint64_t interval_ns;
};

struct work {
    const struct wish *wish;
    struct tdi_directory directory;
    struct tdi_drain drain;
    struct tdi_output output;
    struct tdi_faults faults;
    int signals;
    int unread_with;    /* how the last look at the directory failed: said once, until it changes, ... */
    int failed_with;    /* ... and so the last report */
    uint64_t rest_ns;   /* until when nobody listens to the directory */
    uint64_t look_ns;   /* when it is looked at at the latest, ... */
    uint64_t report_ns; /* ... when the next report is due, ... */
    uint64_t scan_ns;   /* ... and the next scan */
    uint64_t pause_ns;  /* between scans */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLI_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- what is written ---- */

static void put_time(FILE *file, double at_s)
{
    fprintf(file, "{\"time\":%.6f", at_s);
}

static void print_record(const struct tdi_drain_record *record, void *context)
{
    static const char *const kinds[TDI_KINDS] = {"try", "acquire", "all", "waiter"};
    const struct tdi_observation *seen = &record->observation;
    struct tdi_output *output = context;
    char program[TDI_PROGRAM_LEN + 1] = "", wait[32];
    strncpy(program, record->program, TDI_PROGRAM_LEN);
    put_time(output->file, record->at_s);
    fprintf(output->file, ",\"bucket\":");
    cli_json_string(output->file, record->label);
    fprintf(output->file, ",\"pid\":%" PRIu32 ",\"program\":", seen->process);
    cli_json_string(output->file, program);
    const char *name = seen->error ? strerrorname_np(seen->error) : "granted";
    cli_seconds(wait, seen->wait_ns);
    fprintf(output->file,
            ",\"thread\":%" PRIu32 ",\"kind\":\"%s\",\"result\":\"%s\",\"tokens\":%" PRIu32
            ",\"wait_seconds\":%s}\n",
            seen->thread, kinds[seen->kind], name ? name : "unknown", seen->tokens, wait);
    tdi_output_end_line(output);
}

static void print_buckets(struct tdi_output *output, const struct cli_observed_all *all)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < all->count; i++) {
        put_time(output->file, (double)now.tv_sec + (double)now.tv_nsec / 1e9);
        fprintf(output->file, ",\"bucket\":");
        cli_json_bucket(output->file, &all->bucket[i]);
        fprintf(output->file, "}\n");
        tdi_output_end_line(output);
    }
}

/* 0 or a negative errno, and then what it is about. */
static int write_text(const char *directory, const struct cli_observed_all *all, char what[PATH_MAX])
{
    struct tdi_textfile text;
    int error = tdi_textfile_begin(&text, directory, TEXTFILE);
    snprintf(what, PATH_MAX, "%s", error ? directory : text.path);
    if (error)
        return error;
    cli_prom_buckets(text.file, all->bucket, all->count);
    return tdi_textfile_end(&text);
}

/* What cannot be read has been said by then: see look. */
static void report(struct work *work)
{
    struct cli_observed_all all;
    char what[PATH_MAX];
    int error = 0;
    if (!work->wish->textfile && !work->wish->json)
        return;
    bool is_read = cli_observed_open_all(&all, work->wish->directory, NULL, NULL) == 0;
    if (is_read && work->wish->textfile)
        error = write_text(work->wish->textfile, &all, what);
    if (work->wish->json)
        print_buckets(&work->output, &all);
    if (error && error != work->failed_with)
        cli_say(what, "%s", strerror(-error));
    work->failed_with = error;
    cli_observed_free_all(&all);
}

/* ---- the loop ---- */

/* What cannot be opened is left out, and said, unless it is just not there any more. */
static void see(struct work *work, const char *entry)
{
    char name[CLI_ENTRY_PATH], label[PATH_MAX + NAME_MAX + 2];
    cli_entry_path(name, work->wish->directory, entry);
    int error = tdi_drain_see(&work->drain, name, entry);
    if (!error || error == -ENOENT || !tdi_faults_note(&work->faults, entry, error))
        return;
    snprintf(label, sizeof(label), "%s/%s", work->wish->directory, entry);
    cli_bucket_error_as(label, name, error);
}

static void look(struct work *work, uint64_t at_ns)
{
    struct cli_names names;
    tdi_drain_begin(&work->drain);
    tdi_faults_begin(&work->faults, at_ns);
    int error = cli_names_read(&names, work->wish->directory);
    for (size_t i = 0; i < names.count; i++)
        see(work, names.name[i]);
    cli_names_free(&names);
    tdi_drain_end(&work->drain);
    if (error && error != work->unread_with)
        cli_say(work->wish->directory, "%s", strerror(-error));
    work->unread_with = error;
}

static void scan(struct work *work, uint64_t at_ns)
{
    size_t records = tdi_drain_scan(&work->drain);
    /* Slower and slower while there is nothing, at once fast again. */
    work->pause_ns = records > 0 || work->pause_ns == 0 ? BUSY_NS
                     : work->pause_ns < IDLE_NS / 2     ? work->pause_ns * 2
                                                        : IDLE_NS;
    work->scan_ns = at_ns + work->pause_ns;
}

static void do_what_is_due(struct work *work)
{
    uint64_t at_ns = now_ns();
    bool changed = at_ns >= work->rest_ns && tdi_directory_changed(&work->directory);
    if (changed)
        work->rest_ns = at_ns + REST_NS;
    if (changed || at_ns >= work->look_ns) {
        look(work, at_ns);
        scan(work, at_ns);
        tdi_drain_bury(&work->drain);
        work->look_ns = at_ns + LOOK_NS;
    } else if (work->wish->every != 0 && at_ns >= work->scan_ns) {
        scan(work, at_ns);
    }
    if (at_ns >= work->report_ns) {
        report(work);
        work->report_ns += work->wish->interval_ns;
        if (work->report_ns <= at_ns) /* we were stopped: intervals that are over are not made up for */
            work->report_ns = at_ns + work->wish->interval_ns;
    }
}

static uint64_t due_ns(const struct work *work, bool resting)
{
    uint64_t due = work->look_ns < work->report_ns ? work->look_ns : work->report_ns;
    if (resting && work->rest_ns < due)
        due = work->rest_ns;
    return work->wish->every != 0 && work->scan_ns < due ? work->scan_ns : due;
}

/* False: it is time to end. */
static bool await(struct work *work)
{
    uint64_t at_ns = now_ns();
    bool resting = at_ns < work->rest_ns;
    uint64_t until_ns = due_ns(work, resting);
    struct pollfd events[] = {{.fd = work->signals, .events = POLLIN},
                              {.fd = resting ? -1 : work->directory.fd, .events = POLLIN}};
    uint64_t span_ns = until_ns > at_ns ? until_ns - at_ns : 0;
    struct timespec span = {(time_t)(span_ns / CLI_NS_PER_S), (long)(span_ns % CLI_NS_PER_S)};
    ppoll(events, 2, &span, NULL);
    return !(events[0].revents & POLLIN);
}

static int work_on(struct work *work)
{
    int error;
    bool goes_on = true;
    tdi_directory_open(&work->directory, work->wish->directory);
    work->report_ns = now_ns();
    do_what_is_due(work);
    tdi_notify("READY=1");
    while ((error = tdi_output_flush(&work->output)) == 0 && goes_on) {
        goes_on = await(work);
        if (goes_on)
            do_what_is_due(work);
    }
    tdi_notify("STOPPING=1");
    tdi_drain_free(&work->drain);
    tdi_faults_free(&work->faults);
    report(work);
    tdi_directory_close(&work->directory);
    return error ? error : tdi_output_flush(&work->output);
}

/* A reader that has left has seen enough, and one that does not read when we are to end sees no more. */
static int say_how_it_ended(int error)
{
    if (error == 0 || error == -EPIPE || error == -EINTR)
        return CLI_OK;
    cli_say("standard output", "%s", strerror(-error));
    return CLI_FAILED;
}

static int block_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &ends, SFD_CLOEXEC);
}

static int sidecar(const struct wish *wish)
{
    struct work work = {.wish = wish, .drain = {.every = wish->every, .record = print_record}};
    work.signals = block_signals();
    int error = work.signals < 0 ? -errno : tdi_output_open(&work.output, STDOUT_FILENO, work.signals);
    if (error) {
        cli_say("sidecar", "%s", strerror(-error));
        return CLI_FAILED;
    }
    work.drain.context = &work.output;
    tdi_drain_init(&work.drain);
    int status = say_how_it_ended(work_on(&work));
    tdi_output_close(&work.output);
    close(work.signals);
    return status;
}

/* ---- the words ---- */

static int parse_interval(const char *text, uint64_t *out)
{
    static const struct cli_span bounds = {INTERVAL_MIN_NS, INTERVAL_MAX_NS};
    return cli_time_parse(&cmd_sidecar, "interval", text, &bounds, out);
}

static int parse_every(const char *text, uint32_t *out)
{
    *out = 1;
    return text ? cli_number_parse(&cmd_sidecar, "records", text, out) : CLI_OK;
}

static int take_option(int option, struct wish *wish, char **argv)
{
    switch (option) {
    case OPTION_INTERVAL:
        return parse_interval(optarg, &wish->interval_ns);
    case OPTION_JSON:
        wish->json = true;
        return CLI_OK;
    case OPTION_RECORDS:
        return parse_every(optarg, &wish->every);
    case OPTION_TEXTFILE:
        wish->textfile = optarg;
        return CLI_OK;
    default:
        return cli_other_option(&cmd_sidecar, option, argv);
    }
}

static int find_directory(struct wish *wish, const char *word)
{
    int error = 0;
    if (word && !*word)
        return cli_usage(&cmd_sidecar, "directory '': is empty");
    if (!word)
        error = cli_directory(wish->directory, sizeof(wish->directory));
    else if (snprintf(wish->directory, sizeof(wish->directory), "%s%s", strchr(word, '/') ? "" : "./",
                      word) >= (int)sizeof(wish->directory))
        error = -ENAMETOOLONG;
    return error ? cli_bucket_error(word ? word : "the directory of buckets", error) : CLI_OK;
}

/* A directory may come later; what is none, or cannot be read, hardly becomes one. */
static int check_directory(const char *directory)
{
    struct cli_names names;
    int error = cli_names_read(&names, directory);
    cli_names_free(&names);
    if (error) {
        cli_say(directory, "%s", strerror(-error));
        return CLI_FAILED;
    }
    if (access(directory, F_OK) != 0 && errno == ENOENT)
        cli_say(directory, "no such directory yet; waiting for it");
    return CLI_OK;
}

/* At once, not when there is something to write. */
static int check_output(const struct wish *wish)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    bool writable = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    return writable || (!wish->json && wish->every == 0) ? CLI_OK : say_how_it_ended(-EBADF);
}

static int run(int argc, char **argv)
{
    struct wish wish = {.interval_ns = INTERVAL_NS};
    int option;
    while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        int status = take_option(option, &wish, argv);
        if (status != CLI_OK || option == CLI_OPTION_HELP)
            return status;
    }
    if (argc - optind > 1)
        return cli_usage(&cmd_sidecar, "takes one directory");
    int status = find_directory(&wish, argv[optind]);
    if (status == CLI_OK)
        status = check_output(&wish);
    if (status == CLI_OK)
        status = check_directory(wish.directory);
    return status == CLI_OK ? sidecar(&wish) : status;
}

const struct cli_command cmd_sidecar = {
    .name = "sidecar",
    .arguments = "[--textfile DIR] [--json] [--records[=N]] [--interval TIME] [DIRECTORY]",
    .summary = "Look after all buckets of a directory, and write down what they do",
    .details =
        "  --textfile DIR   write DIR/tundish.prom for Prometheus' node_exporter, each time whole\n"
        "  --json           print a line of JSON per bucket\n"
        "  --records[=N]    have one of N operations recorded (each, if N is not given), and print a line\n"
        "                   of JSON for each record\n"
        "  --interval TIME  how often the first two, in seconds or with a unit (500ms); 10 s if not given\n\n"
        "Clears the entries of processes that were killed; says once what it cannot open. Ends on SIGTERM\n"
        "and SIGINT, after a last report. Of several sidecars one has the records of a process; another\n"
        "takes over when it is gone.\n",
    .run = run,
};
