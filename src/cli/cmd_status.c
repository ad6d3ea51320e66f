/* SPDX-License-Identifier: MIT */
/* tundish status: a table of buckets, those named or all of the directory. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/handle.h"

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
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
    [COLUMN_PROCESSES] = {"PROCESSES", SCOLS_FL_RIGHT},
};

static struct libscols_table *new_table(void)
{
    struct libscols_table *table = scols_new_table();
    if (!table)
        return NULL;
    scols_table_enable_colors(table, isatty(STDOUT_FILENO) && !getenv("NO_COLOR"));
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

static int add_line(struct libscols_table *table, const char *name, const struct tundish_info *info,
                    uint32_t processes)
{
    const struct cli_rule rule = cli_rule_of(info);
    char cell[COLUMN_PROCESSES + 1][64] = {""};
    tdi_unit_format_rate(cell[COLUMN_RATE], 64, &rule.rate);
    tdi_unit_format_count(cell[COLUMN_BURST], 64, info->capacity, rule.rate.bytes);
    tdi_unit_format_count(cell[COLUMN_TOKENS], 64, info->available, rule.rate.bytes);
    format_duration(cell[COLUMN_FULL_IN], info->full_in_ns, "full");
    snprintf(cell[COLUMN_WAITING], 64, "%" PRIu32, info->waiting);
    format_duration(cell[COLUMN_OLDEST], info->oldest_wait_ns, "-");
    snprintf(cell[COLUMN_PROCESSES], 64, "%" PRIu32, processes);

    struct libscols_line *line = scols_table_new_line(table, NULL);
    int error = line ? scols_line_set_data(line, COLUMN_NAME, name) : -ENOMEM;
    for (size_t i = COLUMN_RATE; !error && i <= COLUMN_PROCESSES; i++)
        error = scols_line_set_data(line, i, cell[i]);
    if (error)
        return cli_bucket_error(name, -ENOMEM);
    if (info->available == 0)
        scols_cell_set_color(scols_line_get_cell(line, COLUMN_TOKENS), "red");
    return CLI_OK;
}

static int add_bucket(struct libscols_table *table, const char *name, const char *path)
{
    struct tundish *bucket;
    struct tundish_info info = TUNDISH_INFO_INIT;
    int error = tundish_open(&bucket, path);
    if (error)
        return cli_bucket_error(name, error);
    error = tundish_info(bucket, &info);
    uint32_t processes = tdi_handle_count_others(bucket);
    tundish_close(bucket);
    return error ? cli_bucket_error(name, error) : add_line(table, name, &info, processes);
}

/* Where names live. */
static int find_directory(char *buf, size_t len)
{
    int error = tundish_path("x", buf, len);
    if (error)
        return error;
    *strrchr(buf, '/') = '\0';
    return 0;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN);
}

/* Entries of a directory are names already: % in them is no key. */
static int add_entry(struct libscols_table *table, const char *name)
{
    char escaped[2 * NAME_MAX + 1], *out = escaped;
    for (const char *p = name; *p && out < escaped + sizeof(escaped) - 2; p++) {
        if (*p == '%')
            *out++ = '%';
        *out++ = *p;
    }
    *out = '\0';
    return add_bucket(table, name, escaped);
}

static int add_directory(struct libscols_table *table)
{
    char directory[4096];
    struct dirent **entries;
    int status = CLI_OK;
    int error = find_directory(directory, sizeof(directory));
    if (error)
        return cli_bucket_error("the directory of buckets", error);
    int count = scandir(directory, &entries, is_visible, alphasort);
    if (count < 0 && errno != ENOENT) {
        cli_say(directory, "%s", strerror(errno));
        return CLI_FAILED;
    }
    if (count <= 0)
        cli_say(NULL, "no buckets in %s", directory);
    for (int i = 0; i < count; i++) {
        if (add_entry(table, entries[i]->d_name) != CLI_OK)
            status = CLI_FAILED;
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return status;
}

static int print_table(struct libscols_table *table)
{
    if (scols_table_is_empty(table) || scols_print_table(table) == 0)
        return CLI_OK;
    return cli_bucket_error("status", -ENOMEM);
}

static int run(int argc, char **argv)
{
    int status = CLI_OK;
    int option = getopt_long(argc, argv, ":h", long_options, NULL);
    if (option != -1)
        return cli_other_option(&cmd_status, option, argv);
    struct libscols_table *table = new_table();
    if (!table)
        return cli_bucket_error("status", -ENOMEM);
    if (optind == argc)
        status = add_directory(table);
    for (int i = optind; i < argc; i++)
        if (add_bucket(table, argv[i], argv[i]) != CLI_OK)
            status = CLI_FAILED;
    if (print_table(table) != CLI_OK)
        status = CLI_FAILED;
    scols_unref_table(table);
    return status;
}

const struct cli_command cmd_status = {
    .name = "status",
    .arguments = "[NAME...]",
    .summary = "Show buckets as a table, all of the directory if none is named",
    .details =
        "FULL IN is the time until a bucket is full if nobody takes from it, WAITING how many acquires\n"
        "stand in line and OLDEST how long the first has, PROCESSES how many have it open.\n",
    .run = run,
};
