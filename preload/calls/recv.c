/* SPDX-License-Identifier: MIT */
/*
 * recv, recvfrom, recvmsg. Free is what takes nothing from the connection: a look ahead, and the error queue.
 * MSG_TRUNC makes them return how long a datagram was, and that is what came. The checked variants stay
 * libc's: they end the program if n is more than there is room.
 */
/* With it glibc declares addresses as a transparent union, and a definition could not be standard C. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE
#include <limits.h>
#include <sys/socket.h>

#include "gate.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    void *buf;
    size_t room;
    struct sockaddr *from;
    socklen_t *len;
};

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *from,
                       socklen_t *len);

static ssize_t real_recv(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->recv(call->fd, a->buf, n, call->flags);
}

static ssize_t real_recv_chk(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->recv_chk(call->fd, a->buf, n, a->room, call->flags);
}

static ssize_t real_recvfrom(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->recvfrom(call->fd, a->buf, n, call->flags, a->from, a->len);
}

static ssize_t real_recvfrom_chk(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->recvfrom_chk(call->fd, a->buf, n, a->room, call->flags, a->from, a->len);
}

static ssize_t real_recvmsg(const struct tdi_call *call, size_t from, size_t n)
{
    struct msghdr *const *message = call->arguments;
    (void)from;
    (void)n;
    return tdi_real()->recvmsg(call->fd, *message, call->flags);
}

static bool concerns(uint32_t kind, int fd, int flags)
{
    return (flags & (MSG_PEEK | MSG_ERRQUEUE)) == 0 && tdi_gate_concerns(kind, fd);
}

TDI_WRAPPER ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    if (!concerns(TDI_CALL_RECV, fd, flags))
        return tdi_real()->recv(fd, buf, n, flags);
    struct arguments arguments = {.buf = buf};
    struct tdi_call call = {.kinds = TDI_CALL_RECV,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .length = n,
                            .arguments = &arguments,
                            .real = real_recv};
    return tdi_gate_receive(&call);
}

TDI_WRAPPER ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
    if (!concerns(TDI_CALL_RECV, fd, flags))
        return tdi_real()->recv_chk(fd, buf, n, room, flags);
    struct arguments arguments = {.buf = buf, .room = room};
    struct tdi_call call = {.kinds = TDI_CALL_RECV,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .length = n,
                            .arguments = &arguments,
                            .real = real_recv_chk};
    return tdi_gate_receive(&call);
}

TDI_WRAPPER ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *len)
{
    if (!concerns(TDI_CALL_RECVFROM, fd, flags))
        return tdi_real()->recvfrom(fd, buf, n, flags, from, len);
    struct arguments arguments = {.buf = buf, .from = from, .len = len};
    struct tdi_call call = {.kinds = TDI_CALL_RECVFROM,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .length = n,
                            .arguments = &arguments,
                            .real = real_recvfrom};
    return tdi_gate_receive(&call);
}

TDI_WRAPPER ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *from,
                                   socklen_t *len)
{
    if (!concerns(TDI_CALL_RECVFROM, fd, flags))
        return tdi_real()->recvfrom_chk(fd, buf, n, room, flags, from, len);
    struct arguments arguments = {buf, room, from, len};
    struct tdi_call call = {.kinds = TDI_CALL_RECVFROM,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .length = n,
                            .arguments = &arguments,
                            .real = real_recvfrom_chk};
    return tdi_gate_receive(&call);
}

TDI_WRAPPER ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!concerns(TDI_CALL_RECVMSG, fd, flags))
        return tdi_real()->recvmsg(fd, message, flags);
    struct tdi_call call = {.kinds = TDI_CALL_RECVMSG,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .length = SSIZE_MAX,
                            .arguments = &message,
                            .real = real_recvmsg};
    return tdi_gate_receive(&call);
}
