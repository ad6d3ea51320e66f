/* SPDX-License-Identifier: MIT */
/* The other end. All that could be charged goes past every library, so that only the snippet's call is. */
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw_call.h"
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
    if (ends[0] < 0 || raw_call(SYS_connect, ends[0], RAW(&address), len, 0, 0, 0) != 0)
        return -1;
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
    return ends[1] < 0 ? -1 : 0;
}

int peer_put(int fd, const void *bytes, unsigned long n)
{
    return raw_call(SYS_write, fd, RAW(bytes), (long)n, 0, 0, 0) == (long)n ? 0 : -1;
}

int peer_expect(int fd, const void *bytes, unsigned long n)
{
    char arrived[4096];
    unsigned long got = 0;
    while (n <= sizeof arrived && got < n) {
        long part = raw_call(SYS_read, fd, RAW(arrived + got), (long)(n - got), 0, 0, 0);
        if (part <= 0)
            return -1;
        got += (unsigned long)part;
    }
    return got == n && memcmp(arrived, bytes, n) == 0 ? 0 : -1;
}

int peer_file(const void *bytes, unsigned long n)
{
    int fd = memfd_create("peer", MFD_CLOEXEC);
    if (fd >= 0 && raw_call(SYS_pwrite64, fd, RAW(bytes), (long)n, 0, 0, 0) == (long)n)
        return fd;
    close(fd);
    return -1;
}

int peer_holds(int fd, unsigned long at, const void *bytes, unsigned long n)
{
    char there[4096];
    if (n > sizeof there || raw_call(SYS_pread64, fd, RAW(there), (long)n, (long)at, 0, 0) != (long)n)
        return -1;
    return memcmp(there, bytes, n) == 0 ? 0 : -1;
}
