/* SPDX-License-Identifier: MIT */
/*
 * send, sendto, sendmsg. Whole go: what has an address or control data, urgent bytes, what ends a record, and
 * zero-copy sends, whose completion numbers count calls. MSG_FASTOPEN makes a send a connect as well.
 */
/* With it glibc declares addresses as a transparent union, and a definition could not be standard C. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <sys/socket.h>

#include "fd.h"
#include "gate.h"
#include "pieces.h"
#include "policy/policy.h"
#include "real.h"

#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif

#define WHOLE (MSG_OOB | MSG_EOR | MSG_ZEROCOPY | MSG_FASTOPEN)

struct to {
    struct iovec iov;
    const struct sockaddr *address;
    socklen_t len;
};

static ssize_t real_send(const struct tdi_call *call, size_t from, size_t n)
{
    const struct iovec *iov = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->send(call->fd, iov->iov_base, iov->iov_len, call->flags);
    return tdi_pieces_send(call->fd, iov, 1, call->flags, from, n);
}

static ssize_t real_sendto(const struct tdi_call *call, size_t from, size_t n)
{
    const struct to *to = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->sendto(call->fd, to->iov.iov_base, to->iov.iov_len, call->flags, to->address,
                                  to->len);
    return tdi_pieces_send(call->fd, &to->iov, 1, call->flags, from, n);
}

static ssize_t real_sendmsg(const struct tdi_call *call, size_t from, size_t n)
{
    const struct msghdr *message = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->sendmsg(call->fd, message, call->flags);
    return tdi_pieces_send(call->fd, message->msg_iov, message->msg_iovlen, call->flags, from, n);
}

/* The kinds of a send: one that opens a connection is a connect too, unless the connection has begun. */
static uint32_t kinds(uint32_t kind, int fd, int flags)
{
    if ((flags & MSG_FASTOPEN) == 0)
        return kind;
    return tdi_gate_concerns(TDI_CALL_CONNECT, fd) && !tdi_fd_connect_begun(fd) ? kind | TDI_CALL_CONNECT
                                                                                : kind;
}

TDI_WRAPPER ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    if (!tdi_gate_concerns(TDI_CALL_SEND, fd))
        return tdi_real()->send(fd, buf, n, flags);
    struct iovec iov = {(void *)(uintptr_t)buf, n};
    struct tdi_call call = {.kinds = TDI_CALL_SEND,
                            .fd = fd,
                            .flags = flags,
                            .length = n,
                            .whole = (flags & WHOLE) != 0,
                            .arguments = &iov,
                            .real = real_send};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *address,
                           socklen_t len)
{
    uint32_t what = kinds(TDI_CALL_SENDTO, fd, flags);
    if (!tdi_gate_concerns(what, fd))
        return tdi_real()->sendto(fd, buf, n, flags, address, len);
    struct to to = {{(void *)(uintptr_t)buf, n}, address, len};
    struct tdi_call call = {.kinds = what,
                            .fd = fd,
                            .flags = flags,
                            .length = n,
                            .whole = (flags & WHOLE) != 0,
                            .arguments = &to,
                            .real = real_sendto};
    return tdi_gate(&call);
}

static bool is_sound(const struct msghdr *message)
{
    return tdi_fd_readable(message, sizeof *message) &&
           tdi_pieces_sound(message->msg_iov, message->msg_iovlen);
}

TDI_WRAPPER ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    uint32_t what = kinds(TDI_CALL_SENDMSG, fd, flags);
    if (!tdi_gate_concerns(what, fd) || !is_sound(message))
        return tdi_real()->sendmsg(fd, message, flags);
    struct tdi_call call = {.kinds = what,
                            .fd = fd,
                            .flags = flags,
                            .length = tdi_pieces_length(message->msg_iov, message->msg_iovlen),
                            .whole = (flags & WHOLE) != 0 || message->msg_controllen > 0,
                            .arguments = message,
                            .real = real_sendmsg};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t __send(int fd, const void *buf, size_t n, int flags) __attribute__((alias("send")));
