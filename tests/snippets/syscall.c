/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    CHECK(syscall(SYS_getpid) == getpid());
    errno = EDOM;
    CHECK(syscall(SYS_write, ends[0], text, sizeof text) == (long)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_expect(ends[1], text, sizeof text) == 0);
    CHECK(syscall(SYS_close, ends[1]) == 0);
    CHECK(syscall(SYS_close, ends[1]) == -1 && errno == EBADF);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_syscall = {"syscall", sizeof text, run};
