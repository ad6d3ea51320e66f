/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    off64_t at = 2;
    int fd = peer_file(text, sizeof text);
    CHECK(peer_pair(ends) == 0 && fd >= 0);
    errno = EDOM;
    CHECK(sendfile64(ends[0], fd, &at, 1000) == (ssize_t)sizeof text - 2);
    CHECK(errno == EDOM);
    CHECK(at == sizeof text);
    CHECK(peer_expect(ends[1], text + 2, sizeof text - 2) == 0);
    close(fd);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_sendfile64 = {"sendfile64", sizeof text - 2, run};
