/* SPDX-License-Identifier: MIT */
#include "ready/company.h"

#include <stddef.h>

#include "fd.h"
#include "known.h"
#include "rule.h"

#define FEW 8 /* more than that are not those of a client */

static bool is_connection(const struct tdi_rules *rules, int fd)
{
    return fd >= 0 && tdi_known_reach(rules, fd) != 0;
}

static void note(int connections)
{
    if (connections == 1)
        tdi_inside.alone_at = tdi_inside.waits;
}

static const struct tdi_rules *asking_rules(void)
{
    const struct tdi_rules *rules = tdi_rules();
    bool asks =
        rules != NULL && !rules->broken && (rules->calls & TDI_CALLS_UP) != 0 && tdi_inside.house == 0;
    return asks ? rules : NULL;
}

void tdi_company_polled(const struct pollfd *fds, nfds_t n)
{
    const struct tdi_rules *rules = n <= FEW ? asking_rules() : NULL;
    int connections = 0, last = -1;
    for (nfds_t i = 0; rules != NULL && i < n; i++) {
        connections += fds[i].fd != last && is_connection(rules, fds[i].fd);
        last = fds[i].fd; /* ssh asks about its socket twice */
    }
    note(connections);
}

void tdi_company_selects(int n, const fd_set *in, const fd_set *out)
{
    const unsigned long *sets[] = {(const unsigned long *)(const void *)in,
                                   (const unsigned long *)(const void *)out};
    const int bits = 8 * (int)sizeof(unsigned long);
    const struct tdi_rules *rules = n > 0 && n <= bits ? asking_rules() : NULL;
    unsigned long asked = 0;
    int connections = 0;
    for (size_t i = 0; rules != NULL && i < sizeof sets / sizeof *sets; i++)
        if (sets[i] != NULL && tdi_fd_readable(sets[i], sizeof *sets[i]))
            asked |= *sets[i];
    for (int fd = 0; rules != NULL && fd < n && asked >> fd != 0; fd++)
        connections += (asked >> fd & 1) != 0 && is_connection(rules, fd);
    note(connections);
}
