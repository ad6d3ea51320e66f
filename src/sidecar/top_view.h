/* SPDX-License-Identifier: MIT */
/*
 * How `tundish top` shows what it knows: as lines of text that fit, and these on a screen or one table after the
 * other. Names and programs are made harmless here: what cannot be printed in the user's locale becomes '?'.
 */
#ifndef TUNDISH_SIDECAR_TOP_VIEW_H
#define TUNDISH_SIDECAR_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sidecar/top.h"

/* The interval, whoever chooses it. */
#define TDI_TOP_INTERVAL_MIN_NS UINT64_C(100000000)
#define TDI_TOP_INTERVAL_MAX_NS (UINT64_C(3600) * TDI_TOP_NS_PER_S)

struct tdi_top_view {
    struct tdi_top *top;
    uint64_t interval_ns;
    uint32_t count; /* intervals until it ends, 0 never */
    bool colors;
    int (*look)(struct tdi_top *top, void *context); /* all of a look; a negative errno ends the view */
    void *context;
};

/*
 * Each shows until it is over: 0; a negative errno; or, from the screen, the signal that ended it, after the
 * terminal has been restored. -ENOTTY: this terminal has no screen, and nothing was done.
 */
int tdi_top_plain(struct tdi_top_view *view);
int tdi_top_screen(struct tdi_top_view *view);

/* top_terminal.c: whether standard input and output are a terminal on which the screen can be drawn. */
bool tdi_top_has_screen(void);

/* The end of the next interval after `end_ns`; those that are over already are left out. */
uint64_t tdi_top_next_ns(uint64_t end_ns, uint64_t interval_ns);

/*
 * top_text.c: lines.
 */
#define TDI_TOP_COLUMNS 400 /* a wider screen has a margin */

struct tdi_top_line {
    char text[TDI_TOP_COLUMNS * 4 + 1];
    uint32_t columns; /* of the screen, that it takes */
    size_t bytes;
};

/* The columns that there is room for. */
#define TDI_TOP_FIELDS 10
struct tdi_top_layout {
    uint32_t columns;
    uint32_t width[TDI_TOP_FIELDS]; /* 0: left out */
};

/* The locale's characters: whether lines may have more than ASCII. */
bool tdi_top_is_utf8(void);

void tdi_top_lay_out(struct tdi_top_layout *out, const struct tdi_top *top, uint32_t columns, bool instances);

/* Each fills the line, no wider than the layout. */
void tdi_top_heading(struct tdi_top_line *line, const struct tdi_top_layout *layout);
void tdi_top_bucket_line(struct tdi_top_line *line, const struct tdi_top_layout *layout,
                         const struct tdi_top_bucket *bucket);
void tdi_top_instance_line(struct tdi_top_line *line, const struct tdi_top_layout *layout,
                           const struct tdi_top_instance *instance, const struct tundish_info *info);

/* The first line: what is shown, and when; `more` is added if there is room. */
void tdi_top_title(struct tdi_top_line *line, const struct tdi_top_view *view, uint32_t columns,
                   const char *more);

#endif
