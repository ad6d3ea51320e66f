/* SPDX-License-Identifier: MIT */
/*
 * Probes for tracers (bpftrace, perf, SystemTap): each is one no-op instruction in the code and a note in the
 * file that says where the values are. Provider `tundish`:
 *
 *   grant(bucket, tokens, kind)            tokens were granted
 *   refusal(bucket, tokens, kind)          there were too few
 *   wait__start(bucket, tokens)            an acquire gets in line
 *   wait__end(bucket, tokens, error, ns)   it is out of it, after so long
 */
#ifndef TUNDISH_PLAT_PROBE_H
#define TUNDISH_PLAT_PROBE_H

#include <sys/sdt.h>

#define tdi_probe_grant(bucket, tokens, kind) DTRACE_PROBE3(tundish, grant, bucket, tokens, kind)
#define tdi_probe_refusal(bucket, tokens, kind) DTRACE_PROBE3(tundish, refusal, bucket, tokens, kind)
#define tdi_probe_wait_start(bucket, tokens) DTRACE_PROBE2(tundish, wait__start, bucket, tokens)
#define tdi_probe_wait_end(bucket, tokens, error, ns)                                                        \
    DTRACE_PROBE4(tundish, wait__end, bucket, tokens, error, ns)

#endif
