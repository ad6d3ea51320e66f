/* SPDX-License-Identifier: MIT */
/*
 * splice, vmsplice and tee, charged for what goes out. All three end with what there is: once something has
 * moved, none of them waits for more input or for more room in a pipe. So a call asks for no more tokens
 * than there is input now, and its later pieces wait for nothing: they end the call.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gate.h"
#include "pieces.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    int in;
    off64_t *in_at, *out_at;
    unsigned flags;
};

struct vector {
    const struct iovec *iov;
    size_t count;
    unsigned flags;
};

/* Bytes that can be read at once: from a pipe, a socket, or a file at its position. 0 also if nobody knows. */
static size_t waiting_in(int fd)
{
    int saved_errno = errno;
    int bytes = 0;
    if (syscall(SYS_ioctl, fd, FIONREAD, &bytes) != 0 || bytes < 0)
        bytes = 0;
    errno = saved_errno;
    return (size_t)bytes;
}

/* With no input yet the kernel waits for some, and then takes what one pipe can hold. */
static size_t expected(const struct arguments *a, size_t n)
{
    const size_t pipeful = 65536;
    size_t there = a->in_at == NULL ? waiting_in(a->in) : n;
    if (there == 0)
        there = pipeful;
    return there < n ? there : n;
}

static ssize_t real_splice(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    if (from > 0 && a->in_at == NULL && waiting_in(a->in) == 0) {
        errno = EAGAIN;
        return -1;
    }
    unsigned flags = from > 0 ? a->flags | SPLICE_F_NONBLOCK : a->flags;
    return tdi_real()->splice(a->in, a->in_at, call->fd, a->out_at, n, flags);
}

static ssize_t real_tee(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->tee(a->in, call->fd, n, a->flags);
}

static ssize_t put_vmsplice(const struct tdi_call *call, const struct iovec *iov, int count, size_t done)
{
    const struct vector *v = call->arguments;
    unsigned flags = done > 0 ? v->flags | SPLICE_F_NONBLOCK : v->flags;
    return tdi_real()->vmsplice(call->fd, iov, (size_t)count, flags);
}

static ssize_t real_vmsplice(const struct tdi_call *call, size_t from, size_t n)
{
    const struct vector *v = call->arguments;
    if (from == 0 && n == call->length)
        return tdi_real()->vmsplice(call->fd, v->iov, v->count, v->flags);
    return tdi_pieces_each(call, v->iov, v->count, from, n, put_vmsplice);
}

TDI_WRAPPER ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t n, unsigned flags)
{
    if (!tdi_gate_concerns(TDI_CALL_SPLICE, out))
        return tdi_real()->splice(in, in_at, out, out_at, n, flags);
    struct arguments arguments = {in, in_at, out_at, flags};
    struct tdi_call call = {.kinds = TDI_CALL_SPLICE,
                            .fd = out,
                            .now = (flags & SPLICE_F_NONBLOCK) != 0,
                            .length = expected(&arguments, n),
                            .arguments = &arguments,
                            .real = real_splice};
    return tdi_gate(&call);
}

/* Whole: the input stays where it is, and a second piece would be the first again. */
TDI_WRAPPER ssize_t tee(int in, int out, size_t n, unsigned flags)
{
    if (!tdi_gate_concerns(TDI_CALL_SPLICE, out))
        return tdi_real()->tee(in, out, n, flags);
    struct arguments arguments = {.in = in, .flags = flags};
    struct tdi_call call = {.kinds = TDI_CALL_SPLICE,
                            .fd = out,
                            .now = (flags & SPLICE_F_NONBLOCK) != 0,
                            .whole = true,
                            .length = expected(&arguments, n),
                            .arguments = &arguments,
                            .real = real_tee};
    return tdi_gate(&call);
}

/* From a pipe's reading end it reads, into memory: nothing goes out. */
static bool is_reading_end(int fd)
{
    int saved_errno = errno;
    long mode = syscall(SYS_fcntl, fd, F_GETFL);
    errno = saved_errno;
    return mode >= 0 && (mode & O_ACCMODE) == O_RDONLY;
}

TDI_WRAPPER ssize_t vmsplice(int fd, const struct iovec *iov, size_t count, unsigned flags)
{
    if (!tdi_gate_concerns(TDI_CALL_SPLICE, fd) || is_reading_end(fd) || !tdi_pieces_sound(iov, count))
        return tdi_real()->vmsplice(fd, iov, count, flags);
    struct vector vector = {iov, count, flags};
    struct tdi_call call = {.kinds = TDI_CALL_SPLICE,
                            .fd = fd,
                            .now = (flags & SPLICE_F_NONBLOCK) != 0,
                            .length = tdi_pieces_length(iov, count),
                            .arguments = &vector,
                            .real = real_vmsplice};
    return tdi_gate(&call);
}
