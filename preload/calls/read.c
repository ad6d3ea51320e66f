/* SPDX-License-Identifier: MIT */
/* read and readv. The checked variant stays libc's: it ends the program if n is more than there is room. */
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gate.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    void *buf;
    size_t room;
};

struct vector {
    const struct iovec *iov;
    int count;
};

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);

static ssize_t real_read(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->read(call->fd, a->buf, n);
}

static ssize_t real_read_chk(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->read_chk(call->fd, a->buf, n, a->room);
}

static ssize_t real_readv(const struct tdi_call *call, size_t from, size_t n)
{
    const struct vector *v = call->arguments;
    (void)from;
    (void)n;
    return tdi_real()->readv(call->fd, v->iov, v->count);
}

TDI_WRAPPER ssize_t read(int fd, void *buf, size_t n)
{
    if (!tdi_gate_concerns(TDI_CALL_READ, fd))
        return tdi_real()->read(fd, buf, n);
    struct arguments arguments = {.buf = buf};
    struct tdi_call call = {
        .kinds = TDI_CALL_READ, .fd = fd, .length = n, .arguments = &arguments, .real = real_read};
    return tdi_gate_receive(&call);
}

TDI_WRAPPER ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
    if (!tdi_gate_concerns(TDI_CALL_READ, fd))
        return tdi_real()->read_chk(fd, buf, n, room);
    struct arguments arguments = {buf, room};
    struct tdi_call call = {
        .kinds = TDI_CALL_READ, .fd = fd, .length = n, .arguments = &arguments, .real = real_read_chk};
    return tdi_gate_receive(&call);
}

TDI_WRAPPER ssize_t readv(int fd, const struct iovec *iov, int count)
{
    if (!tdi_gate_concerns(TDI_CALL_READV, fd))
        return tdi_real()->readv(fd, iov, count);
    struct vector vector = {iov, count};
    struct tdi_call call = {
        .kinds = TDI_CALL_READV, .fd = fd, .length = SSIZE_MAX, .arguments = &vector, .real = real_readv};
    return tdi_gate_receive(&call);
}
