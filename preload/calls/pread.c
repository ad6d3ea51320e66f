/* SPDX-License-Identifier: MIT */
/* The reads at an offset: of files, and preadv2 at -1, which is a readv. */
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gate.h"
#include "policy/policy.h"
#include "real.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/* The function that was called. */
enum name {
    PREAD,
    PREAD64,
    PREAD_CHK,
    PREAD64_CHK,
    PREADV,
    PREADV64,
    PREADV2,
    PREADV64V2,
};

struct arguments {
    enum name name;
    off64_t at;
    void *buf;
    size_t n, room;
    const struct iovec *iov;
    int count;
    int flags;
};

ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);

static ssize_t get(int fd, const struct arguments *a)
{
    switch (a->name) {
    case PREAD:
        return tdi_real()->pread(fd, a->buf, a->n, (off_t)a->at);
    case PREAD64:
        return tdi_real()->pread64(fd, a->buf, a->n, a->at);
    case PREAD_CHK:
        return tdi_real()->pread_chk(fd, a->buf, a->n, (off_t)a->at, a->room);
    case PREAD64_CHK:
        return tdi_real()->pread64_chk(fd, a->buf, a->n, a->at, a->room);
    case PREADV:
        return tdi_real()->preadv(fd, a->iov, a->count, (off_t)a->at);
    case PREADV64:
        return tdi_real()->preadv64(fd, a->iov, a->count, a->at);
    case PREADV2:
        return tdi_real()->preadv2(fd, a->iov, a->count, (off_t)a->at, a->flags);
    case PREADV64V2:
        return tdi_real()->preadv64v2(fd, a->iov, a->count, a->at, a->flags);
    }
    return -1;
}

static ssize_t real(const struct tdi_call *call, size_t from, size_t n)
{
    (void)from;
    (void)n;
    return get(call->fd, call->arguments);
}

static ssize_t walk(uint32_t kind, int fd, const struct arguments *arguments)
{
    if (!tdi_gate_concerns(kind, fd))
        return get(fd, arguments);
    struct tdi_call call = {.kinds = kind,
                            .fd = fd,
                            .now = (arguments->flags & RWF_NOWAIT) != 0,
                            .length = arguments->iov == NULL ? arguments->n : SSIZE_MAX,
                            .arguments = arguments,
                            .real = real};
    return tdi_gate_receive(&call);
}

TDI_WRAPPER ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    return walk(TDI_CALL_PREAD, fd, &(struct arguments){.name = PREAD, .at = at, .buf = buf, .n = n});
}

TDI_WRAPPER ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
    return walk(TDI_CALL_PREAD, fd, &(struct arguments){.name = PREAD64, .at = at, .buf = buf, .n = n});
}

TDI_WRAPPER ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
    return walk(TDI_CALL_PREAD, fd,
                &(struct arguments){.name = PREAD_CHK, .at = at, .buf = buf, .n = n, .room = room});
}

TDI_WRAPPER ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room)
{
    return walk(TDI_CALL_PREAD, fd,
                &(struct arguments){.name = PREAD64_CHK, .at = at, .buf = buf, .n = n, .room = room});
}

TDI_WRAPPER ssize_t preadv(int fd, const struct iovec *iov, int count, off_t at)
{
    return walk(TDI_CALL_PREADV, fd,
                &(struct arguments){.name = PREADV, .at = at, .iov = iov, .count = count});
}

TDI_WRAPPER ssize_t preadv64(int fd, const struct iovec *iov, int count, off64_t at)
{
    return walk(TDI_CALL_PREADV, fd,
                &(struct arguments){.name = PREADV64, .at = at, .iov = iov, .count = count});
}

TDI_WRAPPER ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
    return walk(TDI_CALL_PREADV, fd,
                &(struct arguments){.name = PREADV2, .at = at, .iov = iov, .count = count, .flags = flags});
}

TDI_WRAPPER ssize_t preadv64v2(int fd, const struct iovec *iov, int count, off64_t at, int flags)
{
    return walk(
        TDI_CALL_PREADV, fd,
        &(struct arguments){.name = PREADV64V2, .at = at, .iov = iov, .count = count, .flags = flags});
}
