/* SPDX-License-Identifier: MIT */
/*
 * The environment's words into a rule. First all words are found in one pass, then each is read in an order
 * in which nothing depends on a later one. What decides how an error is treated (whom the rule is for, what
 * to do on an error, which calls) is read before anything that may fail.
 */
#include "policy/env.h"

#include <errno.h>
#include <string.h>

#include "policy/policy.h"

enum word {
    W_BUCKET,
    W_RATE,
    W_BURST,
    W_COUNT,
    W_CALLS,
    W_WHEN_EMPTY,
    W_MAX_WAIT,
    W_ONLY,
    W_SKIP,
    W_ON_ERROR,
    W_INHERIT,
    W_VERBOSE,
    W_OFF,
    W_KNOWN,
    W_DEST = W_KNOWN,
    W_CONFIG,
    W_ALL,
};

static const char *const word_names[W_ALL] = {
    [W_BUCKET] = "TUNDISH_BUCKET",     [W_RATE] = "TUNDISH_RATE",       [W_BURST] = "TUNDISH_BURST",
    [W_COUNT] = "TUNDISH_COUNT",       [W_CALLS] = "TUNDISH_CALLS",     [W_WHEN_EMPTY] = "TUNDISH_WHEN_EMPTY",
    [W_MAX_WAIT] = "TUNDISH_MAX_WAIT", [W_ONLY] = "TUNDISH_ONLY",       [W_SKIP] = "TUNDISH_SKIP",
    [W_ON_ERROR] = "TUNDISH_ON_ERROR", [W_INHERIT] = "TUNDISH_INHERIT", [W_VERBOSE] = "TUNDISH_VERBOSE",
    [W_OFF] = "TUNDISH_OFF",           [W_DEST] = "TUNDISH_DEST",       [W_CONFIG] = "TUNDISH_CONFIG",
};

/* Where buckets are: for the library, not a setting of a rule. */
static const char *const place_names[] = {"TUNDISH_DIR"};

static const struct {
    const char *name;
    uint32_t calls;
} call_names[] = {
    {"connect", TDI_CALL_CONNECT}, {"write", TDI_CALL_WRITE},   {"writev", TDI_CALL_WRITEV},
    {"send", TDI_CALL_SEND},       {"sendto", TDI_CALL_SENDTO}, {"sendmsg", TDI_CALL_SENDMSG},
    {"up", TDI_CALLS_UP},
};

static const struct {
    const char *name;
    int error;
} errno_names[] = {
    {"EAGAIN", EAGAIN},
    {"EWOULDBLOCK", EWOULDBLOCK},
    {"EACCES", EACCES},
    {"EPERM", EPERM},
    {"ECONNREFUSED", ECONNREFUSED},
    {"ECONNRESET", ECONNRESET},
    {"ECONNABORTED", ECONNABORTED},
    {"ETIMEDOUT", ETIMEDOUT},
    {"EHOSTUNREACH", EHOSTUNREACH},
    {"ENETUNREACH", ENETUNREACH},
    {"ENETDOWN", ENETDOWN},
    {"EPIPE", EPIPE},
    {"ENOBUFS", ENOBUFS},
    {"ENOMEM", ENOMEM},
    {"EBUSY", EBUSY},
    {"EIO", EIO},
    {"ENOSPC", ENOSPC},
    {"EDQUOT", EDQUOT},
};

/* What one reading carries from word to word. */
struct reading {
    struct tdi_policy *policy;
    const char *value[W_ALL]; /* NULL: not there */
    const char *stranger;     /* a TUNDISH_ word nobody knows, with its '=' */
    char *why;
    size_t len;
    bool failed; /* the first complaint stays */
};

/* "TUNDISH_RATE=5K/s: " and the reason in up to two parts. */
static void complain(struct reading *r, enum word word, const char *reason, const char *more)
{
    if (r->failed)
        return;
    r->failed = true;
    struct tdi_text line;
    tdi_text_start(&line, r->why, r->len);
    tdi_text_add(&line, word_names[word]);
    if (r->value[word] != NULL) {
        tdi_text_add(&line, "=");
        char shown[81] = "";
        strncpy(shown, r->value[word], sizeof shown - 1);
        for (char *c = shown; *c != '\0'; c++)
            if ((unsigned char)*c < ' ' || *c == 127)
                *c = '?';
        tdi_text_add(&line, shown);
    }
    tdi_text_add(&line, ": ");
    tdi_text_add(&line, reason);
    tdi_text_add(&line, more);
}

static size_t find_name(const char *const *names, size_t count, const char *item, size_t len)
{
    size_t i = 0;
    while (i < count && !tdi_item_is(item, len, names[i]))
        i++;
    return i;
}

static void find_words(struct reading *r, char *const *words)
{
    for (; words != NULL && *words != NULL; words++) {
        if (strncmp(*words, "TUNDISH_", 8) != 0)
            continue;
        const char *equals = strchr(*words, '=');
        if (equals == NULL)
            continue;
        size_t len = (size_t)(equals - *words);
        const size_t places = sizeof place_names / sizeof *place_names;
        if (find_name(place_names, places, *words, len) < places)
            continue;
        size_t i = find_name(word_names, W_ALL, *words, len);
        if (i == W_ALL)
            r->stranger = *words;
        else if (r->value[i] == NULL) /* the first one counts, as for getenv */
            r->value[i] = equals + 1;
    }
}

static bool read_flag(struct reading *r, enum word word)
{
    const char *value = r->value[word];
    if (value == NULL || strcmp(value, "0") == 0 || strcmp(value, "no") == 0 || *value == '\0')
        return false;
    if (strcmp(value, "1") != 0 && strcmp(value, "yes") != 0)
        complain(r, word, "is 1 or 0", "");
    return true;
}

static bool is_listed(const char *list, const char *program)
{
    const char *item;
    size_t len;
    while (tdi_list_next(&list, &item, &len))
        if (tdi_item_is(item, len, program))
            return true;
    return false;
}

static void read_calls(struct reading *r)
{
    const char *rest = r->value[W_CALLS];
    const char *item;
    size_t len;
    uint32_t calls = 0;
    while (tdi_list_next(&rest, &item, &len)) {
        size_t i = 0;
        while (i < sizeof call_names / sizeof *call_names && !tdi_item_is(item, len, call_names[i].name))
            i++;
        if (i == sizeof call_names / sizeof *call_names)
            complain(r, W_CALLS,
                     "is a list of connect, write, writev, send, sendto, sendmsg, or up for all but connect",
                     "");
        else
            calls |= call_names[i].calls;
    }
    r->policy->calls = calls;
}

static void read_on_error(struct reading *r)
{
    const char *value = r->value[W_ON_ERROR];
    if (value == NULL || strcmp(value, "pass") == 0)
        return;
    r->policy->fail = strcmp(value, "fail") == 0;
    if (!r->policy->fail)
        complain(r, W_ON_ERROR, "is pass or fail", "");
}

static void read_when_empty(struct reading *r)
{
    const char *value = r->value[W_WHEN_EMPTY];
    if (value == NULL || strcmp(value, "wait") == 0)
        return;
    if (strcmp(value, "observe") == 0) {
        r->policy->when_empty = TDI_EMPTY_OBSERVE;
        return;
    }
    if (strncmp(value, "refuse", 6) != 0 || (value[6] != '\0' && value[6] != ':')) {
        complain(r, W_WHEN_EMPTY, "is wait, refuse, refuse:ERRNO or observe", "");
        return;
    }
    r->policy->when_empty = TDI_EMPTY_REFUSE;
    if (value[6] == '\0')
        return;
    for (size_t i = 0; i < sizeof errno_names / sizeof *errno_names; i++)
        if (strcmp(value + 7, errno_names[i].name) == 0)
            r->policy->refuse_errno = errno_names[i].error;
    if (r->policy->refuse_errno == 0)
        complain(r, W_WHEN_EMPTY,
                 "an error is named as in errno(3): EAGAIN, ECONNREFUSED, EACCES, ETIMEDOUT, ENOBUFS",
                 " and the like");
}

/* The library expands %p, %u, %n; what it does not know must not turn into a file name with a percent sign.
 */
static bool check_name(struct reading *r, const char *name, size_t len)
{
    if (len == 0) {
        complain(r, W_BUCKET, "an empty bucket name", "");
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (name[i] != '%')
            continue;
        i++;
        char c = i < len ? name[i] : '\0';
        if (c == 'h' || c == 'P')
            complain(r, W_BUCKET, "per-destination buckets are not in this version", "");
        else if (c == '\0' || strchr("pun%", c) == NULL)
            complain(r, W_BUCKET, "after % comes p (process), u (user), n (program) or another %", "");
    }
    return !r->failed;
}

static void read_buckets(struct reading *r)
{
    struct tdi_policy *policy = r->policy;
    const char *rest = r->value[W_BUCKET];
    const char *item;
    size_t len;
    size_t used = 0;
    while (tdi_list_next(&rest, &item, &len)) {
        if (!check_name(r, item, len))
            return;
        if (policy->buckets == TDI_POLICY_BUCKETS) {
            complain(r, W_BUCKET, "more than 8 buckets", "");
            return;
        }
        if (len >= sizeof policy->text - used) {
            complain(r, W_BUCKET, "the names are longer than 4095 bytes", "");
            return;
        }
        memcpy(policy->text + used, item, len);
        policy->bucket[policy->buckets++] = (uint16_t)used;
        used += len;
        policy->text[used++] = '\0';
    }
}

static void read_count(struct reading *r)
{
    const char *value = r->value[W_COUNT];
    if (value == NULL)
        return;
    if (strcmp(value, "bytes") == 0)
        r->policy->count = TDI_COUNT_BYTES;
    else if (strcmp(value, "calls") == 0)
        r->policy->count = TDI_COUNT_CALLS;
    else
        complain(r, W_COUNT, "is bytes or calls", "");
}

static void read_rate(struct reading *r)
{
    struct tdi_policy *policy = r->policy;
    const char *why = "";
    if (r->value[W_RATE] == NULL) {
        if (r->value[W_BURST] != NULL)
            complain(r, W_BURST, "a burst goes with TUNDISH_RATE", "");
        return;
    }
    if (tdi_unit_parse_rate(r->value[W_RATE], &policy->rate, &why) < 0) {
        complain(r, W_RATE, why, "");
        return;
    }
    if (policy->rate.bytes && policy->count == TDI_COUNT_CALLS) {
        complain(r, W_RATE, "is in bytes, but TUNDISH_COUNT=calls", "");
        return;
    }
    if (policy->count == TDI_COUNT_BY_BUCKET)
        policy->count = policy->rate.bytes ? TDI_COUNT_BYTES : TDI_COUNT_CALLS;
    policy->rate.bytes = policy->count == TDI_COUNT_BYTES;
    policy->has_rate = true;
    policy->burst = tdi_unit_default_burst(&policy->rate);
    if (r->value[W_BURST] == NULL)
        return;
    policy->has_burst = true;
    if (tdi_unit_parse_burst(r->value[W_BURST], &policy->rate, &policy->burst, &why) < 0)
        complain(r, W_BURST, why, "");
}

static void read_max_wait(struct reading *r)
{
    const char *why = "";
    if (r->value[W_MAX_WAIT] != NULL &&
        tdi_unit_parse_duration_ns(r->value[W_MAX_WAIT], &r->policy->max_wait_ns, &why) < 0)
        complain(r, W_MAX_WAIT, why, "");
}

static void refuse_foreign_words(struct reading *r)
{
    for (enum word word = W_KNOWN; word < W_ALL; word++)
        if (r->value[word] != NULL)
            complain(r, word, "is not in this version", "");
    if (r->value[W_INHERIT] != NULL && strcmp(r->value[W_INHERIT], "env") != 0)
        complain(r, W_INHERIT, "this version knows only env", "");
    if (r->stranger != NULL && !r->failed) {
        r->failed = true;
        struct tdi_text line;
        tdi_text_start(&line, r->why, r->len);
        char name[64] = "";
        strncpy(name, r->stranger, sizeof name - 1);
        char *equals = strchr(name, '=');
        if (equals != NULL)
            *equals = '\0';
        tdi_text_add(&line, name);
        tdi_text_add(&line, ": no such setting");
    }
}

/* A setting without anything to limit is a mistake; a preloaded library without any setting is at rest. */
static void refuse_idle_words(struct reading *r)
{
    static const enum word idle[] = {W_COUNT, W_CALLS, W_WHEN_EMPTY, W_MAX_WAIT};
    if (r->policy->has_rate || r->policy->buckets > 0)
        return;
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (r->value[idle[i]] != NULL)
            complain(r, idle[i], "without TUNDISH_BUCKET or TUNDISH_RATE there is nothing to limit", "");
}

int tdi_policy_from_environ(struct tdi_policy *out, char *const *environ_words, const char *program,
                            char *why, size_t len)
{
    struct reading reading = {.policy = out, .why = why, .len = len};
    struct reading *r = &reading;
    memset(out, 0, sizeof *out);
    out->max_wait_ns = UINT64_MAX;
    find_words(r, environ_words);

    bool off = read_flag(r, W_OFF);
    bool asked = r->value[W_BUCKET] != NULL || r->value[W_RATE] != NULL;
    bool left_out = (r->value[W_ONLY] != NULL && !is_listed(r->value[W_ONLY], program)) ||
                    (r->value[W_SKIP] != NULL && is_listed(r->value[W_SKIP], program));
    out->applies = asked && !left_out && !(off && !r->failed);
    if (off && !r->failed)
        return 0;
    out->verbose = read_flag(r, W_VERBOSE);
    read_on_error(r);
    read_calls(r);

    read_when_empty(r);
    read_max_wait(r);
    read_buckets(r);
    read_count(r);
    read_rate(r);
    refuse_foreign_words(r);
    refuse_idle_words(r);
    return r->failed ? -EINVAL : 0;
}

const char *tdi_policy_bucket(const struct tdi_policy *policy, uint32_t i)
{
    return policy->text + policy->bucket[i];
}

uint32_t tdi_policy_calls(const struct tdi_policy *policy, bool bytes)
{
    if (policy->calls != 0)
        return policy->calls;
    return bytes ? TDI_CALLS_UP : TDI_CALL_CONNECT;
}

const char *tdi_policy_program(const char *argv0)
{
    if (argv0 == NULL)
        return "";
    const char *slash = strrchr(argv0, '/');
    return slash != NULL ? slash + 1 : argv0;
}
