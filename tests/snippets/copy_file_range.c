/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int from = peer_file(text, sizeof text);
    int to = peer_file("", 0);
    off64_t at = 2;
    CHECK(from >= 0 && to >= 0);
    errno = EDOM;
    CHECK(copy_file_range(from, &at, to, NULL, 1000, 0) == (ssize_t)sizeof text - 2);
    CHECK(errno == EDOM);
    CHECK(at == sizeof text);
    CHECK(peer_holds(to, 0, text + 2, sizeof text - 2) == 0);
    close(to);
    close(from);
    return 0;
}

const struct snippet snippet_copy_file_range = {"copy_file_range", sizeof text - 2, run};
