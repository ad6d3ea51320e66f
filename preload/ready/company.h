/* SPDX-License-Identifier: MIT */
/*
 * Who waits for one connection and nothing else of that kind (ssh, curl and most clients) holds nobody up when a
 * call of it waits. That is better for it than to be told EAGAIN: while its socket is not writable such a program
 * goes on reading its input, and moves all that it has read for each piece that it sends.
 *
 * A thread's last wait decides.
 */
#ifndef TUNDISH_PRELOAD_READY_COMPANY_H
#define TUNDISH_PRELOAD_READY_COMPANY_H

#include <poll.h>
#include <stdbool.h>
#include <sys/select.h>

#include "inside.h"

/* Called after a wait that the kernel has answered, or before one whose sets are there to be read. */
void tdi_company_polled(const struct pollfd *fds, nfds_t n);
void tdi_company_selects(int n, const fd_set *in, const fd_set *out);

/* Whether the calling thread has waited last for a single connection. */
static inline bool tdi_company_is_alone(void)
{
    return tdi_inside.waits > 0 && tdi_inside.alone_at == tdi_inside.waits;
}

#endif
