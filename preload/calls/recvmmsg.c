/* SPDX-License-Identifier: MIT */
/* recvmmsg: one real call, for the bytes of all its messages. */
#include <limits.h>
#include <sys/socket.h>

#include "gate.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    struct mmsghdr *messages;
    unsigned count;
    struct timespec *timeout;
    int *received;
};

static ssize_t real(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    (void)n;
    *a->received = tdi_real()->recvmmsg(call->fd, a->messages, a->count, call->flags, a->timeout);
    if (*a->received < 0)
        return -1;
    size_t bytes = 0;
    for (int i = 0; i < *a->received; i++)
        bytes += a->messages[i].msg_len;
    return (ssize_t)bytes;
}

TDI_WRAPPER int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                         struct timespec *timeout)
{
    if ((flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0 || !tdi_gate_concerns(TDI_CALL_RECVMMSG, fd))
        return tdi_real()->recvmmsg(fd, messages, count, flags, timeout);
    int received = -1;
    struct arguments arguments = {messages, count, timeout, &received};
    struct tdi_call call = {.kinds = TDI_CALL_RECVMMSG,
                            .fd = fd,
                            .flags = flags,
                            .now = (flags & MSG_DONTWAIT) != 0,
                            .length = SSIZE_MAX,
                            .arguments = &arguments,
                            .real = real};
    return tdi_gate_receive(&call) < 0 ? -1 : received;
}
