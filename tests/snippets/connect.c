/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "snippets.h"

static int run(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener = peer_listen(SOCK_STREAM);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && fd >= 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    errno = EDOM;
    CHECK(connect(fd, (struct sockaddr *)&address, len) == 0);
    CHECK(errno == EDOM);
    CHECK(getpeername(fd, (struct sockaddr *)&address, &len) == 0);
    close(fd);
    close(listener);
    return 0;
}

const struct snippet snippet_connect = {"connect", 0, run};
