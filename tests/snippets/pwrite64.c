/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int fd = peer_file("0123", 4);
    CHECK(fd >= 0);
    errno = EDOM;
    CHECK(pwrite64(fd, text, sizeof text, 2) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_holds(fd, 0, "01", 2) == 0 && peer_holds(fd, 2, text, sizeof text) == 0);
    close(fd);
    return 0;
}

const struct snippet snippet_pwrite64 = {"pwrite64", sizeof text, run};
