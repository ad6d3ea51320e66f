/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "snippets.h"

static char text[] = "a line of text that must arrive";

static int run(void)
{
    int ends[2];
    CHECK(peer_pair(ends) == 0);
    struct iovec parts[2] = {{text, 5}, {text + 5, sizeof text - 5}};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = parts, .msg_iovlen = 2}};
    errno = EDOM;
    CHECK(sendmmsg(ends[0], &message, 1, 0) == 1);
    CHECK(errno == EDOM);
    CHECK(message.msg_len == sizeof text);
    CHECK(peer_expect(ends[1], text, sizeof text) == 0);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_sendmmsg = {"sendmmsg", sizeof text, run};
