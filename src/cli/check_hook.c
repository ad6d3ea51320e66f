/* SPDX-License-Identifier: MIT */
/* A [hook] section in words: its function first, then the names that are called in its place. */
#include <stdio.h>
#include <string.h>

#include "cli/check.h"
#include "policy/signature.h"

enum {
    TEXT = 2048, /* of a signature as C has it */
};

static const char *text_of(const struct tdi_frozen *frozen, uint16_t at)
{
    return tdi_frozen_text(frozen, at);
}

/* The first hook of the group from there on, or NULL. */
static const struct tdi_frozen_hook *find(const struct tdi_frozen *frozen, uint8_t group, uint32_t from)
{
    for (uint32_t i = from; i < frozen->hooks; i++)
        if (frozen->hook[i].group == group)
            return &frozen->hook[i];
    return NULL;
}

static const struct tdi_frozen_hook *find_next(const struct tdi_frozen *frozen,
                                               const struct tdi_frozen_hook *hook)
{
    return find(frozen, hook->group, (uint32_t)(hook - frozen->hook) + 1);
}

const char *check_hook_name(const struct tdi_frozen *frozen, uint8_t group)
{
    const struct tdi_frozen_hook *first = find(frozen, group, 0);
    return first ? text_of(frozen, first->symbol) : NULL;
}

static void put_cost(const struct tdi_cost *cost)
{
    char text[128];
    tdi_cost_format(text, sizeof(text), cost);
    if (cost->kind == TDI_COST_TOKENS)
        printf("%u for each call", cost->tokens);
    else if (cost->kind == TDI_COST_RESULT)
        printf("what it returns");
    else
        printf("%s", text);
}

static void put_refusal(const struct tdi_frozen *frozen, const struct tdi_frozen_hook *hook)
{
    char text[128];
    tdi_refusal_format(text, sizeof(text), &hook->refusal, text_of(frozen, hook->signature));
    if (*text)
        printf("when refused: %s", text);
    else
        printf("cannot be refused");
}

/* All about a hook but its name. */
static void put_nature(const struct tdi_frozen *frozen, const struct tdi_frozen_hook *hook)
{
    char text[TEXT];
    tdi_signature_format(text, sizeof(text), text_of(frozen, hook->signature));
    printf("%s; costs ", text);
    put_cost(&hook->cost);
    printf("; ");
    put_refusal(frozen, hook);
    if (!hook->library)
        return;
    printf("; from ");
    check_put(text_of(frozen, hook->library));
}

static bool is_alike(const struct tdi_frozen_hook *a, const struct tdi_frozen_hook *b)
{
    return a->signature == b->signature && a->library == b->library && a->cost.kind == b->cost.kind &&
           a->cost.a == b->cost.a && a->cost.b == b->cost.b && a->cost.tokens == b->cost.tokens &&
           a->refusal.stated == b->refusal.stated && a->refusal.error == b->refusal.error &&
           a->refusal.value == b->refusal.value;
}

/* Whether one before it, of its group, is like it. */
static bool is_told(const struct tdi_frozen *frozen, const struct tdi_frozen_hook *hook)
{
    const struct tdi_frozen_hook *at = find(frozen, hook->group, 0);
    while (at != hook && !is_alike(at, hook))
        at = find_next(frozen, at);
    return at != hook;
}

/* The names of those that are like `hook`, itself included or not. */
static void put_names(const struct tdi_frozen *frozen, const struct tdi_frozen_hook *hook, bool own)
{
    const char *separator = "";
    for (const struct tdi_frozen_hook *at = hook; at; at = find_next(frozen, at)) {
        if (!is_alike(at, hook) || (at == hook && !own))
            continue;
        printf("%s", separator);
        check_put(text_of(frozen, at->symbol));
        separator = ", ";
    }
}

static bool has_twin(const struct tdi_frozen *frozen, const struct tdi_frozen_hook *hook)
{
    const struct tdi_frozen_hook *at = find_next(frozen, hook);
    while (at && !is_alike(at, hook))
        at = find_next(frozen, at);
    return at != NULL;
}

void check_hooks(const struct tdi_frozen *frozen, uint8_t group)
{
    const struct tdi_frozen_hook *first = find(frozen, group, 0);
    printf("hook ");
    check_put(text_of(frozen, first->symbol));
    printf(": ");
    put_nature(frozen, first);
    if (!(config_hooks_in_use(frozen) >> group & 1))
        printf("; no rule names it");
    printf("\n");
    if (has_twin(frozen, first)) {
        printf("  and the same for ");
        put_names(frozen, first, false);
        printf("\n");
    }
    for (const struct tdi_frozen_hook *at = find_next(frozen, first); at; at = find_next(frozen, at)) {
        if (is_told(frozen, at))
            continue;
        printf("  and ");
        put_names(frozen, at, true);
        printf(": ");
        put_nature(frozen, at);
        printf("\n");
    }
}
