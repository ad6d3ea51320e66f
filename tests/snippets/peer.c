/* SPDX-License-Identifier: MIT */
/* The other end. connect goes by syscall(), so that only the snippet's own call can be charged. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "snippets.h"

int peer_listen(int type)
{
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        (type != SOCK_STREAM || listen(fd, 8) == 0))
        return fd;
    close(fd);
    return -1;
}

int peer_pair(int ends[2])
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener = peer_listen(SOCK_STREAM);
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&address, &len) != 0)
        return -1;
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ends[0] < 0 || syscall(SYS_connect, ends[0], &address, len) != 0)
        return -1;
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
    return ends[1] < 0 ? -1 : 0;
}

int peer_expect(int fd, const void *bytes, unsigned long n)
{
    char arrived[4096];
    if (n > sizeof arrived || recv(fd, arrived, n, MSG_WAITALL) != (ssize_t)n)
        return -1;
    return memcmp(arrived, bytes, n) == 0 ? 0 : -1;
}
