/* SPDX-License-Identifier: MIT */
/*
 * connect: one call. Free are what sends nothing (UDP, AF_UNSPEC) and going on with a connection that an
 * earlier call began. Never EAGAIN.
 */
/* With it glibc declares addresses as a transparent union, and a definition could not be standard C. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE
#include <netinet/in.h>
#include <sys/socket.h>

#include "fd.h"
#include "gate.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    const struct sockaddr *address;
    socklen_t len;
};

static ssize_t real(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    (void)n;
    return tdi_real()->connect(call->fd, a->address, a->len);
}

static bool is_free(int fd, const struct sockaddr *address, socklen_t len)
{
    if (len < sizeof address->sa_family || len > sizeof(struct sockaddr_storage) ||
        !tdi_fd_readable(address, len) || address->sa_family == AF_UNSPEC)
        return true;
    int type = tdi_fd_type(fd);
    return type == SOCK_DGRAM || type == SOCK_RAW || tdi_fd_connect_begun(fd);
}

/* A datagram socket has another peer from now on, or none. The gate sees to the rest. */
static void forget_peer(int fd)
{
    const struct tdi_rules *rules = tdi_rules();
    if (rules == NULL || !rules->placed || tdi_inside.house > 0)
        return;
    tdi_known_forget_peer(fd);
}

TDI_WRAPPER int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    if (!tdi_gate_concerns(TDI_CALL_CONNECT, fd) || is_free(fd, address, len)) {
        int result = tdi_real()->connect(fd, address, len);
        forget_peer(fd);
        return result;
    }
    struct arguments arguments = {address, len};
    struct tdi_call call = {.kinds = TDI_CALL_CONNECT,
                            .fd = fd,
                            .whole = true,
                            .to = address,
                            .to_len = len,
                            .arguments = &arguments,
                            .real = real};
    return (int)tdi_gate(&call);
}

TDI_WRAPPER int __connect(int fd, const struct sockaddr *address, socklen_t len)
    __attribute__((alias("connect")));
