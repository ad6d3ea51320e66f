/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "snippets.h"

static char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    struct iovec parts[2] = {{text, 5}, {text + 5, sizeof text - 5}};
    errno = EDOM;
    CHECK(writev(ends[0], parts, 2) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_expect(ends[1], text, sizeof text) == 0);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_writev = {"writev", sizeof text, run};
