/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2], pipes[2];
    CHECK(peer_pair(ends) == 0 && pipe(pipes) == 0);
    CHECK(peer_put(pipes[1], text, sizeof text) == 0);
    errno = EDOM;
    CHECK(splice(pipes[0], NULL, ends[0], NULL, 1000, 0) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_expect(ends[1], text, sizeof text) == 0);
    close(pipes[1]);
    close(pipes[0]);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_splice = {"splice", sizeof text, run};
