/* SPDX-License-Identifier: MIT */
/*
 * `tundish top` without a screen: one table for each interval, for files, pipes and terminals that cannot do
 * better.
 */
#include "sidecar/top_view.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

uint64_t tdi_top_next_ns(uint64_t end_ns, uint64_t interval_ns)
{
    uint64_t now_ns = tundish_now_ns();
    uint64_t late_ns = now_ns > end_ns ? now_ns - end_ns : 0;
    return end_ns + late_ns / interval_ns * interval_ns + interval_ns;
}

static void sleep_until(uint64_t end_ns)
{
    uint64_t now_ns;
    while ((now_ns = tundish_now_ns()) < end_ns) {
        uint64_t left_ns = end_ns - now_ns;
        const struct timespec left = {(time_t)(left_ns / TDI_TOP_NS_PER_S),
                                      (long)(left_ns % TDI_TOP_NS_PER_S)};
        nanosleep(&left, NULL);
    }
}

/* As wide as the terminal, or as it gets. */
static uint32_t columns_of_output(void)
{
    struct winsize size;
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : TDI_TOP_COLUMNS;
}

static void print_line(struct tdi_top_line *line)
{
    while (line->bytes > 0 && line->text[line->bytes - 1] == ' ')
        line->text[--line->bytes] = '\0';
    puts(line->text);
}

static void print_bucket(const struct tdi_top_layout *layout, const struct tdi_top_bucket *bucket)
{
    struct tdi_top_line line;
    tdi_top_bucket_line(&line, layout, bucket);
    print_line(&line);
    for (uint32_t i = 0; i < bucket->instances; i++) {
        tdi_top_instance_line(&line, layout, &bucket->instance[i], &bucket->info);
        print_line(&line);
    }
}

/* 0 or a negative errno. */
static int print_table(const struct tdi_top_view *view, bool first)
{
    struct tdi_top_line line;
    struct tdi_top_layout layout;
    tdi_top_lay_out(&layout, view->top, columns_of_output(), true);
    tdi_top_title(&line, view, layout.columns, "");
    if (!first)
        putchar('\n');
    print_line(&line);
    tdi_top_heading(&line, &layout);
    print_line(&line);
    for (size_t i = 0; i < view->top->count; i++)
        print_bucket(&layout, view->top->bucket[i]);
    return fflush(stdout) == 0 ? 0 : -errno;
}

int tdi_top_plain(struct tdi_top_view *view)
{
    uint64_t end_ns = tundish_now_ns();
    bool first = true;
    int error = view->look(view->top, view->context);
    for (uint32_t left = view->count; !error && (first || view->count == 0 || left > 0); first = false) {
        end_ns = tdi_top_next_ns(end_ns, view->interval_ns);
        sleep_until(end_ns);
        error = view->look(view->top, view->context);
        tdi_top_sort(view->top, TDI_TOP_BY_NAME);
        if (!error)
            error = print_table(view, first);
        left -= left > 0;
    }
    return error;
}
