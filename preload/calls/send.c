/* SPDX-License-Identifier: MIT */
/*
 * send, sendto, sendmsg. Whole go: what has control data, urgent bytes, what ends a record, and zero-copy
 * sends, whose completion numbers count calls. MSG_FASTOPEN makes a send a connect as well.
 */
/* With it glibc declares addresses as a transparent union, and a definition could not be standard C. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE
#include "send.h"

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
    return tdi_pieces_each(call, iov, 1, from, n, tdi_pieces_send);
}

static ssize_t real_sendto(const struct tdi_call *call, size_t from, size_t n)
{
    const struct to *to = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->sendto(call->fd, to->iov.iov_base, to->iov.iov_len, call->flags, to->address,
                                  to->len);
    return tdi_pieces_each(call, &to->iov, 1, from, n, tdi_pieces_send);
}

static ssize_t real_sendmsg(const struct tdi_call *call, size_t from, size_t n)
{
    const struct msghdr *message = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->sendmsg(call->fd, message, call->flags);
    return tdi_pieces_each(call, message->msg_iov, message->msg_iovlen, from, n, tdi_pieces_send);
}

uint32_t tdi_send_kinds(uint32_t kind, int fd, int flags)
{
    if ((flags & MSG_FASTOPEN) == 0)
        return kind;
    return tdi_gate_concerns(TDI_CALL_CONNECT, fd) && !tdi_fd_connect_begun(fd) ? kind | TDI_CALL_CONNECT
                                                                                : kind;
}

/* The part of an address that the kernel looks at. */
static socklen_t bounded(const void *address, socklen_t len)
{
    if (address == NULL)
        return 0;
    return len < sizeof(struct sockaddr_storage) ? len : sizeof(struct sockaddr_storage);
}

bool tdi_send_sound(const struct msghdr *message)
{
    socklen_t len = bounded(message->msg_name, message->msg_namelen);
    return tdi_pieces_sound(message->msg_iov, message->msg_iovlen) &&
           (len == 0 || tdi_fd_readable(message->msg_name, len));
}

void tdi_send_pack(struct tdi_call *call, const struct msghdr *message)
{
    call->length = tdi_pieces_length(message->msg_iov, message->msg_iovlen);
    call->now = (call->flags & MSG_DONTWAIT) != 0;
    call->whole = (call->flags & WHOLE) != 0 || message->msg_controllen > 0;
    call->to_len = bounded(message->msg_name, message->msg_namelen);
    call->to = call->to_len > 0 ? message->msg_name : NULL;
}

TDI_WRAPPER ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    if (!tdi_gate_concerns(TDI_CALL_SEND, fd))
        return tdi_real()->send(fd, buf, n, flags);
    struct iovec iov = {(void *)(uintptr_t)buf, n};
    struct tdi_call call = {.kinds = TDI_CALL_SEND,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .whole = (flags & WHOLE) != 0,
                            .length = n,
                            .arguments = &iov,
                            .real = real_send};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *address,
                           socklen_t len)
{
    uint32_t kinds = tdi_send_kinds(TDI_CALL_SENDTO, fd, flags);
    socklen_t to_len = bounded(address, len);
    if (!tdi_gate_concerns(kinds, fd) || (to_len > 0 && !tdi_fd_readable(address, to_len)))
        return tdi_real()->sendto(fd, buf, n, flags, address, len);
    struct to to = {{(void *)(uintptr_t)buf, n}, address, len};
    struct tdi_call call = {.kinds = kinds,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .whole = (flags & WHOLE) != 0,
                            .length = n,
                            .to = to_len > 0 ? address : NULL,
                            .to_len = to_len,
                            .arguments = &to,
                            .real = real_sendto};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    uint32_t kinds = tdi_send_kinds(TDI_CALL_SENDMSG, fd, flags);
    if (!tdi_gate_concerns(kinds, fd) || !tdi_fd_readable(message, sizeof *message) ||
        !tdi_send_sound(message))
        return tdi_real()->sendmsg(fd, message, flags);
    struct tdi_call call = {
        .kinds = kinds, .fd = fd, .flags = flags, .arguments = message, .real = real_sendmsg};
    tdi_send_pack(&call, message);
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t __send(int fd, const void *buf, size_t n, int flags) __attribute__((alias("send")));
