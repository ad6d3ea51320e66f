/* SPDX-License-Identifier: MIT */
/*
 * sendfile: each piece goes on where the one before ended, because the kernel advances the program's offset,
 * or the file's position, by what it took. The end of the file makes a piece short, and with it the call.
 */
#include <sys/sendfile.h>

#include "gate.h"
#include "policy/policy.h"
#include "real.h"

struct arguments {
    int in;
    off_t *at;
    off64_t *at64;
};

static ssize_t real(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->sendfile(call->fd, a->in, a->at, n);
}

static ssize_t real64(const struct tdi_call *call, size_t from, size_t n)
{
    const struct arguments *a = call->arguments;
    (void)from;
    return tdi_real()->sendfile64(call->fd, a->in, a->at64, n);
}

TDI_WRAPPER ssize_t sendfile(int out, int in, off_t *at, size_t n)
{
    if (!tdi_gate_concerns(TDI_CALL_SENDFILE, out))
        return tdi_real()->sendfile(out, in, at, n);
    struct arguments arguments = {.in = in, .at = at};
    struct tdi_call call = {
        .kinds = TDI_CALL_SENDFILE, .fd = out, .length = n, .arguments = &arguments, .real = real};
    return tdi_gate(&call);
}

TDI_WRAPPER ssize_t sendfile64(int out, int in, off64_t *at, size_t n)
{
    if (!tdi_gate_concerns(TDI_CALL_SENDFILE, out))
        return tdi_real()->sendfile64(out, in, at, n);
    struct arguments arguments = {.in = in, .at64 = at};
    struct tdi_call call = {
        .kinds = TDI_CALL_SENDFILE, .fd = out, .length = n, .arguments = &arguments, .real = real64};
    return tdi_gate(&call);
}
