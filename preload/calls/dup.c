/* SPDX-License-Identifier: MIT */
/* dup, dup2, dup3: the new number is another one from now on; the descriptor that had it is closed. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "calls/gone.h"
#include "gate.h"
#include "real.h"

/* A call that will fail closes nothing. Only asked when that matters. */
static bool is_open(int fd)
{
    int saved_errno = errno;
    bool open = tdi_real()->fcntl(fd, F_GETFD, NULL) >= 0;
    errno = saved_errno;
    return open;
}

static void replaced(int from, int to, int flags)
{
    if (from == to || (flags & ~O_CLOEXEC) != 0 || (tdi_gone_matters(to) && !is_open(from)))
        return;
    tdi_gone(to);
}

TDI_WRAPPER int dup(int fd)
{
    return tdi_born_of(fd, tdi_real()->dup(fd));
}

TDI_WRAPPER int dup2(int from, int to)
{
    replaced(from, to, 0);
    return from == to ? tdi_real()->dup2(from, to) : tdi_born_of(from, tdi_real()->dup2(from, to));
}

TDI_WRAPPER int dup3(int from, int to, int flags)
{
    replaced(from, to, flags);
    return tdi_born_of(from, tdi_real()->dup3(from, to, flags));
}
