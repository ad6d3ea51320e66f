/* SPDX-License-Identifier: MIT */
/* See notify.h: one datagram to a socket with a path, or with an abstract name that is written with an @. */
#include "sidecar/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void tdi_notify(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len >= sizeof(address.sun_path) || (name[0] != '/' && name[0] != '@'))
        return;
    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    close(fd);
}
