/* SPDX-License-Identifier: MIT */
/*
 * A cut vector needs a vector of its own, and that lies on a stack which may be a signal handler's: so it is
 * short, and a piece of many small elements takes several calls.
 */
#include "pieces.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fd.h"
#include "real.h"

#define WINDOW 16

bool tdi_pieces_sound(const struct iovec *iov, size_t count)
{
    return count <= TDI_IOV_MAX && (count == 0 || tdi_fd_readable(iov, count * sizeof *iov));
}

size_t tdi_pieces_length(const struct iovec *iov, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length = iov[i].iov_len < SIZE_MAX - length ? length + iov[i].iov_len : SIZE_MAX;
    return length;
}

bool tdi_pieces_record(int fd, size_t length)
{
    const struct tdi_rules *rules = tdi_rules();
    enum tdi_kind kind = rules != NULL ? tdi_known_kind(tdi_known(rules, fd)) : TDI_KIND_OTHER;
    return kind == TDI_KIND_TTY || (kind == TDI_KIND_PIPE && length <= PIPE_BUF);
}

/* Fills the window from byte `from` on with n bytes at most. Returns the elements, *bytes in them. */
static int cut(struct iovec *window, const struct iovec *iov, size_t count, size_t from, size_t n,
               size_t *bytes)
{
    int filled = 0;
    *bytes = 0;
    for (size_t i = 0; i < count && filled < WINDOW && *bytes < n; i++) {
        if (from >= iov[i].iov_len) {
            from -= iov[i].iov_len;
            continue;
        }
        size_t len = iov[i].iov_len - from;
        if (len > n - *bytes)
            len = n - *bytes;
        window[filled++] = (struct iovec){(char *)iov[i].iov_base + from, len};
        *bytes += len;
        from = 0;
    }
    return filled;
}

ssize_t tdi_pieces_each(const struct tdi_call *call, const struct iovec *iov, size_t count, size_t from,
                        size_t n, tdi_pieces_fn *put)
{
    int saved_errno = errno;
    size_t done = 0;
    while (done < n) {
        struct iovec window[WINDOW];
        size_t bytes;
        int filled = cut(window, iov, count, from + done, n - done, &bytes);
        ssize_t result = put(call, window, filled, from + done);
        if (result < 0 && done == 0)
            return -1;
        if (result > 0)
            done += (size_t)result;
        if (result < (ssize_t)bytes)
            break;
    }
    errno = saved_errno;
    return (ssize_t)done;
}

ssize_t tdi_pieces_send(const struct tdi_call *call, const struct iovec *iov, int count, size_t done)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (unsigned)count};
    return tdi_real()->sendmsg(call->fd, &message, done > 0 ? call->flags | MSG_NOSIGNAL : call->flags);
}

ssize_t tdi_pieces_write(const struct tdi_call *call, const struct iovec *iov, int count, size_t done)
{
    int saved_errno = errno;
    ssize_t sent = tdi_pieces_send(call, iov, count, done);
    if (sent >= 0 || errno != ENOTSOCK)
        return sent;
    errno = saved_errno;
    return tdi_real()->writev(call->fd, iov, count);
}
