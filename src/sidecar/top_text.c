/* SPDX-License-Identifier: MIT */
/*
 * Lines of `tundish top`: which columns fit, and what is in them. A width is counted in columns of the screen, as
 * wcwidth has it, and nothing is written that the locale could not print.
 */
#include "sidecar/top_view.h"

#include <inttypes.h>
#include <langinfo.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

#include "policy/unit.h"

enum field {
    FIELD_NAME,
    FIELD_RATE,
    FIELD_ACHIEVED,
    FIELD_USED,
    FIELD_TOKENS,
    FIELD_WAITING,
    FIELD_P50,
    FIELD_P99,
    FIELD_REFUSED,
    FIELD_HISTORY,
};

enum {
    CELL = 64,       /* bytes of a number and its unit */
    NAME_LEAST = 16, /* columns for names before others are left out, if names are as long */
    NAME_MOST = 256,
    HISTORY_LEAST = 10,
    INDENT = 2, /* of who has a bucket open */
};

static const struct {
    const char *heading;
    uint32_t width;
} fields[TDI_TOP_FIELDS] = {
    [FIELD_NAME] = {"NAME", 4},         [FIELD_RATE] = {"RATE", 11},
    [FIELD_ACHIEVED] = {"GOT/S", 9},    [FIELD_USED] = {"USED", 5},
    [FIELD_TOKENS] = {"TOKENS", 9},     [FIELD_WAITING] = {"WAITING", 7},
    [FIELD_P50] = {"P50 WAIT", 9},      [FIELD_P99] = {"P99 WAIT", 9},
    [FIELD_REFUSED] = {"REFUSED/S", 9}, [FIELD_HISTORY] = {"HISTORY", HISTORY_LEAST},
};

/* What can be done without, the first one first. */
static const enum field dropped[] = {
    FIELD_HISTORY, FIELD_P50,     FIELD_TOKENS, FIELD_REFUSED,  FIELD_P99,
    FIELD_RATE,    FIELD_WAITING, FIELD_USED,   FIELD_ACHIEVED,
};

/* One character: its bytes and columns; what is no printable character is one byte, shown as '?'. */
struct character {
    size_t bytes;
    uint32_t columns;
    bool printable;
};

static struct character next_character(const char *text)
{
    wchar_t wide;
    mbstate_t state = {0};
    size_t bytes = mbrtowc(&wide, text, strlen(text), &state);
    if (bytes == 0 || bytes > MB_LEN_MAX) /* (size_t)-1 and -2: none, or cut off */
        return (struct character){1, 1, false};
    /* Without a width of its own it may change how its neighbours are shown. */
    int columns = iswprint((wint_t)wide) ? wcwidth(wide) : 0;
    return columns > 0 ? (struct character){bytes, (uint32_t)columns, true}
                       : (struct character){bytes, 1, false};
}

static uint32_t width_of(const char *text)
{
    uint32_t columns = 0;
    while (*text) {
        struct character character = next_character(text);
        columns += character.columns;
        text += character.bytes;
    }
    return columns;
}

static void put_blanks(struct tdi_top_line *line, uint32_t columns)
{
    for (; columns > 0 && line->columns < TDI_TOP_COLUMNS && line->bytes < sizeof(line->text) - 1;
         columns--) {
        line->text[line->bytes++] = ' ';
        line->columns++;
    }
    line->text[line->bytes] = '\0';
}

/* No more than so many columns of the text. */
static void put_text(struct tdi_top_line *line, const char *text, uint32_t most)
{
    uint32_t end = line->columns + most < TDI_TOP_COLUMNS ? line->columns + most : TDI_TOP_COLUMNS;
    while (*text) {
        struct character character = next_character(text);
        size_t bytes = character.printable ? character.bytes : 1;
        if (line->columns + character.columns > end || line->bytes + bytes >= sizeof(line->text))
            break;
        memcpy(line->text + line->bytes, character.printable ? text : "?", bytes);
        line->bytes += bytes;
        line->columns += character.columns;
        text += character.bytes;
    }
    line->text[line->bytes] = '\0';
}

static void start_line(struct tdi_top_line *line)
{
    line->text[0] = '\0';
    line->columns = 0;
    line->bytes = 0;
}

/* One cell, after a blank if it is not the first; not at all if it has no room. */
static void put_cell(struct tdi_top_line *line, const char *text, uint32_t width, bool right)
{
    uint32_t columns = width_of(text);
    uint32_t blanks = columns < width ? width - columns : 0;
    if (width == 0)
        return;
    put_blanks(line, line->columns > 0);
    put_blanks(line, right ? blanks : 0);
    put_text(line, text, width);
    put_blanks(line, right ? 0 : blanks);
}

bool tdi_top_is_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Program and process id below a bucket's name: `number` is all that follows the program. */
static uint32_t width_of_instance(const struct tdi_top_instance *instance, char number[CELL])
{
    snprintf(number, CELL, " %" PRIu32, instance->pid);
    return INDENT + width_of(instance->program) + width_of(number);
}

/* Where that is too wide the program is shortened: a part of a process id would be another process's. */
static void put_instance(struct tdi_top_line *line, const struct tdi_top_instance *instance, uint32_t width)
{
    char number[CELL];
    uint32_t wide = width_of_instance(instance, number);
    uint32_t rest = INDENT + width_of(number), end = line->columns + width;
    if (width >= rest) {
        put_blanks(line, INDENT);
        put_text(line, instance->program, wide > width ? width - rest : width);
        put_text(line, number, width);
    } else if (width + 1 >= rest) { /* the id alone, without the blank before it */
        put_blanks(line, INDENT);
        put_text(line, number + 1, width);
    }
    put_blanks(line, end > line->columns ? end - line->columns : 0);
}

static uint32_t name_width(const struct tdi_top *top, bool instances)
{
    uint32_t widest = fields[FIELD_NAME].width;
    char number[CELL];
    for (size_t i = 0; i < top->count; i++) {
        const struct tdi_top_bucket *bucket = top->bucket[i];
        uint32_t width = width_of(bucket->label);
        widest = width > widest ? width : widest;
        for (uint32_t j = 0; instances && j < bucket->instances; j++) {
            width = width_of_instance(&bucket->instance[j], number);
            widest = width > widest ? width : widest;
        }
    }
    return widest < NAME_MOST ? widest : NAME_MOST;
}

static uint32_t width_of_all(const struct tdi_top_layout *layout)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < TDI_TOP_FIELDS; i++)
        all += layout->width[i] ? layout->width[i] + (i > 0) : 0;
    return all;
}

/* Widens a column by what is left of the screen. */
static void widen(struct tdi_top_layout *layout, enum field field, uint32_t most)
{
    uint32_t all = width_of_all(layout), *width = &layout->width[field];
    uint32_t left = all < layout->columns ? layout->columns - all : 0;
    if (*width > 0 && *width < most)
        *width = most - *width < left ? most : *width + left;
}

void tdi_top_lay_out(struct tdi_top_layout *out, const struct tdi_top *top, uint32_t columns, bool instances)
{
    uint32_t names = name_width(top, instances);
    out->columns = columns < TDI_TOP_COLUMNS ? columns : TDI_TOP_COLUMNS;
    for (uint32_t i = 0; i < TDI_TOP_FIELDS; i++)
        out->width[i] = fields[i].width;
    out->width[FIELD_NAME] = names < NAME_LEAST ? names : NAME_LEAST;
    for (size_t i = 0; width_of_all(out) > out->columns && i < sizeof(dropped) / sizeof(dropped[0]); i++) {
        if (dropped[i] == FIELD_ACHIEVED && out->columns > fields[FIELD_ACHIEVED].width + 2)
            out->width[FIELD_NAME] =
                out->columns - fields[FIELD_ACHIEVED].width - 1; /* a shorter name will do */
        else
            out->width[dropped[i]] = 0;
    }
    if (width_of_all(out) > out->columns)
        out->width[FIELD_NAME] = out->columns;
    widen(out, FIELD_NAME, names);
    widen(out, FIELD_HISTORY, TDI_TOP_HISTORY);
}

void tdi_top_heading(struct tdi_top_line *line, const struct tdi_top_layout *layout)
{
    start_line(line);
    for (uint32_t i = 0; i < TDI_TOP_FIELDS; i++)
        put_cell(line, fields[i].heading, layout->width[i], i != FIELD_NAME && i != FIELD_HISTORY);
}

/* Three digits are enough for the eye, and make most byte counts fit a larger unit. */
static uint64_t rounded(double amount)
{
    uint64_t step = 1, whole = amount < 1e18 ? (uint64_t)(amount + 0.5) : UINT64_C(1000000000000000000);
    while (whole / step >= 1000)
        step *= 10;
    return (whole + step / 2) / step * step;
}

/* What a bucket's tokens are shown in: bytes by the family of units that its rate is written in. */
enum family {
    FAMILY_CALLS,
    FAMILY_DECIMAL,
    FAMILY_BINARY,
};

static void format_asked(char text[CELL], const struct tundish_info *info)
{
    const struct tdi_rate rate = {info->refill, info->interval_us, info->flags & TUNDISH_BYTES};
    if (info->interval_us == 0)
        snprintf(text, CELL, "-");
    else
        tdi_unit_format_rate(text, CELL, &rate);
}

static enum family family_of(const struct tundish_info *info)
{
    char rate[CELL];
    if (!(info->flags & TUNDISH_BYTES))
        return FAMILY_CALLS;
    format_asked(rate, info);
    return strstr(rate, "iB") ? FAMILY_BINARY : FAMILY_DECIMAL;
}

static void format_binary(char text[CELL], double amount)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    const size_t last = sizeof(units) / sizeof(units[0]) - 1;
    size_t unit = 0;
    for (; amount >= 999.5 && unit < last; unit++)
        amount /= 1024;
    snprintf(text, CELL, unit == 0 ? "%.0f %s" : "%.3g %s", amount, units[unit]);
}

static void format_amount(char text[CELL], double amount, enum family family)
{
    if (family == FAMILY_BINARY)
        format_binary(text, amount);
    else if (family == FAMILY_DECIMAL)
        tdi_unit_format_count(text, CELL, rounded(amount), true);
    else if (amount > 0 && amount < 99.95)
        snprintf(text, CELL, "%.1f", amount);
    else if (amount < 1e8)
        snprintf(text, CELL, "%.0f", amount);
    else
        snprintf(text, CELL, "%.2e", amount);
}

static void format_rate(char text[CELL], const struct tdi_top_rates *rates, double rate, enum family family)
{
    if (rates->measured)
        format_amount(text, rate, family);
    else
        snprintf(text, CELL, "-");
}

static void format_tokens(char text[CELL], uint32_t tokens, enum family family)
{
    if (family != FAMILY_CALLS)
        format_amount(text, tokens, family);
    else if (tokens < 1000000000)
        snprintf(text, CELL, "%" PRIu32, tokens);
    else
        snprintf(text, CELL, "%.2e", (double)tokens);
}

static void format_used(char text[CELL], const struct tdi_top_bucket *bucket)
{
    double percent = bucket->used * 100;
    if (!bucket->rates.measured)
        snprintf(text, CELL, "-");
    else
        snprintf(text, CELL, percent < 1000 ? "%.0f%%" : ">999%%", percent);
}

static void format_wait(char text[CELL], uint64_t ns)
{
    if (ns == 0)
        snprintf(text, CELL, "-");
    else
        tdi_unit_format_duration(text, CELL, ns);
}

/* The latest at the right. Nothing at all is a blank, and the whole rate the highest of eight levels. */
static void put_history(struct tdi_top_line *line, const struct tdi_top_bucket *bucket, uint32_t width)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
    const char *const *levels = tdi_top_is_utf8() ? blocks : ascii;
    uint32_t known = bucket->intervals < width ? bucket->intervals : width;
    if (width == 0)
        return;
    put_blanks(line, 1 + width - known);
    for (uint32_t back = known; back > 0; back--) {
        double used = bucket->history[(bucket->intervals - back) % TDI_TOP_HISTORY];
        uint32_t level = used <= 0 ? 0 : used >= 1 ? 8 : 1 + (uint32_t)(used * 8);
        put_text(line, levels[level < 8 ? level : 8], 1);
    }
}

void tdi_top_bucket_line(struct tdi_top_line *line, const struct tdi_top_layout *layout,
                         const struct tdi_top_bucket *bucket)
{
    const struct tundish_info *info = &bucket->info;
    enum family family = family_of(info);
    char cell[TDI_TOP_FIELDS][CELL];
    format_asked(cell[FIELD_RATE], info);
    format_rate(cell[FIELD_ACHIEVED], &bucket->rates, bucket->rates.tokens, family);
    format_used(cell[FIELD_USED], bucket);
    format_tokens(cell[FIELD_TOKENS], info->available, family);
    snprintf(cell[FIELD_WAITING], CELL, "%" PRIu32, info->waiting);
    format_wait(cell[FIELD_P50], bucket->p50_ns);
    format_wait(cell[FIELD_P99], bucket->p99_ns);
    format_rate(cell[FIELD_REFUSED], &bucket->rates, bucket->rates.refused, FAMILY_CALLS);
    start_line(line);
    put_cell(line, bucket->label, layout->width[FIELD_NAME], false);
    for (uint32_t i = FIELD_RATE; i < FIELD_HISTORY; i++)
        put_cell(line, cell[i], layout->width[i], true);
    put_history(line, bucket, layout->width[FIELD_HISTORY]);
}

/* A further thing to say of an instance, if there is room for all of it. */
static void put_remark(struct tdi_top_line *line, const struct tdi_top_layout *layout, const char *text)
{
    if (line->columns + 2 + width_of(text) > layout->columns)
        return;
    put_blanks(line, 2);
    put_text(line, text, layout->columns);
}

void tdi_top_instance_line(struct tdi_top_line *line, const struct tdi_top_layout *layout,
                           const struct tdi_top_instance *instance, const struct tundish_info *info)
{
    const struct tdi_top_rates *rates = &instance->rates;
    char number[CELL], text[2 * CELL];
    start_line(line);
    put_instance(line, instance, layout->width[FIELD_NAME]);
    put_cell(line, "", layout->width[FIELD_RATE], true);
    format_rate(number, rates, rates->tokens, family_of(info));
    put_cell(line, number, layout->width[FIELD_ACHIEVED], true);
    if (rates->measured) {
        format_amount(number, rates->operations, FAMILY_CALLS);
        snprintf(text, sizeof(text), "%9s op/s", number);
        put_remark(line, layout, text);
        format_amount(number, rates->refused, FAMILY_CALLS);
        snprintf(text, sizeof(text), "%7s refused/s", number);
        put_remark(line, layout, text);
        format_wait(number, rates->waited_ns);
        snprintf(text, sizeof(text), "waited %7s", number);
        put_remark(line, layout, text);
    }
    put_remark(line, layout,
               !instance->counts                      ? "does not count"
               : instance->strategy == TUNDISH_LEASED ? "leased"
                                                      : "direct");
}

void tdi_top_title(struct tdi_top_line *line, const struct tdi_top_view *view, uint32_t columns,
                   const char *more)
{
    const size_t count = view->top->count;
    const struct tdi_top_layout all = {.columns = columns};
    char text[CELL];
    time_t now = time(NULL);
    struct tm parts;
    start_line(line);
    if (!localtime_r(&now, &parts) || strftime(text, sizeof(text), "%H:%M:%S", &parts) == 0)
        snprintf(text, sizeof(text), "-");
    put_text(line, text, columns);
    snprintf(text, sizeof(text), "%zu bucket%s", count, count == 1 ? "" : "s");
    put_remark(line, &all, text);
    snprintf(text, sizeof(text), "%zu cannot be opened", view->top->closed);
    if (view->top->closed > 0)
        put_remark(line, &all, text);
    snprintf(text, sizeof(text), "every %g s", (double)view->interval_ns / (double)TDI_TOP_NS_PER_S);
    put_remark(line, &all, text);
    if (more[0])
        put_remark(line, &all, more);
}
