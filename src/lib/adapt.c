/* SPDX-License-Identifier: MIT */
/* See adapt.h. */
#include "lib/adapt.h"

#include <stdbool.h>

int tdi_adapt_decide(const struct tundish_sidecar_stats *stats, struct tdi_adapt_mood *mood)
{
    uint64_t operations = stats->span_granted + stats->span_refused;
    bool fast = (double)operations * 1e9 > TDI_ADAPT_BUSY_PER_S * (double)stats->span_ns;
    bool plenty = stats->span_refused < operations / 16;
    bool leased = stats->strategy == TUNDISH_LEASED;
    /* With leases nobody loses the word any more: what is left to tell a crowd by is the number of threads. */
    bool crowd = leased ? stats->threads > 1 : stats->span_retries * TDI_ADAPT_CONTENDED > operations;
    bool wanted = fast && plenty && crowd;
    mood->crowded = wanted ? mood->crowded + 1 : 0;
    mood->calm = wanted ? 0 : mood->calm + 1;
    mood->calm_ns = wanted ? 0 : mood->calm_ns + stats->span_ns;
    if (!leased && mood->crowded >= TDI_ADAPT_IN_A_ROW)
        return TUNDISH_LEASED;
    if (leased && mood->calm >= TDI_ADAPT_IN_A_ROW && mood->calm_ns >= TDI_ADAPT_CALM_NS)
        return TUNDISH_DIRECT;
    return -1;
}
