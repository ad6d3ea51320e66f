/* SPDX-License-Identifier: MIT */
/* copy_file_range: between files, so only a rule for files concerns it. The kernel moves both offsets. */
#include <unistd.h>

#include "gate.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    int in;
    off64_t *in_at, *out_at;
    unsigned flags;
};

static ssize_t real(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->copy_file_range(a->in, a->in_at, call->fd, a->out_at, n, a->flags);
}

TDI_WRAPPER ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t n,
                                    unsigned flags)
{
    if (!tdi_gate_concerns(TDI_CALL_COPY_FILE_RANGE, out))
        return tdi_real()->copy_file_range(in, in_at, out, out_at, n, flags);
    struct arguments arguments = {in, in_at, out_at, flags};
    struct tdi_call call = {
        .kinds = TDI_CALL_COPY_FILE_RANGE, .fd = out, .length = n, .arguments = &arguments, .real = real};
    return tdi_gate(&call);
}
