/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "snippets.h"

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    char arrived[100] = "";
    CHECK(peer_pair(ends) == 0);
    CHECK(peer_put(ends[1], text, sizeof text) == 0);
    errno = EDOM;
    CHECK(__recv_chk(ends[0], arrived, sizeof arrived, sizeof arrived, 0) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(memcmp(arrived, text, sizeof text) == 0);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_recv_chk = {"__recv_chk", sizeof text, run};
