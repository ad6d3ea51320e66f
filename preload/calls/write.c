/* SPDX-License-Identifier: MIT */
/* write and writev, which are sends only on sockets. */
#include <sys/uio.h>
#include <unistd.h>

#include "gate.h"
#include "pieces.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    const struct iovec *iov;
    int count;
};

static ssize_t real_write(const struct tdi_call *call, size_t from, size_t n)
{
    const struct iovec *iov = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->write(call->fd, iov->iov_base, iov->iov_len);
    return tdi_pieces_each(call, iov, 1, from, n, tdi_pieces_write);
}

static ssize_t real_writev(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->writev(call->fd, a->iov, a->count);
    return tdi_pieces_each(call, a->iov, (size_t)a->count, from, n, tdi_pieces_write);
}

TDI_WRAPPER ssize_t write(int fd, const void *buf, size_t n)
{
    if (!tdi_gate_concerns(TDI_CALL_WRITE, fd))
        return tdi_real()->write(fd, buf, n);
    struct iovec iov = {(void *)(uintptr_t)buf, n};
    struct tdi_call call = {.kinds = TDI_CALL_WRITE,
                            .fd = fd,
                            .whole = tdi_pieces_record(fd, n),
                            .length = n,
                            .arguments = &iov,
                            .real = real_write};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t writev(int fd, const struct iovec *iov, int count)
{
    if (!tdi_gate_concerns(TDI_CALL_WRITEV, fd) || count < 0 || !tdi_pieces_sound(iov, (size_t)count))
        return tdi_real()->writev(fd, iov, count);
    size_t length = tdi_pieces_length(iov, (size_t)count);
    struct arguments arguments = {iov, count};
    struct tdi_call call = {.kinds = TDI_CALL_WRITEV,
                            .fd = fd,
                            .whole = tdi_pieces_record(fd, length),
                            .length = length,
                            .arguments = &arguments,
                            .real = real_writev};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t __write(int fd, const void *buf, size_t n) __attribute__((alias("write")));
