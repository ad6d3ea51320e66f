/* SPDX-License-Identifier: MIT */
/*
 * A cut vector needs a vector of its own, and that lies on a stack which may be a signal handler's: so it is
 * short, and a piece of many small elements takes several calls.
 */
#include "pieces.h"

#include <errno.h>
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

/* Fills the window from byte `from` on with n bytes at most. Returns the elements, *bytes in them. */
static size_t cut(struct iovec *window, const struct iovec *iov, size_t count, size_t from, size_t n,
                  size_t *bytes)
{
    size_t filled = 0;
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

ssize_t tdi_pieces_send(int fd, const struct iovec *iov, size_t count, int flags, size_t from, size_t n)
{
    int saved_errno = errno;
    size_t done = 0;
    while (done < n) {
        struct iovec window[WINDOW];
        size_t bytes;
        struct msghdr message = {.msg_iov = window};
        message.msg_iovlen = cut(window, iov, count, from + done, n - done, &bytes);
        ssize_t sent = tdi_real()->sendmsg(fd, &message, from + done > 0 ? flags | MSG_NOSIGNAL : flags);
        if (sent < 0 && done == 0)
            return -1;
        if (sent > 0)
            done += (size_t)sent;
        if (sent < (ssize_t)bytes)
            break;
    }
    errno = saved_errno;
    return (ssize_t)done;
}
