/* SPDX-License-Identifier: MIT */
/*
 * The frozen form is trusted by nobody: who can write the file can put anything into it, so each offset, each
 * count and each value is looked at before it is used, and the checksum, which anybody can compute, only
 * finds accidents. The fingerprint is of all that a build may lay out in another way.
 */
#include "policy/frozen.h"

#include <errno.h>
#include <string.h>

#include "policy/env.h"
#include "policy/signature.h"
#include "policy/value.h"

#define FORMAT 1 /* counts what changes a meaning without moving anything */
#define GROUPS 32
#define CAPACITY_MAX UINT32_C(0x7fffffff) /* TUNDISH_CAPACITY_MAX */
#define ERRNO_MAX 4095                    /* as the kernel has it */

static uint64_t hash(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    while (len-- > 0)
        hash = (hash ^ *at++) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

#define HASH_START UINT64_C(0xcbf29ce484222325)

static uint64_t fingerprint(void)
{
    static const uint32_t layout[] = {
        FORMAT,
        sizeof(struct tdi_frozen),
        offsetof(struct tdi_frozen, rule),
        offsetof(struct tdi_frozen, dest),
        offsetof(struct tdi_frozen, hook),
        offsetof(struct tdi_frozen, text),
        sizeof(struct tdi_frozen_rule),
        offsetof(struct tdi_frozen_rule, only),
        sizeof(struct tdi_policy_rule),
        offsetof(struct tdi_policy_rule, named),
        offsetof(struct tdi_policy_rule, has_rate),
        offsetof(struct tdi_policy_rule, burst),
        offsetof(struct tdi_policy_rule, rate),
        offsetof(struct tdi_policy_rule, hooks),
        offsetof(struct tdi_policy_rule, max_wait_ns),
        offsetof(struct tdi_policy_rule, bucket),
        sizeof(struct tdi_dest),
        sizeof(struct tdi_frozen_hook),
        offsetof(struct tdi_frozen_hook, group),
        offsetof(struct tdi_frozen_hook, cost),
        offsetof(struct tdi_frozen_hook, refusal),
        offsetof(struct tdi_cost, tokens),
        offsetof(struct tdi_refusal, value),
    };
    return hash(hash(HASH_START, layout, sizeof layout), TUNDISH_VERSION, sizeof TUNDISH_VERSION);
}

/* Of all that is behind the checksum; text that was not read is zero and does not count. */
static uint64_t checksum(const struct tdi_frozen *frozen)
{
    const size_t start = offsetof(struct tdi_frozen, source);
    return hash(HASH_START, (const char *)frozen + start, tdi_frozen_size(frozen) - start);
}

void tdi_frozen_init(struct tdi_frozen *frozen)
{
    memset(frozen, 0, sizeof *frozen);
    frozen->magic = TDI_FROZEN_MAGIC;
    frozen->text_used = 1;
}

/* The place of a string that is there already, or 0. */
static uint16_t find_text(const struct tdi_frozen *frozen, const char *text, size_t len)
{
    for (size_t at = 1; at < frozen->text_used; at += strlen(frozen->text + at) + 1)
        if (tdi_item_is(text, len, frozen->text + at))
            return (uint16_t)at;
    return 0;
}

uint16_t tdi_frozen_keep(struct tdi_frozen *frozen, const char *text, size_t len)
{
    uint16_t at = find_text(frozen, text, len);
    if (at != 0 || len >= TDI_FROZEN_TEXT - frozen->text_used)
        return at;
    at = (uint16_t)frozen->text_used;
    memcpy(frozen->text + at, text, len);
    frozen->text[at + len] = '\0';
    frozen->text_used += (uint32_t)len + 1;
    return at;
}

void tdi_frozen_seal(struct tdi_frozen *frozen)
{
    frozen->fingerprint = fingerprint();
    frozen->checksum = checksum(frozen);
}

size_t tdi_frozen_size(const struct tdi_frozen *frozen)
{
    return offsetof(struct tdi_frozen, text) + frozen->text_used;
}

/* A bool that is neither 0 nor 1 must not even be looked at as one. */
static bool is_bool(const bool *value)
{
    return *(const unsigned char *)value <= 1;
}

/* Strings end in the text: its last byte is known to be a terminator. */
static bool is_text(const struct tdi_frozen *frozen, uint16_t at)
{
    return at != 0 && at < frozen->text_used && frozen->text[at] != '\0';
}

static bool is_text_or_none(const struct tdi_frozen *frozen, uint16_t at)
{
    return at == 0 || is_text(frozen, at);
}

static bool is_dest(const struct tdi_dest *dest)
{
    static const uint8_t bits[] = {[TDI_KIND_INET] = 32, [TDI_KIND_INET6] = 128, [TDI_KIND_TTY] = 0};
    return dest->kind > TDI_KIND_OTHER && dest->kind <= TDI_KIND_TTY && dest->prefix <= bits[dest->kind];
}

static bool is_hook(const struct tdi_frozen *frozen, const struct tdi_frozen_hook *hook)
{
    if (!is_text(frozen, hook->symbol) || !is_text(frozen, hook->signature) ||
        !is_text_or_none(frozen, hook->library) || hook->group >= GROUPS)
        return false;
    const char *signature = tdi_frozen_text(frozen, hook->signature);
    return strlen(signature) < TDI_SIGNATURE_TEXT && tdi_signature_is_sound(signature) &&
           tdi_cost_is_sound(&hook->cost, signature) && tdi_refusal_is_sound(&hook->refusal, signature);
}

static bool has_rate(const struct tdi_policy_rule *rule)
{
    if (!is_bool(&rule->has_rate) || !is_bool(&rule->has_burst) || !is_bool(&rule->rate.bytes))
        return false;
    if (!rule->has_rate)
        return rule->buckets > 0;
    return rule->rate.refill > 0 && rule->rate.interval_us > 0 && rule->burst > 0 &&
           rule->burst <= CAPACITY_MAX && rule->count != TDI_COUNT_BY_BUCKET &&
           rule->rate.bytes == (rule->count == TDI_COUNT_BYTES);
}

static bool is_bucket(const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule, uint32_t i)
{
    const char *why;
    if (!is_text(frozen, rule->bucket[i]))
        return false;
    const char *name = tdi_frozen_text(frozen, rule->bucket[i]);
    return tdi_value_bucket(name, strlen(name), &why) == 0 &&
           (rule->count != TDI_COUNT_BY_BUCKET || !tdi_policy_name_has(name, "hP"));
}

static bool has_buckets(const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule)
{
    bool sound = rule->buckets <= TDI_POLICY_BUCKETS;
    for (uint32_t i = 0; i < rule->buckets && sound; i++)
        sound = is_bucket(frozen, rule, i);
    return sound;
}

static bool is_refusable(const struct tdi_frozen *frozen, uint32_t hooks)
{
    for (uint32_t i = 0; i < frozen->hooks; i++)
        if ((hooks >> frozen->hook[i].group & 1) != 0 && frozen->hook[i].refusal.stated == 0)
            return false;
    return true;
}

static bool has_manner(const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule)
{
    const bool refuses = rule->when_empty == TDI_EMPTY_REFUSE || rule->max_wait_ns != UINT64_MAX;
    return (unsigned)rule->count <= TDI_COUNT_CALLS && (unsigned)rule->when_empty <= TDI_EMPTY_OBSERVE &&
           rule->refuse_errno >= 0 && rule->refuse_errno <= ERRNO_MAX &&
           (!refuses || is_refusable(frozen, rule->hooks));
}

/* The groups that hooks are of. */
static uint32_t groups(const struct tdi_frozen *frozen)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < frozen->hooks; i++)
        mask |= UINT32_C(1) << frozen->hook[i].group;
    return mask;
}

/* Hooks know no destination, so a rule of theirs must not ask for one. */
static bool asks_for_place(const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule)
{
    bool asks = rule->dests > 0;
    for (uint32_t i = 0; i < rule->buckets && !asks; i++)
        asks = tdi_policy_name_has(tdi_frozen_text(frozen, rule->bucket[i]), "hP");
    return asks;
}

static bool is_rule(const struct tdi_frozen *frozen, const struct tdi_frozen_rule *frozen_rule)
{
    const struct tdi_policy_rule *rule = &frozen_rule->rule;
    const uint32_t calls = TDI_CALLS_UP | TDI_CALLS_DOWN | TDI_CALL_CONNECT;
    return rule->number == 0 && is_text(frozen, rule->name) && is_bool(&rule->named) &&
           rule->named == (frozen_rule->only != 0) && is_text_or_none(frozen, frozen_rule->only) &&
           is_text_or_none(frozen, frozen_rule->skip) && (rule->calls & ~calls) == 0 &&
           (rule->hooks & ~groups(frozen)) == 0 && rule->dests <= frozen->dests &&
           rule->dest <= frozen->dests - rule->dests && has_manner(frozen, rule) && has_rate(rule) &&
           has_buckets(frozen, rule) && (rule->hooks == 0 || !asks_for_place(frozen, rule));
}

static bool is_sound(const struct tdi_frozen *frozen)
{
    bool sound = is_text_or_none(frozen, frozen->source);
    for (uint32_t i = 0; i < frozen->dests && sound; i++)
        sound = is_dest(&frozen->dest[i]);
    for (uint32_t i = 0; i < frozen->hooks && sound; i++)
        sound = is_hook(frozen, &frozen->hook[i]);
    for (uint32_t i = 0; i < frozen->rules && sound; i++)
        sound = is_rule(frozen, &frozen->rule[i]);
    return sound;
}

static bool is_bounded(const struct tdi_frozen *frozen)
{
    return frozen->rules <= TDI_FROZEN_RULES && frozen->dests <= TDI_FROZEN_DESTS &&
           frozen->hooks <= TDI_FROZEN_HOOKS && frozen->text[0] == '\0' &&
           frozen->text[frozen->text_used - 1] == '\0';
}

int tdi_frozen_check(const struct tdi_frozen *frozen, size_t size, const char **why)
{
    const size_t begins = offsetof(struct tdi_frozen, checksum);
    *why = NULL;
    if (size < begins || frozen->magic != TDI_FROZEN_MAGIC)
        *why = "is no frozen configuration";
    else if (frozen->fingerprint != fingerprint())
        *why = "was frozen by another version of tundish";
    else if (frozen->text_used == 0 || frozen->text_used > TDI_FROZEN_TEXT || size != tdi_frozen_size(frozen))
        *why = "is not as long as it says";
    else if (frozen->checksum != checksum(frozen))
        *why = "is damaged";
    else if (!is_bounded(frozen) || !is_sound(frozen))
        *why = "holds what no version of tundish writes";
    return *why == NULL ? 0 : -EINVAL;
}

/* A rule on its way from the frozen form into a policy. */
struct move {
    struct tdi_policy *policy;
    const struct tdi_frozen *frozen;
    const char *program;
    char *why;
    size_t len;
};

static bool is_for(const struct move *move, const struct tdi_frozen_rule *rule)
{
    const char *only = tdi_frozen_text(move->frozen, rule->only);
    const char *skip = tdi_frozen_text(move->frozen, rule->skip);
    return (rule->only == 0 || tdi_value_lists(only, move->program)) &&
           (rule->skip == 0 || !tdi_value_lists(skip, move->program));
}

/* "more than 8 rules for curl, with rule "api" of /etc/tundish.conf" */
static int complain(const struct move *move, const char *what, const struct tdi_policy_rule *rule)
{
    const char *source = tdi_frozen_text(move->frozen, move->frozen->source);
    const char *name = tdi_frozen_text(move->frozen, rule->name);
    struct tdi_text line;
    tdi_text_start(&line, move->why, move->len);
    tdi_text_add(&line, what);
    tdi_text_add(&line, " for ");
    tdi_text_add_item(&line, move->program, strlen(move->program));
    tdi_text_add(&line, ", with rule \"");
    tdi_text_add_item(&line, name, strlen(name));
    tdi_text_add(&line, *source != '\0' ? "\" of " : "\"");
    tdi_text_add_item(&line, source, strlen(source));
    return -EINVAL;
}

static bool move_text(const struct move *move, uint16_t *at)
{
    struct tdi_policy *policy = move->policy;
    const char *text = tdi_frozen_text(move->frozen, *at);
    const size_t size = strlen(text) + 1;
    if (size > sizeof policy->text - policy->text_used)
        return false;
    *at = (uint16_t)policy->text_used;
    memcpy(policy->text + policy->text_used, text, size);
    policy->text_used += (uint32_t)size;
    return true;
}

static bool move_dests(const struct move *move, struct tdi_policy_rule *rule)
{
    struct tdi_policy *policy = move->policy;
    if (rule->dests > TDI_POLICY_DESTS - policy->dests)
        return false;
    memcpy(&policy->dest[policy->dests], &move->frozen->dest[rule->dest],
           rule->dests * sizeof(struct tdi_dest));
    rule->dest = policy->dests;
    policy->dests += rule->dests;
    return true;
}

static int move_rule(const struct move *move, const struct tdi_policy_rule *from)
{
    struct tdi_policy_rule rule = *from;
    if (move->policy->rules == TDI_POLICY_RULES)
        return complain(move, "more than 8 rules", from);
    bool fits = move_text(move, &rule.name);
    for (uint32_t i = 0; i < rule.buckets && fits; i++)
        fits = move_text(move, &rule.bucket[i]);
    if (!fits)
        return complain(move, "more than 4095 bytes of names", from);
    if (!move_dests(move, &rule))
        return complain(move, "more than 64 destinations", from);
    move->policy->rule[move->policy->rules++] = rule;
    move->policy->applies = true;
    return 0;
}

int tdi_frozen_add(struct tdi_policy *policy, const struct tdi_frozen *frozen, const char *program, char *why,
                   size_t len)
{
    const struct move move = {policy, frozen, program, why, len};
    int error = 0;
    for (uint32_t i = 0; i < frozen->rules && error == 0; i++)
        if (is_for(&move, &frozen->rule[i]))
            error = move_rule(&move, &frozen->rule[i].rule);
    return error;
}

void tdi_policy_rule_name(char *buf, size_t len, const struct tdi_policy *policy,
                          const struct tdi_policy_rule *rule)
{
    const char number[] = {(char)('0' + rule->number % 10), '\0'};
    const char *name = policy->text + rule->name;
    struct tdi_text line;
    tdi_text_start(&line, buf, len);
    tdi_text_add(&line, "rule ");
    if (rule->number != 0) {
        tdi_text_add(&line, number);
        return;
    }
    tdi_text_add(&line, "\"");
    tdi_text_add_item(&line, name, strlen(name));
    tdi_text_add(&line, "\"");
}
