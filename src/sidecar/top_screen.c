/* SPDX-License-Identifier: MIT */
/*
 * `tundish top` on a screen, with curses.
 *
 * Signals are let in at one place only, where the view waits for a key or the end of the interval. So none of them
 * meets the library in the middle of its work, and whichever ends the view, the terminal is restored first.
 */
#include "sidecar/top_view.h"

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum {
    HEAD = 2, /* lines above the buckets */
    ESCAPE_MS = 25,
    UNREAD_MOST = 16, /* then the terminal is gone, or somebody else's */
    COLOR_BUSY = 1,   /* pairs */
    COLOR_REFUSED = 2,
    CONTROL_L = 'L' - '@',
};

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum {
    ENDING = sizeof(ending) / sizeof(ending[0]),
};

enum instances {
    INSTANCES_IF_ROOM,
    INSTANCES_SHOWN,
    INSTANCES_HIDDEN,
};

struct screen {
    struct tdi_top_view *view;
    enum tdi_top_key key;
    enum instances instances;
    bool paused;
    bool helps;
    bool over;
    uint32_t done;   /* intervals */
    uint32_t unread; /* times in a row that there was something to read, and nothing came */
    uint64_t end_ns;
    size_t from; /* the first line shown, of `lines` */
    size_t lines;
    struct sigaction were[ENDING];
    sigset_t waiting; /* the mask while waiting */
    sigset_t mask;    /* and as it was found */
};

static _Atomic(int) ended_by;

static void note_signal(int signal)
{
    ended_by = signal;
}

static const struct {
    int letter;
    enum tdi_top_key key;
    const char *word;
} orders[] = {
    {'n', TDI_TOP_BY_NAME, "by name"},       {'r', TDI_TOP_BY_RATE, "by rate"},
    {'w', TDI_TOP_BY_WAITING, "by waiting"}, {'p', TDI_TOP_BY_P99, "by p99 wait"},
    {'u', TDI_TOP_BY_USED, "by use"},
};

enum {
    ORDERS = sizeof(orders) / sizeof(orders[0]),
};

static const char *const help[] = {
    "q         quit",
    "n r u     by name, rate achieved, use",
    "w p       by acquires waiting, p99 wait",
    "i         who has the buckets open",
    "arrows    scroll, also PgUp PgDn Home End",
    "space     pause, go on",
    "+ -       longer, shorter interval",
    "h ?       this help; any key leaves it",
};

static size_t page(void)
{
    return LINES > HEAD ? (size_t)(LINES - HEAD) : 1;
}

/* Lines below the heading, with instances and without. */
static size_t count_lines(const struct tdi_top *top, bool instances)
{
    size_t lines = top->count;
    for (size_t i = 0; instances && i < top->count; i++)
        lines += top->bucket[i]->instances;
    return lines;
}

static bool shows_instances(const struct screen *screen)
{
    if (screen->instances == INSTANCES_IF_ROOM)
        return count_lines(screen->view->top, true) <= page();
    return screen->instances == INSTANCES_SHOWN;
}

static attr_t colored(const struct screen *screen, short pair)
{
    return screen->view->colors ? (attr_t)COLOR_PAIR(pair) : A_NORMAL;
}

static attr_t look_of(const struct screen *screen, const struct tdi_top_bucket *bucket)
{
    if (bucket->instances == 0)
        return A_DIM;
    if (bucket->rates.refused > 0)
        return colored(screen, COLOR_REFUSED);
    return bucket->info.waiting > 0 ? colored(screen, COLOR_BUSY) : A_NORMAL;
}

/* Lines were made to fit, so that none is broken. */
static void put_line(int y, const struct tdi_top_line *line, attr_t look)
{
    if (y >= LINES)
        return;
    attrset((int)look);
    mvaddstr(y, 0, line->text);
    attrset(A_NORMAL);
}

/* Where line `number` of all is on the screen; false if it is not. */
static bool place(const struct screen *screen, size_t number, int *y)
{
    if (number < screen->from || number - screen->from >= page())
        return false;
    *y = HEAD + (int)(number - screen->from);
    return true;
}

static void draw_buckets(const struct screen *screen, const struct tdi_top_layout *layout, bool instances)
{
    struct tdi_top_line line;
    size_t number = 0;
    int y;
    for (size_t i = 0; i < screen->view->top->count; i++) {
        const struct tdi_top_bucket *bucket = screen->view->top->bucket[i];
        if (place(screen, number++, &y)) {
            tdi_top_bucket_line(&line, layout, bucket);
            put_line(y, &line, look_of(screen, bucket));
        }
        for (uint32_t j = 0; instances && j < bucket->instances; j++) {
            if (!place(screen, number++, &y))
                continue;
            tdi_top_instance_line(&line, layout, &bucket->instance[j], &bucket->info);
            put_line(y, &line, A_NORMAL);
        }
    }
}

static void draw_help(void)
{
    for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
        if ((int)i + HEAD < LINES)
            mvaddnstr((int)i + HEAD, 0, help[i], COLS);
}

static void draw_title(const struct screen *screen)
{
    struct tdi_top_line line;
    char more[64];
    snprintf(more, sizeof(more), "%s%s", orders[screen->key].word, screen->paused ? "  paused" : "  h: help");
    tdi_top_title(&line, screen->view, COLS > 0 ? (uint32_t)COLS : 1, more);
    put_line(0, &line, A_BOLD);
}

static void draw(struct screen *screen)
{
    struct tdi_top_line line;
    struct tdi_top_layout layout;
    bool instances = shows_instances(screen);
    screen->lines = count_lines(screen->view->top, instances);
    if (screen->from + page() > screen->lines)
        screen->from = screen->lines > page() ? screen->lines - page() : 0;
    tdi_top_lay_out(&layout, screen->view->top, COLS > 0 ? (uint32_t)COLS : 1, instances);
    erase();
    draw_title(screen);
    tdi_top_heading(&line, &layout);
    put_line(1, &line, A_REVERSE);
    if (screen->helps)
        draw_help();
    else
        draw_buckets(screen, &layout, instances);
    refresh();
}

static void set_order(struct screen *screen, enum tdi_top_key key)
{
    screen->key = key;
    screen->from = 0;
    tdi_top_sort(screen->view->top, key);
}

/* The next interval of a row of round ones; the one that was asked for need not be among them. */
static void change_interval(struct screen *screen, bool longer)
{
    static const uint32_t tenths[] = {1, 2, 5, 10, 20, 50, 100, 300, 600, 36000};
    const size_t count = sizeof(tenths) / sizeof(tenths[0]);
    struct tdi_top_view *view = screen->view;
    uint64_t began_ns = screen->end_ns - view->interval_ns, chosen_ns = view->interval_ns;
    for (size_t i = 0; i < count; i++) {
        uint64_t ns = tenths[longer ? i : count - 1 - i] * (TDI_TOP_NS_PER_S / 10);
        if (longer ? ns > chosen_ns : ns < chosen_ns) {
            view->interval_ns = ns;
            break;
        }
    }
    screen->end_ns = began_ns + view->interval_ns;
}

static void scroll_by(struct screen *screen, size_t lines, bool down)
{
    size_t last = screen->lines > page() ? screen->lines - page() : 0;
    if (down)
        screen->from = last - screen->from > lines && screen->from < last ? screen->from + lines : last;
    else
        screen->from = screen->from > lines ? screen->from - lines : 0;
}

static bool scrolls(struct screen *screen, int key)
{
    switch (key) {
    case KEY_UP:
    case KEY_DOWN:
        scroll_by(screen, 1, key == KEY_DOWN);
        return true;
    case KEY_PPAGE:
    case KEY_NPAGE:
        scroll_by(screen, page(), key == KEY_NPAGE);
        return true;
    case KEY_HOME:
    case KEY_END:
        scroll_by(screen, SIZE_MAX, key == KEY_END);
        return true;
    default:
        return false;
    }
}

static void obey(struct screen *screen, int key)
{
    bool helped = screen->helps;
    screen->helps = helped && key == KEY_RESIZE;
    if (helped || scrolls(screen, key))
        return;
    for (size_t i = 0; i < ORDERS; i++)
        if (key == orders[i].letter)
            set_order(screen, orders[i].key);
    if (key == 'q')
        screen->over = true;
    else if (key == 'i')
        screen->instances = shows_instances(screen) ? INSTANCES_HIDDEN : INSTANCES_SHOWN;
    else if (key == ' ')
        screen->paused = !screen->paused;
    else if (key == '+' || key == '=' || key == '-')
        change_interval(screen, key != '-');
    else if (key == CONTROL_L)
        clearok(curscr, TRUE);
    else if (key == 'h' || key == '?')
        screen->helps = true;
}

/* Until there is a key, a signal, or the interval is over. A terminal that is gone ends the view. */
static void wait_for_more(struct screen *screen)
{
    uint64_t now_ns = tundish_now_ns();
    uint64_t left_ns = screen->end_ns > now_ns ? screen->end_ns - now_ns : 0;
    const struct timespec left = {(time_t)(left_ns / TDI_TOP_NS_PER_S), (long)(left_ns % TDI_TOP_NS_PER_S)};
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = ppoll(&keys, 1, screen->paused ? NULL : &left, &screen->waiting);
    screen->unread = ready > 0 ? screen->unread + 1 : 0;
    screen->over = ended_by || (ready > 0 && (keys.revents & ~POLLIN)) || screen->unread > UNREAD_MOST;
}

static void read_keys(struct screen *screen)
{
    int key;
    while (!screen->over && (key = getch()) != ERR) {
        screen->unread = 0;
        obey(screen, key);
    }
}

static int look(struct screen *screen)
{
    struct tdi_top_view *view = screen->view;
    int error = view->look(view->top, view->context);
    tdi_top_sort(view->top, screen->key);
    return error;
}

static int look_if_over(struct screen *screen)
{
    if (screen->over || screen->paused || tundish_now_ns() < screen->end_ns)
        return 0;
    screen->end_ns = tdi_top_next_ns(screen->end_ns, screen->view->interval_ns);
    return look(screen);
}

static int show(struct screen *screen)
{
    uint64_t shown_ns;
    int error = look(screen);
    screen->end_ns = tdi_top_next_ns(tundish_now_ns(), screen->view->interval_ns);
    while (!error && !screen->over) {
        draw(screen);
        wait_for_more(screen);
        read_keys(screen);
        shown_ns = screen->end_ns;
        error = look_if_over(screen);
        screen->done += screen->end_ns != shown_ns;
        screen->over |= screen->view->count > 0 && screen->done >= screen->view->count;
    }
    return error;
}

/* Before curses starts, which leaves those alone that have a handler. What is ignored stays so. */
static void catch_signals(struct screen *screen)
{
    sigset_t block;
    struct sigaction note = {.sa_handler = note_signal};
    sigemptyset(&note.sa_mask);
    sigemptyset(&block);
    sigaddset(&block, SIGWINCH);
    ended_by = 0;
    for (size_t i = 0; i < ENDING; i++) {
        sigaddset(&block, ending[i]);
        sigaction(ending[i], NULL, &screen->were[i]);
        if (screen->were[i].sa_handler != SIG_IGN)
            sigaction(ending[i], &note, NULL);
    }
    sigprocmask(SIG_BLOCK, &block, &screen->mask);
    screen->waiting = screen->mask;
    sigdelset(&screen->waiting, SIGWINCH);
}

static void release_signals(const struct screen *screen)
{
    for (size_t i = 0; i < ENDING; i++)
        sigaction(ending[i], &screen->were[i], NULL);
    sigprocmask(SIG_SETMASK, &screen->mask, NULL);
}

static void prepare(const struct screen *screen)
{
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    curs_set(0);
    screen->view->colors = screen->view->colors && has_colors() && start_color() == OK;
    if (!screen->view->colors)
        return;
    use_default_colors();
    init_pair(COLOR_BUSY, COLOR_YELLOW, -1);
    init_pair(COLOR_REFUSED, COLOR_RED, -1);
}

int tdi_top_screen(struct tdi_top_view *view)
{
    struct screen screen = {.view = view, .key = TDI_TOP_BY_NAME};
    if (!tdi_top_has_screen())
        return -ENOTTY;
    catch_signals(&screen);
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    int error = terminal ? 0 : -ENOTTY;
    if (!error) {
        prepare(&screen);
        error = show(&screen);
        endwin();
        delscreen(terminal);
    }
    release_signals(&screen);
    return error ? error : ended_by;
}
