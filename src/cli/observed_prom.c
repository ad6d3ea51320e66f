/* SPDX-License-Identifier: MIT */
/*
 * Buckets as metrics, in Prometheus' text format 0.0.4. Waiting times are a histogram with one bucket for each
 * power of two of a microsecond.
 */
#include <inttypes.h>

#include "cli/observed.h"

enum {
    CLASSES_PER_OCTAVE = 4,
    LABEL = 4 * PATH_MAX,
};

/* The labels that every sample has. A name comes escaped, so only quotes and backslashes are left to quote. */
static void put_labels(FILE *file, const struct cli_observed *observed)
{
    char name[LABEL];
    cli_escape(name, sizeof(name), observed->name);
    fprintf(file, "bucket=\"");
    for (const char *p = name; *p; p++)
        fprintf(file, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
    fprintf(file, "\",unit=\"%s\"", cli_unit(&observed->info));
}

static void put_sample(FILE *file, const char *metric, const struct cli_observed *observed, const char *value)
{
    fprintf(file, "%s{", metric);
    put_labels(file, observed);
    fprintf(file, "} %s\n", value);
}

static void put_head(FILE *file, const char *metric, const char *type, const char *help)
{
    fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

static void put_bound(FILE *file, const struct cli_observed *observed, const char *bound, uint64_t count)
{
    fprintf(file, "tundish_wait_seconds_bucket{");
    put_labels(file, observed);
    fprintf(file, ",le=\"%s\"} %" PRIu64 "\n", bound, count);
}

/* The last bound is the highest power of two whose classes are whole; what is above counts as infinite. */
static void put_histogram(FILE *file, const struct cli_observed *observed)
{
    const struct tdi_stats *total = &observed->total;
    char text[32];
    uint64_t count = 0;
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++) {
        count += total->waits[i];
        if (i % CLASSES_PER_OCTAVE != 0)
            continue;
        cli_seconds(text, tdi_stats_wait_from_ns(i + 1));
        put_bound(file, observed, text, count);
    }
    put_bound(file, observed, "+Inf", count);
    cli_seconds(text, total->sum[TDI_SUM_WAITED_NS]);
    put_sample(file, "tundish_wait_seconds_sum", observed, text);
    snprintf(text, sizeof(text), "%" PRIu64, count);
    put_sample(file, "tundish_wait_seconds_count", observed, text);
}

static void put_metric(FILE *file, enum cli_figure figure, const struct cli_observed *observed, size_t count)
{
    const struct cli_figure_words *words = &cli_figure_words[figure];
    struct cli_figures figures;
    put_head(file, words->metric, words->type, words->help);
    for (size_t i = 0; i < count; i++) {
        cli_figures_of(&figures, &observed[i]);
        put_sample(file, words->metric, &observed[i], figures.text[figure]);
    }
}

void cli_prom_buckets(FILE *file, const struct cli_observed *observed, size_t count)
{
    for (size_t i = 0; i < CLI_FIGURES; i++)
        if (cli_figure_words[i].metric)
            put_metric(file, (enum cli_figure)i, observed, count);
    put_head(file, "tundish_wait_seconds", "histogram", "How long waits took that ended with tokens.");
    for (size_t i = 0; i < count; i++)
        put_histogram(file, &observed[i]);
}
