/* SPDX-License-Identifier: MIT */
/*
 * What there is to say about a bucket in numbers: one table of them with their names, from which the JSON text,
 * the raw lines and the metrics are made.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/observed.h"

#define GAUGE "gauge"
#define COUNTER "counter"

const struct cli_figure_words cli_figure_words[CLI_FIGURES] = {
    [CLI_FIGURE_RATE] = {"rate_per_second", "tundish_rate_per_second", GAUGE, "Tokens gained per second."},
    [CLI_FIGURE_CAPACITY] = {"capacity", "tundish_capacity_tokens", GAUGE, "Most tokens the bucket holds."},
    [CLI_FIGURE_TOKENS] = {"tokens", "tundish_tokens", GAUGE, "Tokens that could be taken now."},
    [CLI_FIGURE_WAITING] = {"waiting", "tundish_waiting", GAUGE, "Acquires that wait in line."},
    [CLI_FIGURE_OLDEST] = {"oldest_wait_seconds", "tundish_oldest_wait_seconds", GAUGE,
                           "How long the first in line has waited."},
    [CLI_FIGURE_PROCESSES] = {"processes", "tundish_processes", GAUGE,
                              "Processes that have the bucket open."},
    [CLI_FIGURE_GRANTED] = {"granted_total", "tundish_granted_total", COUNTER,
                            "Operations that got their tokens."},
    [CLI_FIGURE_REFUSED] = {"refused_total", "tundish_refused_total", COUNTER,
                            "Operations that found too few tokens and did not wait."},
    [CLI_FIGURE_ENDED] = {"ended_total", "tundish_ended_total", COUNTER,
                          "Waits that timed out or were given up."},
    [CLI_FIGURE_TOKENS_GRANTED] = {"tokens_granted_total", "tundish_tokens_granted_total", COUNTER,
                                   "Tokens taken."},
    [CLI_FIGURE_TOKENS_RELEASED] = {"tokens_released_total", "tundish_tokens_released_total", COUNTER,
                                    "Tokens taken and given back."},
    [CLI_FIGURE_WAITED] = {"wait_seconds_total", "tundish_waited_seconds_total", COUNTER,
                           "Time spent in waits that are over, with tokens or without."},
    [CLI_FIGURE_WAITS] = {"waits_total", NULL, NULL, NULL}, /* these three are in the histogram */
    [CLI_FIGURE_P50] = {"wait_seconds_p50", NULL, NULL, NULL},
    [CLI_FIGURE_P99] = {"wait_seconds_p99", NULL, NULL, NULL},
    [CLI_FIGURE_RETRIES] = {"retries_total", "tundish_retries_total", COUNTER,
                            "Attempts that failed because somebody else was quicker."},
    [CLI_FIGURE_DROPPED] = {"observations_dropped_total", "tundish_observations_dropped_total", COUNTER,
                            "Records of operations for which there was no room."},
    [CLI_FIGURE_OBSERVATIONS] = {"observations_total", "tundish_observations_total", COUNTER,
                                 "Operations that were recorded."},
    [CLI_FIGURE_UNLISTED] = {"unlisted_total", "tundish_unlisted_total", COUNTER,
                             "Handles that found the bucket's table full; what they did is in the bucket's "
                             "counts only."},
};

void cli_seconds(char text[32], uint64_t ns)
{
    snprintf(text, 32, "%" PRIu64 ".%09" PRIu64, ns / CLI_NS_PER_S, ns % CLI_NS_PER_S);
    size_t len = strlen(text);
    while (text[len - 1] == '0')
        text[--len] = '\0';
    if (text[len - 1] == '.')
        text[len - 1] = '\0';
}

const char *cli_unit(const struct tundish_info *info)
{
    return info->flags & TUNDISH_BYTES ? "bytes" : "calls";
}

static void put_count(struct cli_figures *out, enum cli_figure figure, uint64_t count)
{
    snprintf(out->text[figure], sizeof(out->text[figure]), "%" PRIu64, count);
}

static void put_seconds(struct cli_figures *out, enum cli_figure figure, uint64_t ns)
{
    cli_seconds(out->text[figure], ns);
}

static uint64_t count_waits(const struct tdi_stats *stats)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < TDI_LAYOUT_WAITS; i++)
        all += stats->waits[i];
    return all;
}

void cli_figures_count(struct cli_figures *out, const struct tdi_stats *stats)
{
    put_count(out, CLI_FIGURE_GRANTED, tdi_stats_all(stats, TDI_COUNT_GRANTED));
    put_count(out, CLI_FIGURE_REFUSED, tdi_stats_all(stats, TDI_COUNT_REFUSED));
    put_count(out, CLI_FIGURE_ENDED, tdi_stats_all(stats, TDI_COUNT_ENDED));
    put_count(out, CLI_FIGURE_TOKENS_GRANTED, tdi_stats_all(stats, TDI_COUNT_TOKENS));
    put_count(out, CLI_FIGURE_TOKENS_RELEASED, stats->sum[TDI_SUM_RELEASED]);
    put_seconds(out, CLI_FIGURE_WAITED, stats->sum[TDI_SUM_WAITED_NS] + stats->sum[TDI_SUM_ENDED_NS]);
    put_count(out, CLI_FIGURE_WAITS, count_waits(stats));
    put_seconds(out, CLI_FIGURE_P50, tdi_stats_wait_quantile_ns(stats->waits, 0.5));
    put_seconds(out, CLI_FIGURE_P99, tdi_stats_wait_quantile_ns(stats->waits, 0.99));
    put_count(out, CLI_FIGURE_RETRIES, stats->sum[TDI_SUM_RETRIES]);
    put_count(out, CLI_FIGURE_DROPPED, stats->sum[TDI_SUM_DROPPED]);
    put_count(out, CLI_FIGURE_OBSERVATIONS, stats->pushed);
}

void cli_figures_of(struct cli_figures *out, const struct cli_observed *observed)
{
    const struct tundish_info *info = &observed->info;
    snprintf(out->text[CLI_FIGURE_RATE], sizeof(out->text[0]), "%.15g", cli_observed_rate(info));
    put_count(out, CLI_FIGURE_CAPACITY, info->capacity);
    put_count(out, CLI_FIGURE_TOKENS, info->available);
    put_count(out, CLI_FIGURE_WAITING, info->waiting);
    put_seconds(out, CLI_FIGURE_OLDEST, info->oldest_wait_ns);
    put_count(out, CLI_FIGURE_PROCESSES, observed->processes);
    cli_figures_count(out, &observed->total);
    put_count(out, CLI_FIGURE_UNLISTED, info->unlisted);
}

void cli_raw_bucket(FILE *file, const struct cli_observed *observed)
{
    struct cli_figures figures;
    char text[4 * PATH_MAX];
    cli_escape(text, sizeof(text), observed->name);
    fprintf(file, "name %s\n", text);
    cli_escape(text, sizeof(text), observed->path);
    fprintf(file, "path %s\nunit %s\n", text, cli_unit(&observed->info));
    cli_figures_of(&figures, observed);
    for (size_t i = 0; i < CLI_FIGURES; i++)
        fprintf(file, "%s %s\n", cli_figure_words[i].key, figures.text[i]);
}
