/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "snippets.h"

static const char text[] = "a datagram";

static int run(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int receiver = peer_listen(SOCK_DGRAM);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(receiver >= 0 && fd >= 0);
    CHECK(getsockname(receiver, (struct sockaddr *)&address, &len) == 0);
    errno = EDOM;
    CHECK(sendto(fd, text, sizeof text, 0, (struct sockaddr *)&address, len) == (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(peer_expect(receiver, text, sizeof text) == 0);
    close(fd);
    close(receiver);
    return 0;
}

const struct snippet snippet_sendto = {"sendto", sizeof text, run};
