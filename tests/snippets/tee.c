/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int from[2], to[2];
    CHECK(pipe(from) == 0 && pipe(to) == 0);
    CHECK(peer_put(from[1], text, sizeof text) == 0);
    errno = EDOM;
    CHECK(tee(from[0], to[1], 1000, 0) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_expect(from[0], text, sizeof text) == 0);
    CHECK(peer_expect(to[0], text, sizeof text) == 0);
    for (int i = 0; i < 2; i++) {
        close(from[i]);
        close(to[i]);
    }
    return 0;
}

const struct snippet snippet_tee = {"tee", sizeof text, run};
