/* SPDX-License-Identifier: MIT */
/*
 * The writes at an offset. Sockets and pipes have none and refuse them, but for pwritev2 at -1, which means
 * the current position and is a writev. A piece goes to its own place.
 */
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gate.h"
#include "pieces.h"
#include "policy/policy.h"
#include "real.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/* The function that was called: the same is called for each piece. */
enum name {
    PWRITE,
    PWRITE64,
    PWRITEV,
    PWRITEV64,
    PWRITEV2,
    PWRITEV64V2,
};

struct arguments {
    enum name name;
    const struct iovec *iov;
    int count;
    off64_t at;
    int flags;
};

static ssize_t put(const struct tdi_call *call, const struct iovec *iov, int count, size_t done)
{
    const struct arguments *a = call->arguments;
    off64_t at = a->at == -1 ? -1 : a->at + (off64_t)done;
    switch (a->name) {
    case PWRITE:
        return tdi_real()->pwrite(call->fd, iov->iov_base, iov->iov_len, (off_t)at);
    case PWRITE64:
        return tdi_real()->pwrite64(call->fd, iov->iov_base, iov->iov_len, at);
    case PWRITEV:
        return tdi_real()->pwritev(call->fd, iov, count, (off_t)at);
    case PWRITEV64:
        return tdi_real()->pwritev64(call->fd, iov, count, at);
    case PWRITEV2:
        return tdi_real()->pwritev2(call->fd, iov, count, (off_t)at, a->flags);
    case PWRITEV64V2:
        return tdi_real()->pwritev64v2(call->fd, iov, count, at, a->flags);
    }
    return -1;
}

static ssize_t real(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    if (from == 0 && n == call->length)
        return put(call, a->iov, a->count, 0);
    bool is_writev = a->at == -1 && a->flags == 0;
    return tdi_pieces_each(call, a->iov, (size_t)a->count, from, n, is_writev ? tdi_pieces_write : put);
}

static ssize_t walk(uint32_t kind, int fd, const struct arguments *arguments)
{
    size_t length = tdi_pieces_length(arguments->iov, (size_t)arguments->count);
    struct tdi_call call = {.kinds = kind,
                            .fd = fd,
                            .now = (arguments->flags & RWF_NOWAIT) != 0,
                            .whole = tdi_pieces_record(fd, length),
                            .length = length,
                            .arguments = arguments,
                            .real = real};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    if (!tdi_gate_concerns(TDI_CALL_PWRITE, fd))
        return tdi_real()->pwrite(fd, buf, n, at);
    struct iovec iov = {(void *)(uintptr_t)buf, n};
    return walk(TDI_CALL_PWRITE, fd, &(struct arguments){PWRITE, &iov, 1, at, 0});
}

TDI_WRAPPER ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
    if (!tdi_gate_concerns(TDI_CALL_PWRITE, fd))
        return tdi_real()->pwrite64(fd, buf, n, at);
    struct iovec iov = {(void *)(uintptr_t)buf, n};
    return walk(TDI_CALL_PWRITE, fd, &(struct arguments){PWRITE64, &iov, 1, at, 0});
}

static bool concerns(int fd, const struct iovec *iov, int count)
{
    return tdi_gate_concerns(TDI_CALL_PWRITEV, fd) && count >= 0 && tdi_pieces_sound(iov, (size_t)count);
}

TDI_WRAPPER ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t at)
{
    if (!concerns(fd, iov, count))
        return tdi_real()->pwritev(fd, iov, count, at);
    return walk(TDI_CALL_PWRITEV, fd, &(struct arguments){PWRITEV, iov, count, at, 0});
}

TDI_WRAPPER ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t at)
{
    if (!concerns(fd, iov, count))
        return tdi_real()->pwritev64(fd, iov, count, at);
    return walk(TDI_CALL_PWRITEV, fd, &(struct arguments){PWRITEV64, iov, count, at, 0});
}

TDI_WRAPPER ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
    if (!concerns(fd, iov, count))
        return tdi_real()->pwritev2(fd, iov, count, at, flags);
    return walk(TDI_CALL_PWRITEV, fd, &(struct arguments){PWRITEV2, iov, count, at, flags});
}

TDI_WRAPPER ssize_t pwritev64v2(int fd, const struct iovec *iov, int count, off64_t at, int flags)
{
    if (!concerns(fd, iov, count))
        return tdi_real()->pwritev64v2(fd, iov, count, at, flags);
    return walk(TDI_CALL_PWRITEV, fd, &(struct arguments){PWRITEV64V2, iov, count, at, flags});
}
