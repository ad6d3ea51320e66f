/* SPDX-License-Identifier: MIT */
/* A bucket and its instances as JSON: RFC 8259, UTF-8, base units, whatever bytes names have. */
#include <inttypes.h>
#include <string.h>

#include "cli/observed.h"

void cli_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    while (*text) {
        size_t length = cli_utf8_length(text);
        if (length == 0)
            fputs("\\ufffd", file);
        else if ((unsigned char)*text < ' ' || *text == 127)
            fprintf(file, "\\u%04x", *text);
        else
            fprintf(file, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)length, text);
        text += length ? length : 1;
    }
    fputc('"', file);
}

static void put_figures(FILE *file, const struct cli_figures *figures, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        fprintf(file, ",\"%s\":%s", cli_figure_words[i].key, figures->text[i]);
}

static void put_kinds(FILE *file, const struct tdi_stats *stats)
{
    static const char *const kinds[TDI_KINDS] = {"try", "acquire", "all", "waiter"};
    fprintf(file, ",\"kinds\":{");
    for (size_t i = 0; i < TDI_KINDS; i++) {
        const uint64_t *count = stats->count[i];
        fprintf(file,
                "%s\"%s\":{\"granted_total\":%" PRIu64 ",\"refused_total\":%" PRIu64
                ",\"ended_total\":%" PRIu64 ",\"tokens_granted_total\":%" PRIu64 "}",
                i ? "," : "", kinds[i], count[TDI_COUNT_GRANTED], count[TDI_COUNT_REFUSED],
                count[TDI_COUNT_ENDED], count[TDI_COUNT_TOKENS]);
    }
    fputc('}', file);
}

static void put_instance(FILE *file, const struct tdi_observe_instance *instance)
{
    struct cli_figures figures;
    char program[TDI_PROGRAM_LEN + 1] = "";
    memcpy(program, instance->who.program, TDI_PROGRAM_LEN);
    fprintf(file, "{\"pid\":%" PRIu32 ",\"program\":", instance->who.pid);
    cli_json_string(file, program);
    fprintf(file,
            ",\"alive\":%s,\"strategy\":\"%s\",\"generation\":%" PRIu32 ",\"in_flight\":%" PRIu64
            ",\"record_every\":%" PRIu32 ",\"drainer_pid\":%" PRIu32,
            instance->may_live ? "true" : "false", instance->strategy == TUNDISH_LEASED ? "leased" : "direct",
            instance->generation, instance->in_flight, instance->every, instance->drainer_pid);
    cli_figures_count(&figures, &instance->stats);
    put_figures(file, &figures, CLI_FIGURE_COUNTED, CLI_FIGURE_BUCKET_ONLY);
    put_kinds(file, &instance->stats);
    fputc('}', file);
}

void cli_json_bucket(FILE *file, const struct cli_observed *observed)
{
    struct cli_figures figures;
    fprintf(file, "{\"name\":");
    cli_json_string(file, observed->name);
    fprintf(file, ",\"path\":");
    cli_json_string(file, observed->path);
    fprintf(file, ",\"unit\":\"%s\"", cli_unit(&observed->info));
    cli_figures_of(&figures, observed);
    put_figures(file, &figures, 0, CLI_FIGURES);
    put_kinds(file, &observed->total);
    fprintf(file, ",\"instances\":[");
    for (uint32_t i = 0; i < observed->instances; i++) {
        fprintf(file, "%s", i ? "," : "");
        put_instance(file, &observed->instance[i]);
    }
    fprintf(file, "]}");
}
