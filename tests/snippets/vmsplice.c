/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "snippets.h"

static char text[] = "a line of text that must arrive";

static int run(void)
{
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    struct iovec parts[2] = {{text, 5}, {text + 5, sizeof text - 5}};
    errno = EDOM;
    CHECK(vmsplice(pipes[1], parts, 2, 0) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_expect(pipes[0], text, sizeof text) == 0);
    close(pipes[1]);
    close(pipes[0]);
    return 0;
}

const struct snippet snippet_vmsplice = {"vmsplice", sizeof text, run};
