/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    errno = EDOM;
    CHECK(write(ends[0], text, sizeof text) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_expect(ends[1], text, sizeof text) == 0);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_write = {"write", sizeof text, run};
