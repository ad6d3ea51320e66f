/* SPDX-License-Identifier: MIT */
/* What a terminal can do, asked alone: <term.h> makes macros of words such as `lines` and `columns`. */
#include "sidecar/top_view.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

bool tdi_top_has_screen(void)
{
    const char *term = getenv("TERM");
    int found;
    if (!term || !*term || strcmp(term, "dumb") == 0 || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return false;
    if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
        return false;
    bool moves = cursor_address && clear_screen;
    del_curterm(cur_term);
    return moves;
}
