/* SPDX-License-Identifier: MIT */
/* socket, socketpair: the new numbers are others from now on. */
#include <sys/socket.h>

#include "calls/gone.h"
#include "gate.h"
#include "real.h"

TDI_WRAPPER int socket(int domain, int type, int protocol)
{
    return tdi_born(tdi_real()->socket(domain, type, protocol));
}

TDI_WRAPPER int socketpair(int domain, int type, int protocol, int ends[2])
{
    int result = tdi_real()->socketpair(domain, type, protocol, ends);
    if (result == 0) {
        (void)tdi_born(ends[0]);
        (void)tdi_born(ends[1]);
    }
    return result;
}
