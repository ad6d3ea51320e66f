/* SPDX-License-Identifier: MIT */
/*
 * tundish status: the buckets that are named, or all of the directory, as a table or as text for other programs.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/observed.h"

enum {
    OPTION_JSON = CLI_OPTION_OWN,
    OPTION_PROM,
    OPTION_RAW,
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"json", no_argument, NULL, OPTION_JSON},
    {"prom", no_argument, NULL, OPTION_PROM},
    {"raw", no_argument, NULL, OPTION_RAW},
    {NULL, 0, NULL, 0},
};

enum column {
    COLUMN_NAME,
    COLUMN_RATE,
    COLUMN_BURST,
    COLUMN_TOKENS,
    COLUMN_FULL_IN,
    COLUMN_WAITING,
    COLUMN_OLDEST,
    COLUMN_GRANTED,
    COLUMN_REFUSED,
    COLUMN_P99,
    COLUMN_PROCESSES,
};

static const struct {
    const char *heading;
    int flags;
} columns[] = {
    [COLUMN_NAME] = {"NAME", 0},
    [COLUMN_RATE] = {"RATE", SCOLS_FL_RIGHT},
    [COLUMN_BURST] = {"BURST", SCOLS_FL_RIGHT},
    [COLUMN_TOKENS] = {"TOKENS", SCOLS_FL_RIGHT},
    [COLUMN_FULL_IN] = {"FULL IN", SCOLS_FL_RIGHT},
    [COLUMN_WAITING] = {"WAITING", SCOLS_FL_RIGHT},
    [COLUMN_OLDEST] = {"OLDEST", SCOLS_FL_RIGHT},
    [COLUMN_GRANTED] = {"GRANTED", SCOLS_FL_RIGHT},
    [COLUMN_REFUSED] = {"REFUSED", SCOLS_FL_RIGHT},
    [COLUMN_P99] = {"P99 WAIT", SCOLS_FL_RIGHT},
    [COLUMN_PROCESSES] = {"PROCESSES", SCOLS_FL_RIGHT},
};

static struct libscols_table *new_table(void)
{
    struct libscols_table *table = scols_new_table();
    if (!table)
        return NULL;
    scols_table_enable_colors(table, isatty(STDOUT_FILENO) && cli_wants_colors());
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        if (!scols_table_new_column(table, columns[i].heading, 0, columns[i].flags)) {
            scols_unref_table(table);
            return NULL;
        }
    }
    return table;
}

/* A duration, or a word where there is none. */
static void format_duration(char text[64], uint64_t ns, const char *none)
{
    if (ns == 0)
        snprintf(text, 64, "%s", none);
    else
        tdi_unit_format_duration(text, 64, ns);
}

static void fill_cells(char cell[COLUMN_PROCESSES + 1][64], const struct cli_observed *observed)
{
    const struct tundish_info *info = &observed->info;
    const struct tdi_stats *total = &observed->total;
    const struct cli_rule rule = cli_rule_of(info);
    tdi_unit_format_rate(cell[COLUMN_RATE], 64, &rule.rate);
    tdi_unit_format_count(cell[COLUMN_BURST], 64, info->capacity, rule.rate.bytes);
    tdi_unit_format_count(cell[COLUMN_TOKENS], 64, info->available, rule.rate.bytes);
    format_duration(cell[COLUMN_FULL_IN], info->full_in_ns, "full");
    snprintf(cell[COLUMN_WAITING], 64, "%" PRIu32, info->waiting);
    format_duration(cell[COLUMN_OLDEST], info->oldest_wait_ns, "-");
    snprintf(cell[COLUMN_GRANTED], 64, "%" PRIu64, tdi_stats_all(total, TDI_COUNT_GRANTED));
    snprintf(cell[COLUMN_REFUSED], 64, "%" PRIu64, tdi_stats_all(total, TDI_COUNT_REFUSED));
    format_duration(cell[COLUMN_P99], tdi_stats_wait_quantile_ns(total->waits, 0.99), "-");
    snprintf(cell[COLUMN_PROCESSES], 64, "%" PRIu32 "%s", observed->processes, info->unlisted ? "+" : "");
}

static int add_line(struct libscols_table *table, const struct cli_observed *observed)
{
    char cell[COLUMN_PROCESSES + 1][64] = {""};
    fill_cells(cell, observed);
    struct libscols_line *line = scols_table_new_line(table, NULL);
    int error = line ? scols_line_set_data(line, COLUMN_NAME, observed->name) : -ENOMEM;
    for (size_t i = COLUMN_RATE; !error && i <= COLUMN_PROCESSES; i++)
        error = scols_line_set_data(line, i, cell[i]);
    if (error)
        return -ENOMEM;
    if (observed->info.available == 0)
        scols_cell_set_color(scols_line_get_cell(line, COLUMN_TOKENS), "red");
    return 0;
}

static int fill_table(struct libscols_table *table, const struct cli_observed_all *all)
{
    int error = 0;
    for (size_t i = 0; !error && i < all->count; i++)
        error = add_line(table, &all->bucket[i]);
    if (!error && !scols_table_is_empty(table) && scols_print_table(table) != 0)
        error = -ENOMEM;
    return error;
}

static int print_table(const struct cli_observed_all *all)
{
    struct libscols_table *table = new_table();
    int error = table ? fill_table(table, all) : -ENOMEM;
    scols_unref_table(table);
    return error ? cli_bucket_error("status", error) : CLI_OK;
}

static int print_json(const struct cli_observed_all *all)
{
    printf("{\"buckets\":[");
    for (size_t i = 0; i < all->count; i++) {
        printf("%s\n", i ? "," : "");
        cli_json_bucket(stdout, &all->bucket[i]);
    }
    printf("%s]}\n", all->count ? "\n" : "");
    return CLI_OK;
}

static int print_prom(const struct cli_observed_all *all)
{
    cli_prom_buckets(stdout, all->bucket, all->count);
    return CLI_OK;
}

static int print_raw(const struct cli_observed_all *all)
{
    for (size_t i = 0; i < all->count; i++)
        cli_raw_bucket(stdout, &all->bucket[i]);
    return CLI_OK;
}

static void complain(const char *entry, int error, void *status)
{
    char name[CLI_ENTRY_NAME];
    cli_entry_name(name, entry);
    *(int *)status = cli_bucket_error_as(entry, name, error);
}

static int add_directory(struct cli_observed_all *all)
{
    char directory[PATH_MAX];
    int status = CLI_OK;
    int error = cli_directory(directory, sizeof(directory));
    if (error)
        return cli_bucket_error("the directory of buckets", error);
    error = cli_observed_open_all(all, directory, complain, &status);
    if (error) {
        cli_say(directory, "%s", strerror(-error));
        return CLI_FAILED;
    }
    if (all->count == 0 && status == CLI_OK)
        cli_say(NULL, "no buckets in %s", directory);
    return status;
}

/* A bucket that is named twice counts once: metrics must differ. */
static int add_names(struct cli_observed_all *all, char **names, int count)
{
    int status = CLI_OK;
    for (int i = 0; i < count; i++) {
        bool again = false;
        for (int j = 0; j < i; j++)
            again |= strcmp(names[i], names[j]) == 0;
        int error = again ? 0 : cli_observed_add(all, names[i], names[i]);
        if (error)
            status = cli_bucket_error(names[i], error);
    }
    return status;
}

static int run(int argc, char **argv)
{
    int (*print)(const struct cli_observed_all *all) = print_table;
    struct cli_observed_all all = {.bucket = NULL};
    int option;
    for (int given = 0; (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1; given = option) {
        if (option < OPTION_JSON || option > OPTION_RAW)
            return cli_other_option(&cmd_status, option, argv);
        if (given && given != option)
            return cli_usage(&cmd_status, "--json, --prom and --raw exclude each other");
        print = option == OPTION_JSON ? print_json : option == OPTION_PROM ? print_prom : print_raw;
    }
    int status = optind == argc ? add_directory(&all) : add_names(&all, argv + optind, argc - optind);
    if (print(&all) != CLI_OK)
        status = CLI_FAILED;
    cli_observed_free_all(&all);
    return status;
}

const struct cli_command cmd_status = {
    .name = "status",
    .arguments = "[NAME...] [--json|--prom|--raw]",
    .summary = "Show buckets as a table, all of the directory if none is named",
    .details =
        "  --json   as JSON: {\"buckets\": [...]}, with all who have them open\n"
        "  --prom   as metrics for Prometheus\n"
        "  --raw    as lines `key value`, each bucket from its `name` on\n\n"
        "FULL IN is the time until a bucket is full if nobody takes from it, WAITING how many acquires\n"
        "stand in line and OLDEST how long the first has, GRANTED and REFUSED how many operations got\n"
        "their tokens or were turned away, P99 WAIT what 99 of 100 waits took at most, PROCESSES how\n"
        "many have it open, with a + if there ever were more than it can list.\n",
    .run = run,
};
