/* SPDX-License-Identifier: MIT */
/*
 * Message by message, each as a call: the kernel may do fewer than were asked for as well. It stops, as the
 * kernel does, after the first that fails or goes out in part.
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fd.h"
#include "gate.h"
#include "pieces.h"
#include "policy/policy.h"
#include "real.h"
#include "send.h"

#define MESSAGES_MAX 1024 /* the kernel does no more in one call */

static ssize_t real(const struct tdi_call *call, size_t from, size_t n)
{
    struct mmsghdr *one = (struct mmsghdr *)(uintptr_t)call->arguments;
    if (from > 0 || n < call->length)
        return tdi_pieces_each(call, one->msg_hdr.msg_iov, one->msg_hdr.msg_iovlen, from, n, tdi_pieces_send);
    return tdi_real()->sendmmsg(call->fd, one, 1, call->flags) == 1 ? (ssize_t)one->msg_len : -1;
}

static bool are_sound(const struct mmsghdr *messages, unsigned count)
{
    if (count == 0 || !tdi_fd_readable(messages, count * sizeof *messages))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!tdi_send_sound(&messages[i].msg_hdr))
            return false;
    return true;
}

TDI_WRAPPER int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    unsigned most = count < MESSAGES_MAX ? count : MESSAGES_MAX;
    if (!tdi_gate_concerns(tdi_send_kinds(TDI_CALL_SENDMMSG, fd, flags), fd) || !are_sound(messages, most))
        return tdi_real()->sendmmsg(fd, messages, count, flags);
    int saved_errno = errno;
    unsigned done = 0;
    bool whole = true;
    while (whole && done < most) {
        struct tdi_call call = {.kinds = tdi_send_kinds(TDI_CALL_SENDMMSG, fd, flags),
                                .fd = fd,
                                .flags = flags,
                                .arguments = &messages[done],
                                .real = real};
        tdi_send_pack(&call, &messages[done].msg_hdr);
        ssize_t sent = tdi_gate(&call);
        if (sent < 0)
            break;
        whole = (size_t)sent == call.length;
        if (messages[done].msg_len != (unsigned)sent) /* it went in pieces; else the kernel wrote it */
            messages[done].msg_len = (unsigned)sent;
        done++;
    }
    if (done == 0)
        return -1;
    errno = saved_errno;
    return (int)done;
}
