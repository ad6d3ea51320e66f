/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    char arrived[100] = "";
    int fd = peer_file(text, sizeof text);
    CHECK(fd >= 0);
    struct iovec parts[2] = {{arrived, 5}, {arrived + 5, sizeof arrived - 5}};
    errno = EDOM;
    CHECK(preadv(fd, parts, 2, 2) == (ssize_t)sizeof text - 2);
    CHECK(errno == EDOM);
    CHECK(memcmp(arrived, text + 2, sizeof text - 2) == 0);
    close(fd);
    return 0;
}

const struct snippet snippet_preadv = {"preadv", sizeof text - 2, run};
