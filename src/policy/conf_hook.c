/* SPDX-License-Identifier: MIT */
/*
 * [hook] sections: a section becomes one hook for each name that the function is called by, all of one group.
 * The function's own name is read first, and what it makes of the cost must hold for the others too.
 */
#include <string.h>

#include "policy/conf_draft.h"
#include "policy/env.h"
#include "policy/hooks.h"
#include "policy/names.h"
#include "policy/signature.h"

#define WHY 384
#define FUNCTION TDI_CONF_NAME

static const char *text_of(const struct tdi_conf_section *section, enum tdi_conf_key key)
{
    return section->value[key].text;
}

/* Complains of a value, or of the section if the value is not the user's. */
static void say(struct tdi_conf_draft *draft, struct tdi_conf_section *section, enum tdi_conf_key key,
                const char *symbol, const char *why)
{
    const unsigned line = tdi_conf_has(section, key) ? section->value[key].line : section->line;
    section->broken = true;
    if (strcmp(symbol, section->name) == 0 && text_of(section, key) != NULL)
        tdi_conf_say_value(draft, section, key, why);
    else
        tdi_conf_say(draft, line,
                     "%s of %s, which [hook \"%s\"] stands for too: %s; exact = yes leaves it out",
                     tdi_conf_keys[key], symbol, section->name, why);
}

static bool has_family(const char *name)
{
    for (size_t i = 0; i < tdi_known_hook_count; i++) {
        const struct tdi_known_hook *known = &tdi_known_hooks[i];
        if (known->family != NULL && strcmp(known->family, name) == 0 && strcmp(known->name, name) != 0)
            return true;
    }
    return false;
}

/* Whether a hook can have this name at all. */
static bool may_be_hooked(struct tdi_conf_draft *draft, const struct tdi_conf_section *section)
{
    const char *obstacle = tdi_hook_obstacle(section->name);
    if (tdi_names_call(section->name, strlen(section->name)) != 0)
        tdi_conf_say(draft, section->line, "a rule with calls = %s limits it without a hook", section->name);
    else if (obstacle != NULL)
        tdi_conf_say(draft, section->line, "'%s' cannot be hooked: it %s", section->name, obstacle);
    else
        return true;
    return false;
}

static void complain_of_signature(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                                  const char *known)
{
    char text[WHY];
    tdi_conf_say(draft, section->value[TDI_KEY_SIGNATURE].line,
                 "the signature of %s is known, and its other names depend on it: leave it out, or hook this "
                 "name alone with exact = yes (known is %s)",
                 section->name, (tdi_signature_format(text, sizeof text, known), text));
}

/* The compact signature of the function's own name; false if there is none. */
static bool settle_signature(struct tdi_conf_draft *draft, struct tdi_conf_section *section, bool exact,
                             char out[TDI_SIGNATURE_TEXT])
{
    const struct tdi_known_hook *known = tdi_known_hook(section->name);
    const char *text = text_of(section, TDI_KEY_SIGNATURE);
    char natural[TDI_SIGNATURE_TEXT] = "", why[WHY];
    if (known != NULL)
        (void)tdi_signature_parse(known->signature, natural, why, sizeof why);
    if (text == NULL) {
        memcpy(out, natural, sizeof natural);
        if (known == NULL && !tdi_conf_has(section, TDI_KEY_SIGNATURE) && !section->unread)
            tdi_conf_say(draft, section->line,
                         "what %s looks like is not known: write its signature as C has it, as signature = "
                         "int (pointer, size_t)",
                         section->name);
        return known != NULL;
    }
    if (tdi_signature_parse(text, out, why, sizeof why) < 0) {
        tdi_conf_say_value(draft, section, TDI_KEY_SIGNATURE, why);
        return false;
    }
    if (exact || known == NULL || strcmp(out, natural) == 0 || !has_family(section->name))
        return true;
    complain_of_signature(draft, section, natural);
    return false;
}

/* The symbol is the own name of one section, and of the family that the other one stands for. */
static void complain_of_taken(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                              const struct tdi_conf_section *other, const char *symbol)
{
    const char *head = strcmp(symbol, section->name) == 0 ? other->name : section->name;
    char where[sizeof ", here and in line 4294967295"] = "";
    if (other->line != section->line)
        snprintf(where, sizeof where, ", here and in line %u", other->line);
    tdi_conf_say(
        draft, section->line,
        "%s is hooked twice%s: %s stands for its whole family; leave %s out, or write exact = yes in "
        "a section [hook \"%s\"]",
        symbol, where, head, symbol, head);
}

static bool is_taken(struct tdi_conf_draft *draft, const struct tdi_conf_section *section, const char *symbol)
{
    const struct tdi_frozen *frozen = &draft->out->frozen;
    for (uint32_t i = 0; i < frozen->hooks; i++) {
        if (strcmp(tdi_frozen_text(frozen, frozen->hook[i].symbol), symbol) != 0)
            continue;
        complain_of_taken(draft, section, tdi_conf_section(draft, TDI_CONF_HOOK, frozen->hook[i].group),
                          symbol);
        return true;
    }
    return false;
}

/* Costs of one section must take their tokens from arguments of one type, whatever name is called. */
static bool is_same_cost(const struct tdi_cost *cost, const struct tdi_cost *first)
{
    return cost->kind == first->kind && (cost->kind == TDI_COST_TOKENS || cost->kind == TDI_COST_RESULT ||
                                         (cost->a_type == first->a_type && cost->b_type == first->b_type));
}

/* `first` is the hook of the function's own name, NULL for that itself. */
static bool read_cost(struct tdi_conf_draft *draft, struct tdi_conf_section *section,
                      const struct tdi_known_hook *known, const char *symbol, const char *signature,
                      const struct tdi_frozen_hook *first, struct tdi_cost *cost)
{
    const char *text = text_of(section, TDI_KEY_COST);
    const char *natural = known != NULL ? known->cost : "calls";
    char why[WHY];
    if (tdi_cost_parse(text != NULL ? text : natural, signature, cost, why, sizeof why) < 0) {
        if (text == NULL) /* a signature of the user's own: the natural cost is another one's */
            return tdi_cost_parse("calls", signature, cost, why, sizeof why) == 0;
        say(draft, section, TDI_KEY_COST, symbol, why);
        return false;
    }
    if (text != NULL && first != NULL && !is_same_cost(cost, &first->cost)) {
        say(draft, section, TDI_KEY_COST, symbol, "is another type of argument there");
        return false;
    }
    return true;
}

static bool read_refusal(struct tdi_conf_draft *draft, struct tdi_conf_section *section, const char *symbol,
                         const char *signature, struct tdi_refusal *refusal)
{
    const char *text = text_of(section, TDI_KEY_REFUSE);
    char why[WHY];
    if (text == NULL || tdi_refusal_parse(text, signature, refusal, why, sizeof why) == 0)
        return true;
    say(draft, section, TDI_KEY_REFUSE, symbol, why);
    return false;
}

/* The texts of a hook. */
static bool freeze_texts(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                         const char *symbol, const char *signature, struct tdi_frozen_hook *hook)
{
    const char *library = text_of(section, TDI_KEY_LIBRARY);
    hook->symbol = tdi_conf_freeze(draft, section->line, symbol, strlen(symbol));
    if (hook->symbol != 0)
        hook->signature = tdi_conf_freeze(draft, section->line, signature, strlen(signature));
    if (hook->signature != 0 && library != NULL)
        hook->library =
            tdi_conf_freeze(draft, section->value[TDI_KEY_LIBRARY].line, library, strlen(library));
    return hook->signature != 0 && (library == NULL || hook->library != 0);
}

static const struct tdi_frozen_hook *add_hook(struct tdi_conf_draft *draft, struct tdi_conf_section *section,
                                              const struct tdi_known_hook *known, const char *symbol,
                                              const char *signature, const struct tdi_frozen_hook *first)
{
    struct tdi_frozen *frozen = &draft->out->frozen;
    struct tdi_frozen_hook hook;
    memset(&hook, 0, sizeof hook);
    if (is_taken(draft, section, symbol))
        return NULL;
    if (frozen->hooks == TDI_FROZEN_HOOKS) {
        tdi_conf_say(draft, section->line, "more than %d functions are hooked", TDI_FROZEN_HOOKS);
        return NULL;
    }
    hook.group = (uint8_t)section->number;
    if (!read_cost(draft, section, known, symbol, signature, first, &hook.cost) ||
        !read_refusal(draft, section, symbol, signature, &hook.refusal) ||
        !freeze_texts(draft, section, symbol, signature, &hook))
        return NULL;
    frozen->hook[frozen->hooks] = hook;
    return &frozen->hook[frozen->hooks++];
}

/* The other names of the family; the first complaint is enough. */
static bool add_family(struct tdi_conf_draft *draft, struct tdi_conf_section *section,
                       const struct tdi_frozen_hook *first)
{
    for (size_t i = 0; i < tdi_known_hook_count; i++) {
        const struct tdi_known_hook *known = &tdi_known_hooks[i];
        char signature[TDI_SIGNATURE_TEXT], why[WHY];
        if (known->family == NULL || strcmp(known->family, section->name) != 0 ||
            strcmp(known->name, section->name) == 0)
            continue;
        if (tdi_signature_parse(known->signature, signature, why, sizeof why) < 0 ||
            add_hook(draft, section, known, known->name, signature, first) == NULL)
            return false;
    }
    return true;
}

static void check_library(struct tdi_conf_draft *draft, const struct tdi_conf_section *section)
{
    const char *library = text_of(section, TDI_KEY_LIBRARY);
    if (library != NULL && library[0] != '/' && strchr(library, '/') != NULL)
        tdi_conf_say_value(draft, section, TDI_KEY_LIBRARY,
                           "is a file name, as libssl.so.3, or a path from the root on");
}

static void read_hook(struct tdi_conf_draft *draft, struct tdi_conf_section *section)
{
    bool exact = false;
    char signature[TDI_SIGNATURE_TEXT];
    const char *cost = text_of(section, TDI_KEY_COST);
    section->broken = true;
    draft->out->hook_line[section->number] = section->line;
    tdi_conf_read_flag(draft, section, TDI_KEY_EXACT, &exact);
    check_library(draft, section);
    if (!may_be_hooked(draft, section) || !settle_signature(draft, section, exact, signature))
        return;
    const struct tdi_frozen_hook *first =
        add_hook(draft, section, tdi_known_hook(section->name), section->name, signature, NULL);
    if (first == NULL || (!exact && !add_family(draft, section, first)))
        return;
    section->broken = false;
    section->result = signature[0];
    section->refusable = first->refusal.stated != 0;
    section->by_calls = first->cost.kind == TDI_COST_TOKENS && (cost == NULL || strcmp(cost, "calls") == 0);
}

void tdi_conf_read_hooks(struct tdi_conf_draft *draft)
{
    struct tdi_conf_section *section;
    for (unsigned i = 0; (section = tdi_conf_section(draft, TDI_CONF_HOOK, i)) != NULL; i++)
        read_hook(draft, section);
}

/* One word of a rule's calls: its hook, if it is a function that is known and has no section. */
static void imply_hook(struct tdi_conf_draft *draft, unsigned line, const char *item, size_t len)
{
    char name[FUNCTION];
    if (len >= sizeof name || tdi_names_call(item, len) != 0 ||
        tdi_conf_find(draft, TDI_CONF_HOOK, item, len) != NULL)
        return;
    memcpy(name, item, len);
    name[len] = '\0';
    const struct tdi_known_hook *known = tdi_known_hook(name);
    struct tdi_conf_section *section =
        known != NULL ? tdi_conf_add(draft, TDI_CONF_HOOK, line, known->name) : NULL;
    if (section != NULL)
        section->implied = true;
}

void tdi_conf_imply_hooks(struct tdi_conf_draft *draft)
{
    const struct tdi_conf_section *rule;
    for (unsigned i = 0; (rule = tdi_conf_section(draft, TDI_CONF_RULE, i)) != NULL; i++) {
        const struct tdi_conf_value *calls = &rule->value[TDI_KEY_CALLS];
        const char *rest = calls->text, *item;
        size_t len;
        while (tdi_list_next(&rest, &item, &len))
            imply_hook(draft, calls->line, item, len);
    }
}
