/* SPDX-License-Identifier: MIT */
/* accept, accept4: the new number is another one from now on. */
/* With it glibc declares addresses as a transparent union, and a definition could not be standard C. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE
#include <sys/socket.h>

#include "calls/gone.h"
#include "gate.h"
#include "real.h"

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

TDI_WRAPPER int accept(int fd, struct sockaddr *address, socklen_t *len)
{
    return tdi_born(tdi_real()->accept(fd, address, len));
}

TDI_WRAPPER int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    return tdi_born(tdi_real()->accept4(fd, address, len, flags));
}
