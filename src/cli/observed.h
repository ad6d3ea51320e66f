/* SPDX-License-Identifier: MIT */
/*
 * Buckets as tools see them: one snapshot of all that is known of a bucket, the names in a directory, and how
 * both are written for other programs. Nothing here is listed in a bucket's file.
 */
#ifndef TUNDISH_CLI_OBSERVED_H
#define TUNDISH_CLI_OBSERVED_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <tundish/tundish.h>

#include "lib/observe.h"

#define CLI_NS_PER_S UINT64_C(1000000000)

/* A bucket at one moment, as far as there is one: others use it while it is read. */
struct cli_observed {
    char *name; /* what people call it: any bytes but 0 */
    char *path;
    struct tundish_info info; /* info.instances: entries of the table, dead ones too, as `instances` here */
    struct tdi_stats total;   /* all that was ever done */
    uint32_t processes;       /* that may live and have it open */
    struct tdi_observe_instance *instance;
    uint32_t instances;
};

/*
 * Opens the bucket, looks and closes it. `name` is what a user writes, `label` what it is to be called. 0, and
 * then *out is to be freed; or a negative errno.
 */
int cli_observed_open(struct cli_observed *out, const char *name, const char *label);

/* The same for a bucket that tdi_observe_open opened, or any other. */
int cli_observed_read(struct cli_observed *out, const struct tundish *bucket, const char *name,
                      const char *label);

/* Frees what it holds; all 0 is fine. */
void cli_observed_free(struct cli_observed *observed);

/* Tokens gained per second, of a bucket with this info. */
double cli_observed_rate(const struct tundish_info *info);

/* The directory of names. 0 or a negative errno. */
int cli_directory(char *buf, size_t len);

/* Names in a directory that may be buckets, sorted. */
struct cli_names {
    char **name;
    size_t count;
};

/* 0, also if there is no such directory; or a negative errno. */
int cli_names_read(struct cli_names *out, const char *directory);
void cli_names_free(struct cli_names *names);

/* What is to be opened for an entry of the directory of names: % in it is no key. */
#define CLI_ENTRY_NAME (2 * NAME_MAX + 1)
void cli_entry_name(char buf[CLI_ENTRY_NAME], const char *entry);

/* The same in any directory. */
#define CLI_ENTRY_PATH (2 * PATH_MAX + CLI_ENTRY_NAME)
void cli_entry_path(char buf[CLI_ENTRY_PATH], const char *directory, const char *entry);

/*
 * The same for all buckets of a directory, in the order of names. Those that cannot be read are
 * left out; `failed` (which may be NULL) is told of each, with a negative errno. 0, or a negative errno if the
 * directory itself cannot be read. What is in *out is freed by cli_observed_free_all.
 */
struct cli_observed_all {
    struct cli_observed *bucket;
    size_t count;
};
int cli_observed_open_all(struct cli_observed_all *out, const char *directory,
                          void (*failed)(const char *name, int error, void *context), void *context);

/* One more at the end: 0, or a negative errno as cli_observed_open. */
int cli_observed_add(struct cli_observed_all *all, const char *name, const char *label);
void cli_observed_free_all(struct cli_observed_all *all);

/* Bytes of the character at the start of the text, or 0 if that is no UTF-8. */
size_t cli_utf8_length(const char *text);

/*
 * A name made harmless, in one piece and told from every other name: what is no UTF-8 and control characters
 * become \xNN, and a backslash two. Always terminated, cut to len.
 */
void cli_escape(char *buf, size_t len, const char *text);

/*
 * observed_figures.c: what there is to say about a bucket in numbers, in base units. The keys are those of
 * `tundish status --json` and `--raw`, and never change.
 */
enum cli_figure {
    CLI_FIGURE_RATE,
    CLI_FIGURE_CAPACITY,
    CLI_FIGURE_TOKENS,
    CLI_FIGURE_WAITING,
    CLI_FIGURE_OLDEST,
    CLI_FIGURE_PROCESSES,
    CLI_FIGURE_GRANTED, /* from here on what was counted: of an instance too */
    CLI_FIGURE_REFUSED,
    CLI_FIGURE_ENDED,
    CLI_FIGURE_TOKENS_GRANTED,
    CLI_FIGURE_TOKENS_RELEASED,
    CLI_FIGURE_WAITED,
    CLI_FIGURE_WAITS,
    CLI_FIGURE_P50,
    CLI_FIGURE_P99,
    CLI_FIGURE_RETRIES,
    CLI_FIGURE_DROPPED,
    CLI_FIGURE_OBSERVATIONS, /* from here on not of an instance */
    CLI_FIGURE_UNLISTED,
    CLI_FIGURES
};
#define CLI_FIGURE_COUNTED CLI_FIGURE_GRANTED
#define CLI_FIGURE_BUCKET_ONLY CLI_FIGURE_OBSERVATIONS

extern const struct cli_figure_words {
    const char *key;
    const char *metric; /* in Prometheus, NULL if it is not there */
    const char *type;
    const char *help;
} cli_figure_words[CLI_FIGURES];

/* The numbers as text. */
struct cli_figures {
    char text[CLI_FIGURES][32];
};
void cli_figures_of(struct cli_figures *out, const struct cli_observed *observed);

/* Those that were counted; the others are untouched. */
void cli_figures_count(struct cli_figures *out, const struct tdi_stats *stats);

/* Seconds, exact and without needless zeros. */
void cli_seconds(char text[32], uint64_t ns);

/* "bytes" or "calls": what a token stands for. */
const char *cli_unit(const struct tundish_info *info);

/* One bucket as lines `key value`: name, path, unit and the figures. */
void cli_raw_bucket(FILE *file, const struct cli_observed *observed);

/* observed_json.c: a JSON string with its quotes; each byte that is no UTF-8 becomes U+FFFD. */
void cli_json_string(FILE *file, const char *text);

/* One bucket as a JSON object, without a newline at the end. */
void cli_json_bucket(FILE *file, const struct cli_observed *observed);

/* observed_prom.c: Prometheus' text format 0.0.4, each metric once, for all buckets, whose names must differ. */
void cli_prom_buckets(FILE *file, const struct cli_observed *observed, size_t count);

#endif
