/* SPDX-License-Identifier: MIT */
/* tundish top: buckets as they are used, on a screen or as one table after the other. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "cli/observed.h"
#include "sidecar/top_view.h"

enum {
    OPTION_PLAIN = CLI_OPTION_OWN,
};

static const struct option long_options[] = {
    {"count", required_argument, NULL, 'n'},
    {"delay", required_argument, NULL, 'd'},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"plain", no_argument, NULL, OPTION_PLAIN},
    {NULL, 0, NULL, 0},
};

/* What is to be looked at: the names, or all of the directory if there are none. */
struct wish {
    char **name;
    int names;
    char directory[PATH_MAX];
};

struct choice {
    struct tdi_top_view view;
    bool plain;
};

/* Called as in other places: no name speaks to the terminal, and each is told from every other. */
static int see(struct tdi_top *top, const char *name, const char *label)
{
    char escaped[4 * PATH_MAX];
    cli_escape(escaped, sizeof(escaped), label);
    return tdi_top_see(top, name, escaped);
}

/* What is no bucket is only counted. */
static int look_at_directory(struct tdi_top *top, const struct wish *wish)
{
    struct cli_names names;
    char name[CLI_ENTRY_NAME];
    int error = cli_names_read(&names, wish->directory);
    for (size_t i = 0; !error && i < names.count; i++) {
        cli_entry_name(name, names.name[i]);
        see(top, name, names.name[i]);
    }
    cli_names_free(&names);
    return error;
}

static int look(struct tdi_top *top, void *context)
{
    const struct wish *wish = context;
    int error = 0;
    tdi_top_begin(top);
    if (wish->names == 0)
        error = look_at_directory(top, wish);
    for (int i = 0; i < wish->names; i++)
        see(top, wish->name[i], wish->name[i]);
    tdi_top_end(top);
    return error;
}

/* Whoever names a bucket wants to hear that there is none; later ones may come and go. */
static int look_first(struct wish *wish)
{
    struct tdi_top top = {.bucket = NULL};
    int status = CLI_OK;
    int error = cli_directory(wish->directory, sizeof(wish->directory));
    if (error && wish->names == 0)
        return cli_bucket_error("the directory of buckets", error);
    for (int i = 0; i < wish->names; i++) {
        error = tdi_top_see(&top, wish->name[i], wish->name[i]);
        if (error)
            status = cli_bucket_error(wish->name[i], error);
    }
    tdi_top_free(&top); /* an interval begins when the view does */
    return status;
}

/* The shell is to see that a signal ended it, as it would have without a screen. */
static int end_by(int signal_number)
{
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    return CLI_FAILED; /* it was blocked */
}

static int report(int error, const struct wish *wish)
{
    if (error == 0)
        return CLI_OK;
    if (error > 0)
        return end_by(error);
    bool is_output = ferror(stdout);
    if (is_output) {
        __fpurge(stdout); /* the program does not try again, nor complain again, when it ends */
        clearerr(stdout);
    }
    if (is_output && error == -EPIPE)
        return CLI_OK; /* a reader that has left has seen enough */
    cli_say(is_output ? "standard output" : wish->directory, "%s", strerror(-error));
    return CLI_FAILED;
}

static int show(struct choice *choice, struct wish *wish)
{
    struct tdi_top top = {.bucket = NULL};
    choice->view.top = &top;
    choice->view.look = look;
    choice->view.context = wish;
    int status = look_first(wish);
    if (status != CLI_OK)
        return status;
    int error = choice->plain ? -ENOTTY : tdi_top_screen(&choice->view);
    if (error == -ENOTTY)
        error = tdi_top_plain(&choice->view);
    tdi_top_free(&top);
    return report(error, wish);
}

static int parse_interval(const char *text, uint64_t *out)
{
    static const struct cli_span bounds = {TDI_TOP_INTERVAL_MIN_NS, TDI_TOP_INTERVAL_MAX_NS};
    return cli_time_parse(&cmd_top, "delay", text, &bounds, out);
}

static int take_option(int option, struct choice *choice, char **argv)
{
    switch (option) {
    case 'd':
        return parse_interval(optarg, &choice->view.interval_ns);
    case 'n':
        return cli_number_parse(&cmd_top, "count", optarg, &choice->view.count);
    case 'p':
    case OPTION_PLAIN:
        choice->plain = true;
        return CLI_OK;
    default:
        return cli_other_option(&cmd_top, option, argv);
    }
}

static int run(int argc, char **argv)
{
    struct choice choice = {.view = {.interval_ns = CLI_NS_PER_S, .colors = cli_wants_colors()}};
    struct wish wish = {.name = NULL};
    int option;
    while ((option = getopt_long(argc, argv, ":d:hn:p", long_options, NULL)) != -1) {
        int status = take_option(option, &choice, argv);
        if (status != CLI_OK || option == CLI_OPTION_HELP)
            return status;
    }
    wish.name = argv + optind;
    wish.names = argc - optind;
    return show(&choice, &wish);
}

const struct cli_command cmd_top = {
    .name = "top",
    .arguments = "[-d SECONDS] [-n COUNT] [-p] [NAME...]",
    .summary = "Watch buckets as they are used, all of the directory if none is named",
    .details =
        "  -d, --delay=SECONDS  the interval: 1 s if not given, 100 ms at least\n"
        "  -n, --count=COUNT    end after so many intervals\n"
        "  -p, --plain          print one table per interval, as without a terminal\n\n"
        "RATE is what a bucket gains, GOT/S what was taken of it in the interval that is over and USED what\n"
        "part of the rate that is; P50 WAIT and P99 WAIT are what half and 99 of 100 of its waits took at\n"
        "most. Below a bucket are the programs that have it open. On the screen h lists the keys, q quits.\n",
    .run = run,
};
