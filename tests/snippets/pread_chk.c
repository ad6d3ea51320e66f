/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "snippets.h"

ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    char arrived[100] = "";
    int fd = peer_file(text, sizeof text);
    CHECK(fd >= 0);
    errno = EDOM;
    CHECK(__pread_chk(fd, arrived, sizeof arrived, 2, sizeof arrived) == (ssize_t)sizeof text - 2);
    CHECK(errno == EDOM);
    CHECK(memcmp(arrived, text + 2, sizeof text - 2) == 0);
    close(fd);
    return 0;
}

const struct snippet snippet_pread_chk = {"__pread_chk", sizeof text - 2, run};
