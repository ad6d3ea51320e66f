/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw_call.h"
#include "snippets.h"

ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, void *from, socklen_t *len);

static const char text[] = "a datagram";

static int run(void)
{
    struct sockaddr_in to, from;
    socklen_t len = sizeof to;
    char arrived[100] = "";
    int fd = peer_listen(SOCK_DGRAM), sender = peer_listen(SOCK_DGRAM);
    CHECK(fd >= 0 && sender >= 0);
    CHECK(getsockname(fd, (struct sockaddr *)&to, &len) == 0);
    CHECK(raw_call(SYS_sendto, sender, RAW(text), sizeof text, 0, RAW(&to), len) == sizeof text);
    errno = EDOM;
    CHECK(__recvfrom_chk(fd, arrived, sizeof arrived, sizeof arrived, 0, &from, &len) ==
          (ssize_t)sizeof text);
    CHECK(errno == EDOM);
    CHECK(memcmp(arrived, text, sizeof text) == 0);
    CHECK(len == sizeof from && from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    close(sender);
    close(fd);
    return 0;
}

const struct snippet snippet_recvfrom_chk = {"__recvfrom_chk", sizeof text, run};
