/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    char arrived[100] = "";
    CHECK(peer_pair(ends) == 0);
    CHECK(peer_put(ends[1], text, sizeof text) == 0);
    struct iovec parts[2] = {{arrived, 5}, {arrived + 5, sizeof arrived - 5}};
    errno = EDOM;
    CHECK(readv(ends[0], parts, 2) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(memcmp(arrived, text, sizeof text) == 0);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_readv = {"readv", sizeof text, run};
