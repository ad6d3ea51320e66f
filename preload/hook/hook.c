/* SPDX-License-Identifier: MIT */
/*
 * Which entries of the hook library this process has rules for, and getting them ready: closures are made
 * here, all at the start, and no call ever allocates. An entry that no rule is for stays without a closure,
 * and its calls pass in enter.S.
 */
#include "hook.h"

#include <pthread.h>
#include <stddef.h>

#include "caught.h"
#include "inside.h"
#include "policy/env.h"
#include "say.h"
#include "serve.h"
#include "sig.h"
#include "straight.h"
#include "text.h"

#define HOOKS_MOST (TDI_FROZEN_HOOKS + 4)

_Atomic(uint32_t) tdi_hooks;
struct tdi_hook tdi_hook[HOOKS_MOST];

/* ISO C knows no way from one to the other; POSIX says that the bits are the same. */
static void publish(struct tdi_stub_entry *entry, struct tdi_hook *hook)
{
    _Atomic(void *) *place = (_Atomic(void *) *)(void *)&entry->hook;
    /* enter.S reads it, and then what it points to: the hook must be complete before. */
    atomic_store_explicit(place, hook, memory_order_release);
}

static uint32_t rules_for(const struct tdi_rules *rules, uint32_t bit, const struct tdi_rule **first)
{
    uint32_t count = 0;
    for (uint32_t r = rules->count; r-- > 0;)
        if ((rules->rule[r].policy->hooks & bit) != 0) {
            *first = &rules->rule[r];
            count++;
        }
    return count;
}

static const struct tdi_frozen_hook *find_spec(const struct tdi_frozen *frozen, const char *name)
{
    for (uint32_t i = 0; i < frozen->hooks; i++)
        if (tdi_text_same(tdi_frozen_text(frozen, frozen->hook[i].symbol), name))
            return &frozen->hook[i];
    return NULL;
}

static bool is_plain(const struct tdi_rules *rules, const struct tdi_rule *rule)
{
    return rule->buckets == 1 && rule->policy->when_empty != TDI_EMPTY_OBSERVE && !rules->policy.verbose;
}

/* Whether a rule is for it, also one whose bucket could not be opened. */
static bool is_wanted(const struct tdi_rules *rules, uint32_t bit)
{
    for (uint32_t r = 0; r < rules->policy.rules; r++)
        if ((rules->policy.rule[r].hooks & bit) != 0)
            return true;
    return false;
}

/* false: libffi cannot do it. */
static bool fill(struct tdi_hook *hook, const struct tdi_rules *rules, const struct tdi_frozen *frozen,
                 const struct tdi_frozen_hook *spec)
{
    const struct tdi_rule *rule = NULL;
    hook->bit = UINT32_C(1) << spec->group;
    if (!is_wanted(rules, hook->bit))
        return true;
    uint32_t count = rules_for(rules, hook->bit, &rule);
    hook->signature = tdi_frozen_text(frozen, spec->signature);
    if (spec->library != 0)
        tdi_hook_take_from(hook, tdi_frozen_text(frozen, spec->library));
    hook->straight = tdi_straight_suits(hook->signature);
    hook->bytes = count > 0 && rule->bytes && spec->cost.kind != TDI_COST_TOKENS;
    hook->only = count == 1 && is_plain(rules, rule) ? rule : NULL;
    if (!tdi_sig_prepare(&hook->cif, hook->signature) ||
        ffi_prep_go_closure(&hook->closure, &hook->cif, tdi_hook_serve) != FFI_OK)
        return false;
    hook->spec = spec;
    return true;
}

static void fill_all(const struct tdi_rules *rules, const struct tdi_frozen *frozen)
{
    for (uint32_t i = 0; i < tdi_hooks; i++) {
        const struct tdi_frozen_hook *spec = find_spec(frozen, tdi_hook[i].name);
        if (spec != NULL && !fill(&tdi_hook[i], rules, frozen, spec))
            tdi_say_line("hook ", tdi_hook[i].name,
                         ": libffi cannot pass on calls of this signature: they are "
                         "not limited");
    }
}

static void publish_caught(void)
{
    for (uint32_t i = 0; i < tdi_hooks; i++)
        if (tdi_caught_begin(&tdi_hook[i]))
            publish(&tundish_preload_hook_table[i], &tdi_hook[i]);
}

/* The names, and where their functions are, before anything else: a call may come at any time. */
static void begin_idle(void)
{
    struct tdi_home room;
    struct tdi_stub_entry *table = tundish_preload_hook_table;
    uint32_t count = 0;
    for (; count < HOOKS_MOST && table[count].name != NULL; count++)
        tdi_hook[count].name = table[count].name;
    tdi_find_begin(table);
    tdi_hooks = count; /* last, and seq_cst: who sees it may use the rest */
    for (uint32_t i = 0; i < count; i++)
        (void)tdi_hook_home(&tdi_hook[i], NULL, &room);
    publish_caught();
}

static bool has_any(void)
{
    for (uint32_t i = 0; i < tdi_hooks; i++)
        if (tdi_hook[i].spec != NULL)
            return true;
    return false;
}

static bool wants_any(const struct tdi_rules *rules)
{
    return is_wanted(rules, UINT32_MAX);
}

void tdi_hook_begin_idle(void)
{
    if (tdi_hooks == 0 && tundish_preload_hook_table != NULL)
        begin_idle();
}

void tdi_hook_begin(const struct tdi_rules *rules, const struct tdi_frozen *frozen)
{
    if (tundish_preload_hook_table == NULL) {
        if (wants_any(rules))
            tdi_say_line("hooks: ",
                         "the hook library that belongs to the configuration is not in LD_PRELOAD: "
                         "hooked functions are not limited; 'tundish run' adds it");
        return;
    }
    tdi_hook_begin_idle();
    fill_all(rules, frozen);
    if (!has_any())
        return;
    for (uint32_t i = 0; i < tdi_hooks; i++)
        if (tdi_hook[i].spec != NULL)
            publish(&tundish_preload_hook_table[i], &tdi_hook[i]);
}

static void after_fork_in_child(void)
{
    tdi_find_after_fork_in_child();
    tdi_hook_closing_after_fork();
    for (uint32_t i = 0; i < tdi_hooks; i++) /* what results have cost is owed by the parent */
        atomic_store_explicit(&tdi_hook[i].owed, 0, memory_order_relaxed);
}

void tdi_hook_begin_all(void)
{
    tdi_hook_begin_idle();
    if (tdi_hooks > 0)
        (void)pthread_atfork(tdi_find_before_fork, tdi_find_after_fork_in_parent, after_fork_in_child);
}

static bool is_met(uint32_t bits)
{
    for (uint32_t i = 0; i < tdi_hooks; i++)
        if (tdi_hook[i].spec != NULL && (tdi_hook[i].bit & bits) != 0 &&
            atomic_load_explicit(&tdi_hook[i].met, memory_order_relaxed))
            return true;
    return false;
}

/* "SSL_write, SSL_write_ex": one name of each. How many. */
static unsigned list_names(uint32_t bits, char *buf, size_t len, const char **library)
{
    unsigned count = 0;
    struct tdi_text text;
    tdi_text_start(&text, buf, len);
    for (uint32_t i = 0; i < tdi_hooks; i++) {
        const struct tdi_hook *hook = &tdi_hook[i];
        if (hook->spec == NULL || (hook->bit & bits) == 0)
            continue;
        bits &= ~hook->bit;
        tdi_text_add(&text, count++ > 0 ? ", " : "");
        tdi_text_add(&text, hook->name);
        *library = hook->library;
    }
    return count;
}

/* Who lists functions of several libraries in one rule has no need of them all. */
void tdi_hook_report(const struct tdi_rules *rules, const char *program, bool speaks)
{
    for (uint32_t r = 0; r < rules->count; r++) {
        const struct tdi_policy_rule *rule = rules->rule[r].policy;
        const char *library = NULL;
        char names[512];
        if (!(speaks || rule->named) || is_met(rule->hooks))
            continue;
        unsigned count = list_names(rule->hooks, names, sizeof names, &library);
        bool any = library == NULL || count > 1;
        if (count > 0)
            tdi_say_line(program, count > 1 ? ": hooks " : ": hook ", names,
                         any ? ": no library that was loaded here" : ": no ", any ? "" : library,
                         any ? "" : " that was loaded here",
                         count > 1 ? " has one of these functions" : " has this function");
    }
}
