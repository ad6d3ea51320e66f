/* SPDX-License-Identifier: MIT */
/*
 * A rule as the preloaded library obeys it: read once from the environment, checked, and then frozen. Fixed
 * size, its strings inside, so that it outlives clearenv() and setproctitle() and needs no allocation.
 */
#ifndef TUNDISH_POLICY_POLICY_H
#define TUNDISH_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/unit.h"

#define TDI_POLICY_BUCKETS 8
#define TDI_POLICY_TEXT 4096

enum {
    TDI_CALL_CONNECT = 1 << 0,
    TDI_CALL_WRITE = 1 << 1,
    TDI_CALL_WRITEV = 1 << 2,
    TDI_CALL_SEND = 1 << 3,
    TDI_CALL_SENDTO = 1 << 4,
    TDI_CALL_SENDMSG = 1 << 5,
    TDI_CALLS_UP = TDI_CALL_WRITE | TDI_CALL_WRITEV | TDI_CALL_SEND | TDI_CALL_SENDTO | TDI_CALL_SENDMSG,
};

enum tdi_count {
    TDI_COUNT_BY_BUCKET, /* no rate and no word from the user: the bucket's TUNDISH_BYTES flag decides */
    TDI_COUNT_BYTES,
    TDI_COUNT_CALLS,
};

enum tdi_when_empty {
    TDI_EMPTY_WAIT,
    TDI_EMPTY_REFUSE,
    TDI_EMPTY_OBSERVE,
};

struct tdi_policy {
    bool applies;         /* this program has a rule: a bucket or a rate, not switched off, not left out */
    bool verbose;         /* a line at start and end */
    bool fail;            /* a rule that cannot be obeyed makes its calls fail, else they pass */
    bool has_rate;        /* `rate` and `burst` are set */
    bool has_burst;       /* `burst` came from the user, not from the default */
    uint32_t burst;       /* capacity in tokens */
    struct tdi_rate rate; /* with no bucket: a quota of this process; with buckets: to create them with */
    enum tdi_count count; /* what a token is */
    uint32_t calls;       /* TDI_CALL_ bits; 0: by what a token turns out to be, tdi_policy_calls */
    enum tdi_when_empty when_empty;
    int refuse_errno;                    /* 0: the call's own default */
    uint64_t max_wait_ns;                /* UINT64_MAX: no limit */
    uint32_t buckets;                    /* how many names */
    uint16_t bucket[TDI_POLICY_BUCKETS]; /* offsets into text */
    char text[TDI_POLICY_TEXT];
};

/*
 * Reads every TUNDISH_ word of `environ_words` (as environ; NULL is an empty one). `program` is the name that
 * TUNDISH_ONLY and TUNDISH_SKIP are compared with: the last part of argv[0]. 0, or -EINVAL with one line, no
 * newline, in `why` that names the word and says what would be right. *out is always usable: after an error
 * applies, fail, verbose and calls still say what was asked for as far as it could be understood.
 *
 * No allocation, no locale, no errno; may run before main.
 */
int tdi_policy_from_environ(struct tdi_policy *out, char *const *environ_words, const char *program,
                            char *why, size_t len);

/* The i-th bucket's name, as written. */
const char *tdi_policy_bucket(const struct tdi_policy *policy, uint32_t i);

/* The calls of the rule once it is known whether tokens are bytes. */
uint32_t tdi_policy_calls(const struct tdi_policy *policy, bool bytes);

/* The last part of a path, as TUNDISH_ONLY compares it. Never NULL. */
const char *tdi_policy_program(const char *argv0);

#endif
