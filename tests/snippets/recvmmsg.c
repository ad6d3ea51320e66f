/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
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
    struct iovec part = {arrived, sizeof arrived};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    errno = EDOM;
    CHECK(recvmmsg(ends[0], &message, 1, 0, NULL) == 1);
    CHECK(errno == EDOM);
    CHECK(message.msg_len == sizeof text && memcmp(arrived, text, sizeof text) == 0);
    close(ends[1]);
    close(ends[0]);
    return 0;
}

const struct snippet snippet_recvmmsg = {"recvmmsg", sizeof text, run};
