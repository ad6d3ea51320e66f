/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "snippets.h"

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    char arrived[100] = "";
    CHECK(peer_pair(ends) == 0);
    CHECK(peer_put(ends[1], text, sizeof text) == 0);
    errno = EDOM;
    CHECK(__read_chk(ends[0], arrived, sizeof arrived, sizeof arrived) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(memcmp(arrived, text, sizeof text) == 0);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_read_chk = {"__read_chk", sizeof text, run};
