/* SPDX-License-Identifier: MIT */
/*
 * The rules from the constructor to the end of the process. A quota of this process (a rate without a bucket
 * name) lives in anonymous memory that a fork shares. The child therefore makes its own in the atfork
 * handler. That handler may allocate: the constructor has already made the allocator register its own
 * handlers before ours, so in the child they run first. vfork and posix_spawn run no handlers, which is
 * right: their child lives in the parent's memory.
 */
#include "rule.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#include "config.h"
#include "heritage.h"
#include "hook/hook.h"
#include "inside.h"
#include "key.h"
#include "known.h"
#include "lib/handle.h"
#include "open.h"
#include "policy/env.h"
#include "ready/debt.h"
#include "ready/lock.h"
#include "say.h"

struct tdi_tally tdi_tally;
_Atomic(uint32_t) tdi_forks;

_Atomic(const struct tdi_rules *) tdi_rules_published;

static struct tdi_rules rules;
static char program[64];
static pid_t command; /* the run's, by TUNDISH_RUN */
static bool forked;   /* without exec: such a child speaks only if it made a call */

static void publish(void)
{
    atomic_store_explicit(&tdi_rules_published, &rules, memory_order_release); /* pairs with tdi_rules */
}

void tdi_rules_stand_down(void)
{
    atomic_store_explicit(&tdi_rules_published, NULL, memory_order_relaxed);
}

/* Or fails calls. */
static bool limits_something(void)
{
    return rules.count > 0 || rules.broken;
}

void tdi_rules_stand_up(void)
{
    if (limits_something())
        publish();
}

/* Of a rule that could not be read to its end. */
static uint32_t calls_meant(const struct tdi_policy_rule *rule)
{
    return rule->calls != 0 || rule->hooks != 0 ? rule->calls : TDI_CALLS_UP | TDI_CALL_CONNECT;
}

void tdi_rules_give_up(const char *subject, const char *reason, const char *more)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *then = rules.policy.fail ? ": its calls fail" : ": its calls pass";
    if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed) && *subject != '\0')
        tdi_say_line(program, ": ", subject, reason, more, then);
    if (!rules.policy.fail)
        return;
    for (uint32_t r = 0; r < rules.policy.rules; r++)
        rules.calls |= calls_meant(&rules.policy.rule[r]);
    if (rules.policy.rules == 0) /* of a configuration that nobody could read */
        rules.calls = TDI_CALLS_UP | TDI_CALL_CONNECT;
    rules.broken = true;
}

static void after_fork_in_child(void)
{
    int saved_errno = errno;
    tdi_inside.house++;
    forked = true;
    atomic_fetch_add_explicit(&tdi_forks, 1, memory_order_relaxed);
    atomic_store(&tdi_tally.calls, 0);
    atomic_store(&tdi_tally.bytes, 0);
    atomic_store(&tdi_tally.counted, 0);
    atomic_store(&tdi_tally.refused, 0);
    atomic_store(&tdi_tally.dropped, 0);
    atomic_store(&tdi_tally.waited_ns, 0);
    atomic_store(&tdi_tally.late, 0);
    tdi_known_own();
    tdi_open_after_fork(&rules,
                        tdi_inside.road > 0); /* under way: a call that a signal handler interrupted */
    tdi_key_after_fork();
    tdi_debt_after_fork();
    tdi_inside.house--;
    errno = saved_errno;
    tdi_ready_unlock_after_fork();
}

static void say_start(void)
{
    static const char *const manner[] = {[TDI_EMPTY_WAIT] = "wait",
                                         [TDI_EMPTY_REFUSE] = "refuse",
                                         [TDI_EMPTY_DROP] = "drop",
                                         [TDI_EMPTY_OBSERVE] = "observe"};
    for (uint32_t r = 0; r < rules.count; r++) {
        const struct tdi_rule *rule = &rules.rule[r];
        const struct tdi_policy_rule *policy = rule->policy;
        struct tundish_info info = TUNDISH_INFO_INIT;
        struct tdi_rate rate = policy->rate;
        uint32_t capacity = policy->burst;
        char rate_text[40] = "rates of their own", burst[24] = "";
        if (rule->bucket[0] != NULL) {
            (void)tundish_info(rule->bucket[0], &info);
            rate = (struct tdi_rate){info.refill, info.interval_us, rule->bytes};
            capacity = info.capacity;
        }
        bool has_rate = rule->bucket[0] != NULL || policy->has_rate;
        if (has_rate) {
            tdi_unit_format_rate(rate_text, sizeof rate_text, &rate);
            tdi_unit_format_count(burst, sizeof burst, capacity, rule->bytes);
        }
        tdi_say_line(program, ": ", policy->buckets > 0 ? "bucket " : "own quota",
                     policy->buckets > 0 ? tdi_policy_bucket(&rules.policy, policy, 0) : "",
                     policy->buckets > 1 ? " and more" : "", ", ", rate_text, has_rate ? ", burst " : "",
                     burst, ", counts ", rule->bytes ? "bytes" : "calls", ", when empty ",
                     manner[policy->when_empty]);
    }
}

/* "1.2 MB", "7 tokens", or "1.2 MB and 7 tokens": what the rules count. */
static void format_counts(char *buf, size_t len)
{
    char bytes[24], counted[24];
    bool has[2] = {false, false};
    struct tdi_text text;
    for (uint32_t r = 0; r < rules.count; r++)
        has[rules.rule[r].bytes] = true;
    tdi_unit_format_count(bytes, sizeof bytes, atomic_load(&tdi_tally.bytes), true);
    tdi_unit_format_count(counted, sizeof counted, atomic_load(&tdi_tally.counted), false);
    tdi_text_start(&text, buf, len);
    tdi_text_add(&text, has[1] ? bytes : "");
    tdi_text_add(&text, has[0] && has[1] ? " and " : "");
    tdi_text_add(&text, has[0] ? counted : "");
    tdi_text_add(&text, has[0] ? " tokens" : "");
}

/* Started as such by the launcher, and not only to start others: then what it lacks is a mistake. */
static bool is_the_command(void)
{
    return command == getpid() && !tdi_heritage_started;
}

void tdi_rules_report(void)
{
    const struct tdi_rules *r = tdi_rules();
    if (r != NULL && !r->broken && !forked)
        tdi_hook_report(r, program, r->policy.verbose || is_the_command());
    if (r == NULL || r->broken || !r->policy.verbose || (forked && atomic_load(&tdi_tally.calls) == 0))
        return;
    char calls[TDI_DECIMAL], refused[TDI_DECIMAL], dropped[TDI_DECIMAL], late[TDI_DECIMAL];
    char counts[64], waited[24];
    bool some_dropped = atomic_load(&tdi_tally.dropped) > 0, some_late = atomic_load(&tdi_tally.late) > 0;
    format_counts(counts, sizeof counts);
    tdi_unit_format_duration(waited, sizeof waited, atomic_load(&tdi_tally.waited_ns));
    tdi_say_line(program, ": ", tdi_decimal(calls, atomic_load(&tdi_tally.calls)), " calls in the rule, ",
                 counts, ", waited ", waited, ", refused ",
                 tdi_decimal(refused, atomic_load(&tdi_tally.refused)), some_dropped ? ", dropped " : "",
                 some_dropped ? tdi_decimal(dropped, atomic_load(&tdi_tally.dropped)) : "",
                 some_late ? ", would have held " : "",
                 some_late ? tdi_decimal(late, atomic_load(&tdi_tally.late)) : "");
}

static void with_each_bucket(void (*act)(struct tundish *bucket))
{
    const struct tdi_rules *r = tdi_rules();
    for (uint32_t k = 0; r != NULL && k < r->count; k++)
        for (uint32_t i = 0; i < r->rule[k].buckets; i++)
            if (r->rule[k].bucket[i] != NULL)
                act(r->rule[k].bucket[i]);
}

void tdi_rules_forking(void)
{
    with_each_bucket(tdi_handle_forking);
}

void tdi_rules_leave(void)
{
    with_each_bucket(tdi_handle_leave);
}

/* The child lists itself, but perhaps not before we are gone. */
static void before_fork(void)
{
    tdi_heritage_started = true;
    tdi_rules_forking();
    tdi_ready_lock_before_fork();
}

/* What the environment says, and the configuration file that it names. */
static int read_policy(int argc, char *const *argv, char *const *words, const struct tdi_frozen **frozen,
                       char *why, size_t len)
{
    char first[512]; /* the first complaint stays */
    int error = tdi_policy_from_environ(&rules.policy, words, program, why, len);
    *frozen = NULL;
    if (rules.policy.off)
        return error;
    if (tdi_config_read(frozen, argc, argv, words, first, sizeof first) < 0 ||
        (*frozen != NULL && tdi_frozen_add(&rules.policy, *frozen, program, first, sizeof first) < 0)) {
        struct tdi_text line;
        tdi_text_start(&line, why, error < 0 ? 0 : len);
        tdi_text_add(&line, first);
        rules.policy.applies = true; /* perhaps: nobody knows */
        error = -EINVAL;
    }
    return error;
}

void tdi_rules_open(int argc, char *const *argv, char *const *environ_words)
{
    char why[512];
    const struct tdi_frozen *frozen;
    struct tdi_text line;
    tdi_text_start(&line, program, sizeof program);
    tdi_text_add(&line, tdi_policy_program(argc > 0 ? argv[0] : NULL));
    if (tdi_config_is_launcher(environ_words))
        return;

    int error = read_policy(argc, argv, environ_words, &frozen, why, sizeof why);
    tdi_heritage_note(rules.policy.inherit,
                      environ_words); /* also where no rule is for this program itself */
    if (error < 0 && rules.policy.applies)
        tdi_rules_give_up(why, "", "");
    else if (error == 0 && tdi_open_rules(&rules) && rules.count > 0)
        (void)pthread_atfork(before_fork, tdi_ready_unlock_after_fork, after_fork_in_child);
    tdi_hook_begin_all();
    if (frozen != NULL)
        tdi_hook_begin(&rules, frozen);
    command = tdi_config_command(environ_words);
    if (!limits_something())
        return;
    tdi_known_own();
    publish();
    if (rules.policy.verbose && !rules.broken)
        say_start();
}
