/* SPDX-License-Identifier: MIT */
/*
 * Opening happens once, in the constructor, while the environment and the directory of names are what the
 * launcher saw. Nothing is opened later: a program may have dropped its environment, its privileges or its
 * root by then.
 *
 * A quota of this process (a rate without a bucket name) lives in anonymous memory that a fork shares. The
 * child therefore makes its own in the atfork handler. That handler may allocate: the constructor has already
 * made the allocator register its own handlers before ours, so in the child they run first. vfork and
 * posix_spawn run no handlers, which is right: their child lives in the parent's memory.
 */
#include "rule.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>

#include "inside.h"
#include "lib/handle.h"
#include "policy/env.h"
#include "say.h"

struct tdi_tally tdi_tally;

static struct tdi_rule rule;
static _Atomic(const struct tdi_rule *) published;
static char program[64];
static bool forked; /* without exec: such a child speaks only if it made a call */

const struct tdi_rule *tdi_rule(void)
{
    /* Pairs with the release in publish: the rule must be complete before it is seen. */
    return atomic_load_explicit(&published, memory_order_acquire);
}

static void publish(void)
{
    atomic_store_explicit(&published, &rule, memory_order_release); /* pairs with the acquire in tdi_rule */
}

void tdi_rule_stand_down(void)
{
    atomic_store_explicit(&published, NULL, memory_order_relaxed);
}

void tdi_rule_stand_up(void)
{
    if (rule.calls != 0)
        publish();
}

static void give_up(const char *subject, const char *reason, const char *more)
{
    const char *then = rule.policy.fail ? ": its calls fail" : ": its calls pass";
    tdi_say_line(program, ": ", subject, reason, more, then);
    if (!rule.policy.fail)
        return;
    rule.broken = true;
    rule.calls = rule.policy.calls != 0 ? rule.policy.calls : TDI_CALLS_UP | TDI_CALL_CONNECT;
    publish();
}

static struct tundish_options options_of(const struct tdi_policy *policy)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(policy->burst, policy->rate.refill);
    options.interval_us = policy->rate.interval_us;
    options.flags = policy->rate.bytes ? TUNDISH_BYTES : 0;
    return options;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool same_rate(const struct tdi_rate *a, const struct tdi_rate *b)
{
    uint64_t da = common_divisor(a->refill, a->interval_us);
    uint64_t db = common_divisor(b->refill, b->interval_us);
    return da > 0 && db > 0 && a->bytes == b->bytes && a->refill / da == b->refill / db &&
           a->interval_us / da == b->interval_us / db;
}

/* A bucket that was there before keeps its options, so they must be the ones that were asked for. */
static bool agrees(const char *name, const struct tundish_info *info)
{
    const struct tdi_policy *policy = &rule.policy;
    struct tdi_rate has = {info->refill, info->interval_us, (info->flags & TUNDISH_BYTES) != 0};
    if (same_rate(&has, &policy->rate) && (!policy->has_burst || info->capacity == policy->burst))
        return true;
    char has_rate[40], has_burst[24], asks_rate[40], asks_burst[24], reason[160];
    tdi_unit_format_rate(has_rate, sizeof has_rate, &has);
    tdi_unit_format_count(has_burst, sizeof has_burst, info->capacity, has.bytes);
    tdi_unit_format_rate(asks_rate, sizeof asks_rate, &policy->rate);
    tdi_unit_format_count(asks_burst, sizeof asks_burst, policy->burst, policy->rate.bytes);
    struct tdi_text line;
    tdi_text_start(&line, reason, sizeof reason);
    const char *const parts[] = {" has ",   has_rate,  " burst ", has_burst, ", but TUNDISH_RATE asks for ",
                                 asks_rate, " burst ", asks_burst};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        tdi_text_add(&line, parts[i]);
    give_up("bucket ", name, reason);
    return false;
}

/* The file a name stands for: one bucket under two names is to be charged once. */
static bool is_open_already(uint32_t i, const char *name)
{
    static struct stat seen[TDI_POLICY_BUCKETS];
    static char path[TDI_POLICY_TEXT];
    if (tundish_path(name, path, sizeof path) < 0 || stat(path, &seen[i]) != 0)
        return false;
    for (uint32_t k = 0; k < i; k++)
        if (seen[k].st_dev == seen[i].st_dev && seen[k].st_ino == seen[i].st_ino)
            return true;
    return false;
}

static bool open_bucket(const char *name)
{
    uint32_t i = rule.buckets;
    struct tundish_options options = options_of(&rule.policy);
    struct tundish_info info = TUNDISH_INFO_INIT;
    int error = rule.policy.has_rate ? tundish_open_or_create(&rule.bucket[i], name, &options)
                                     : tundish_open(&rule.bucket[i], name);
    if (error < 0) {
        char reason[160];
        struct tdi_text line;
        tdi_text_start(&line, reason, sizeof reason);
        tdi_text_add(&line, ": ");
        tdi_text_add(&line, tundish_strerror(error));
        give_up("bucket ", name, reason);
        return false;
    }
    if (is_open_already(i, name)) {
        tundish_close(rule.bucket[i]);
        return true;
    }
    rule.buckets++;
    (void)tundish_info(rule.bucket[i], &info);
    if (rule.policy.has_rate && !agrees(name, &info))
        return false;
    bool bytes = (info.flags & TUNDISH_BYTES) != 0;
    if (rule.policy.count == TDI_COUNT_BY_BUCKET && i > 0 && bytes != rule.bytes) {
        give_up("TUNDISH_BUCKET", ": one bucket counts bytes and another calls", "");
        return false;
    }
    rule.bytes = rule.policy.count == TDI_COUNT_BY_BUCKET ? bytes : rule.policy.count == TDI_COUNT_BYTES;
    return true;
}

static bool open_quota(void)
{
    struct tundish_options options = options_of(&rule.policy);
    int error = tundish_create_private(&rule.bucket[0], &options);
    if (error < 0) {
        give_up("TUNDISH_RATE: ", tundish_strerror(error), "");
        return false;
    }
    rule.buckets = 1;
    rule.bytes = rule.policy.rate.bytes;
    return true;
}

static bool open_all(void)
{
    if (rule.policy.buckets == 0 && !open_quota())
        return false;
    for (uint32_t i = 0; i < rule.policy.buckets; i++)
        if (!open_bucket(tdi_policy_bucket(&rule.policy, i)))
            return false;
    uint32_t calls = tdi_policy_calls(&rule.policy, rule.bytes);
    if (rule.bytes && calls == TDI_CALL_CONNECT) {
        give_up("TUNDISH_CALLS=connect: ", "a connect has no bytes; TUNDISH_COUNT=calls counts it", "");
        return false;
    }
    rule.calls = calls;
    return true;
}

static void close_all(void)
{
    for (uint32_t i = 0; i < rule.buckets; i++)
        tundish_close(rule.bucket[i]);
    rule.buckets = 0;
}

static void after_fork_in_child(void)
{
    int saved_errno = errno;
    tdi_inside.house++;
    forked = true;
    atomic_store(&tdi_tally.calls, 0);
    atomic_store(&tdi_tally.tokens, 0);
    atomic_store(&tdi_tally.refused, 0);
    atomic_store(&tdi_tally.waited_ns, 0);
    struct tundish_options options = options_of(&rule.policy);
    struct tundish *own;
    if (rule.policy.buckets == 0 && tundish_create_private(&own, &options) == 0) {
        struct tundish *parents = rule.bucket[0];
        rule.bucket[0] = own;
        if (tdi_inside.road == 0) /* else a call that a signal handler interrupted goes on with it here */
            tundish_close(parents);
    }
    /* A run's bucket lives as long as anybody is listed, and the child may exec before its first call. */
    for (uint32_t i = 0; i < rule.buckets; i++)
        tdi_handle_enter(rule.bucket[i]);
    tdi_inside.house--;
    errno = saved_errno;
}

static void say_start(void)
{
    const struct tdi_policy *policy = &rule.policy;
    static const char *const manner[] = {
        [TDI_EMPTY_WAIT] = "wait", [TDI_EMPTY_REFUSE] = "refuse", [TDI_EMPTY_OBSERVE] = "observe"};
    struct tundish_info info = TUNDISH_INFO_INIT;
    (void)tundish_info(rule.bucket[0], &info);
    struct tdi_rate rate = {info.refill, info.interval_us, rule.bytes};
    char rate_text[40], burst[24];
    tdi_unit_format_rate(rate_text, sizeof rate_text, &rate);
    tdi_unit_format_count(burst, sizeof burst, info.capacity, rule.bytes);
    tdi_say_line(program, ": ", policy->buckets > 0 ? "bucket " : "own quota",
                 policy->buckets > 0 ? tdi_policy_bucket(policy, 0) : "",
                 policy->buckets > 1 ? " and more" : "", ", ", rate_text, ", burst ", burst, ", counts ",
                 rule.bytes ? "bytes" : "calls", ", when empty ", manner[policy->when_empty]);
}

void tdi_rule_report(void)
{
    const struct tdi_rule *r = tdi_rule();
    if (r == NULL || r->broken || !r->policy.verbose || (forked && atomic_load(&tdi_tally.calls) == 0))
        return;
    char calls[TDI_DECIMAL], refused[TDI_DECIMAL], tokens[24], waited[24];
    tdi_unit_format_count(tokens, sizeof tokens, atomic_load(&tdi_tally.tokens), r->bytes);
    tdi_unit_format_duration(waited, sizeof waited, atomic_load(&tdi_tally.waited_ns));
    tdi_say_line(program, ": ", tdi_decimal(calls, atomic_load(&tdi_tally.calls)), " calls in the rule, ",
                 tokens, r->bytes ? "" : " tokens", ", waited ", waited, ", refused ",
                 tdi_decimal(refused, atomic_load(&tdi_tally.refused)));
}

void tdi_rule_leave(void)
{
    const struct tdi_rule *r = tdi_rule();
    for (uint32_t i = 0; r != NULL && i < r->buckets; i++)
        tdi_handle_leave(r->bucket[i]);
}

void tdi_rule_open(int argc, char *const *argv, char *const *environ_words)
{
    char why[512];
    struct tdi_text line;
    tdi_text_start(&line, program, sizeof program);
    tdi_text_add(&line, tdi_policy_program(argc > 0 ? argv[0] : NULL));

    int error = tdi_policy_from_environ(&rule.policy, environ_words, program, why, sizeof why);
    if (!rule.policy.applies)
        return;
    if (error < 0) {
        give_up(why, "", "");
        return;
    }
    if (!open_all()) {
        close_all();
        return;
    }
    (void)pthread_atfork(NULL, NULL, after_fork_in_child);
    publish();
    if (rule.policy.verbose)
        say_start();
}
