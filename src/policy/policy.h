/* SPDX-License-Identifier: MIT */
/*
 * The rules of a program as the preloaded library obeys them: read once from the environment, checked, and
 * then frozen. Fixed size, its strings inside, so that it outlives clearenv() and setproctitle() and needs no
 * allocation.
 *
 * A call that several rules concern needs the tokens of all of them.
 */
#ifndef TUNDISH_POLICY_POLICY_H
#define TUNDISH_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/unit.h"

#define TDI_POLICY_RULES 8
#define TDI_POLICY_BUCKETS 8      /* of one rule */
#define TDI_POLICY_ALL_BUCKETS 16 /* of all rules; a quota is one */
#define TDI_POLICY_DESTS 64       /* of all rules */
#define TDI_POLICY_TEXT 4096

enum {
    TDI_CALL_CONNECT = 1 << 0,
    TDI_CALL_WRITE = 1 << 1,
    TDI_CALL_WRITEV = 1 << 2,
    TDI_CALL_PWRITE = 1 << 3,  /* pwrite, pwrite64 */
    TDI_CALL_PWRITEV = 1 << 4, /* pwritev, pwritev64, pwritev2, pwritev64v2 */
    TDI_CALL_SEND = 1 << 5,
    TDI_CALL_SENDTO = 1 << 6,
    TDI_CALL_SENDMSG = 1 << 7,
    TDI_CALL_SENDMMSG = 1 << 8,
    TDI_CALL_SENDFILE = 1 << 9,
    TDI_CALL_SPLICE = 1 << 10, /* its output side; vmsplice and tee too */
    TDI_CALL_COPY_FILE_RANGE = 1 << 11,
    TDI_CALLS_UP = (1 << 12) - 1 - TDI_CALL_CONNECT,

    TDI_CALL_READ = 1 << 12,
    TDI_CALL_READV = 1 << 13,
    TDI_CALL_PREAD = 1 << 14,
    TDI_CALL_PREADV = 1 << 15,
    TDI_CALL_RECV = 1 << 16,
    TDI_CALL_RECVFROM = 1 << 17,
    TDI_CALL_RECVMSG = 1 << 18,
    TDI_CALL_RECVMMSG = 1 << 19,
    TDI_CALLS_DOWN = (1 << 20) - (1 << 12),
};

enum tdi_count {
    TDI_COUNT_BY_BUCKET, /* no rate and no word from the user: the bucket's TUNDISH_BYTES flag decides */
    TDI_COUNT_BYTES,
    TDI_COUNT_CALLS,
};

enum tdi_when_empty {
    TDI_EMPTY_WAIT,
    TDI_EMPTY_REFUSE,
    TDI_EMPTY_DROP,    /* datagrams are thrown away as a network would; anything else waits */
    TDI_EMPTY_OBSERVE, /* dry run: counted, never held */
};

enum tdi_inherit {
    TDI_INHERIT_ENV,    /* executed programs inherit what their environment says */
    TDI_INHERIT_ALWAYS, /* also those that are given another environment */
    TDI_INHERIT_NEVER,
};

/* What a descriptor is. */
enum tdi_kind {
    TDI_KIND_OTHER, /* in no rule's reach: eventfd, netlink and all the rest */
    TDI_KIND_INET,
    TDI_KIND_INET6,
    TDI_KIND_UNIX,
    TDI_KIND_PIPE,
    TDI_KIND_FILE,
    TDI_KIND_TTY,
};

/* One place that a rule is for. An IPv4 destination also matches its IPv4-mapped IPv6 form. */
struct tdi_dest {
    uint8_t kind;   /* enum tdi_kind */
    uint8_t prefix; /* bits of the address that count; 0: any address */
    uint16_t port;  /* host byte order; 0: any */
    uint8_t address[16];
};

struct tdi_policy_rule {
    uint32_t number; /* as its words are written: 1 for TUNDISH_RATE, 2 for TUNDISH_2_RATE; 0: see name */
    uint16_t name;   /* of a rule of a configuration file, an offset into text */
    bool named;      /* it says which programs it is for */
    bool has_rate;   /* `rate` and `burst` are set */
    bool has_burst;  /* `burst` came from the user, not from the default */
    uint32_t burst;  /* capacity in tokens */
    struct tdi_rate rate; /* with no bucket: a quota of this process; with buckets: to create them with */
    enum tdi_count count; /* what a token is */
    uint32_t calls; /* TDI_CALL_ bits; 0 without hooks: by what a token turns out to be, tdi_policy_calls */
    uint32_t hooks; /* a bit for each [hook] section of the configuration file that it names */
    enum tdi_when_empty when_empty;
    int refuse_errno;                    /* 0: the call's own default */
    uint64_t max_wait_ns;                /* UINT64_MAX: no limit */
    uint32_t dests;                      /* how many; 0: every IPv4 and IPv6 socket */
    uint32_t dest;                       /* the first one's place in tdi_policy.dest */
    uint32_t buckets;                    /* how many names */
    uint16_t bucket[TDI_POLICY_BUCKETS]; /* offsets into text */
};

struct tdi_policy {
    bool applies; /* this program has a rule: a bucket or a rate, not switched off, not left out */
    bool off;     /* the user wants none of it */
    bool verbose; /* a line at start and end */
    bool fail;    /* a rule that cannot be obeyed makes its calls fail, else they pass */
    enum tdi_inherit inherit;
    uint32_t rules; /* those that are for this program */
    struct tdi_policy_rule rule[TDI_POLICY_RULES];
    uint32_t dests;
    struct tdi_dest dest[TDI_POLICY_DESTS];
    uint32_t text_used;
    char text[TDI_POLICY_TEXT];
};

/*
 * Reads every TUNDISH_ word of `environ_words` (as environ; NULL is an empty one). `program` is the name that
 * TUNDISH_ONLY and TUNDISH_SKIP are compared with: the last part of argv[0]. 0, or -EINVAL with one line, no
 * newline, in `why` that names the word and says what would be right. *out is always usable: after an error
 * applies, fail, verbose and the calls of each rule still say what was asked for as far as it could be
 * understood.
 *
 * No allocation, no locale, no errno; may run before main.
 */
int tdi_policy_from_environ(struct tdi_policy *out, char *const *environ_words, const char *program,
                            char *why, size_t len);

/* The i-th bucket's name of a rule, as written. */
const char *tdi_policy_bucket(const struct tdi_policy *policy, const struct tdi_policy_rule *rule,
                              uint32_t i);

/* The calls of the rule once it is known whether tokens are bytes. */
uint32_t tdi_policy_calls(const struct tdi_policy_rule *rule, bool bytes);

/* Whether the rule is for descriptors of this kind at all, whatever they lead to. */
bool tdi_policy_reaches(const struct tdi_policy *policy, const struct tdi_policy_rule *rule,
                        enum tdi_kind kind);

/*
 * Whether it is for this destination: a kind, for INET and INET6 with an address of 4 or 16 bytes in network
 * order and a port in host order.
 */
bool tdi_policy_matches(const struct tdi_policy *policy, const struct tdi_policy_rule *rule,
                        enum tdi_kind kind, const uint8_t *address, uint16_t port);

/* Whether a bucket's name has one of these keys after a %: "hP" for what differs between destinations. */
bool tdi_policy_name_has(const char *name, const char *keys);

/* The last part of a path, as TUNDISH_ONLY compares it. Never NULL. */
const char *tdi_policy_program(const char *argv0);

#endif
