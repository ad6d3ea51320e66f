/* SPDX-License-Identifier: MIT */
/* A [rule] section in words. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "cli/check.h"
#include "policy/names.h"

/* A comma list as it was written, with one blank behind each comma. */
static void put_list(const char *list)
{
    const char *item, *separator = "";
    size_t len;
    while (tdi_list_next(&list, &item, &len)) {
        printf("%s", separator);
        check_put_item(item, len);
        separator = ", ";
    }
}

static void put_programs(const struct tdi_frozen *frozen, const struct tdi_frozen_rule *rule)
{
    if (rule->only)
        put_list(tdi_frozen_text(frozen, rule->only));
    else
        printf("every program");
    if (!rule->skip)
        return;
    printf(rule->only ? ", but not " : " but ");
    put_list(tdi_frozen_text(frozen, rule->skip));
}

/* The groups first, then what is left of them. */
static void put_calls(uint32_t calls, const char *separator)
{
    char names[512];
    const char *rest = names, *item;
    size_t len;
    struct tdi_text line;
    tdi_text_start(&line, names, sizeof(names));
    tdi_names_add_calls(&line);
    while (tdi_list_next(&rest, &item, &len)) {
        const uint32_t named = tdi_names_call(item, len);
        if ((named & ~calls) || !named)
            continue;
        calls &= ~named;
        printf("%s%.*s", separator, (int)len, item);
        separator = ", ";
    }
}

static void put_all_calls(const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule)
{
    const char *separator = "";
    for (uint8_t group = 0; group < TDI_CONF_HOOKS; group++) {
        const char *name = check_hook_name(frozen, group);
        if (!name || !(rule->hooks >> group & 1))
            continue;
        printf("%s", separator);
        check_put(name);
        separator = ", ";
    }
    if (rule->calls)
        put_calls(rule->calls, separator);
    else if (!rule->hooks && rule->count == TDI_COUNT_BY_BUCKET)
        printf("up by default if the bucket counts bytes, connect if it counts calls");
    else if (!rule->hooks)
        printf("%s by default", rule->count == TDI_COUNT_BYTES ? "up" : "connect");
}

static bool is_any(const struct tdi_dest *dest, enum tdi_kind kind)
{
    return dest->kind == kind && dest->prefix == 0;
}

static void put_dest(const struct tdi_dest *dest)
{
    static const char *const kinds[] = {
        [TDI_KIND_UNIX] = "unix", [TDI_KIND_PIPE] = "pipe", [TDI_KIND_FILE] = "file", [TDI_KIND_TTY] = "tty"};
    const bool ipv6 = dest->kind == TDI_KIND_INET6;
    char address[INET6_ADDRSTRLEN] = "";
    if (dest->kind != TDI_KIND_INET && !ipv6) {
        printf("%s", kinds[dest->kind]);
        return;
    }
    inet_ntop(ipv6 ? AF_INET6 : AF_INET, dest->address, address, sizeof(address));
    printf(ipv6 ? "[%s]" : "%s", address);
    if (dest->prefix != (ipv6 ? 128 : 32))
        printf("/%u", dest->prefix);
    if (dest->port)
        printf(":%u", dest->port);
}

/* A port alone, and inet, are two: one of each family. */
static bool is_pair(const struct tdi_dest *dest, uint32_t left)
{
    return left > 1 && is_any(&dest[0], TDI_KIND_INET) && is_any(&dest[1], TDI_KIND_INET6) &&
           dest[0].port == dest[1].port;
}

static void put_dests(const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule)
{
    const struct tdi_dest *dest = &frozen->dest[rule->dest];
    if (rule->dests == 0)
        printf("any IPv4 and IPv6 address by default");
    for (uint32_t i = 0; i < rule->dests; i++) {
        printf("%s", i > 0 ? ", " : "");
        if (!is_pair(&dest[i], rule->dests - i)) {
            put_dest(&dest[i]);
            continue;
        }
        if (dest[i].port)
            printf(":%u", dest[i].port);
        else
            printf("inet");
        i++;
    }
}

static void put_count(const struct tdi_policy_rule *rule)
{
    static const char *const counts[] = {[TDI_COUNT_BY_BUCKET] = "bytes or calls, as the bucket does",
                                         [TDI_COUNT_BYTES] = "bytes",
                                         [TDI_COUNT_CALLS] = "calls"};
    printf("%s", counts[rule->count]);
}

static void put_source(const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule)
{
    if (rule->buckets == 0) {
        printf("each process has ");
        check_put_rate(&rule->rate, rule->burst, rule->has_burst);
        return;
    }
    printf("from ");
    for (uint32_t i = 0; i < rule->buckets; i++) {
        printf("%s", i > 0 ? " and " : "");
        check_put(tdi_frozen_text(frozen, rule->bucket[i]));
    }
}

static void put_refusal(const struct tdi_policy_rule *rule)
{
    const char *name = rule->refuse_errno ? tdi_names_errno_name(rule->refuse_errno) : NULL;
    printf("refuse");
    if (rule->calls == 0 && rule->hooks)
        printf(" as the hook says");
    else if (!rule->refuse_errno)
        printf(" with the call's usual error");
    else if (name)
        printf(" with %s", name);
    else
        printf(" with error %d", rule->refuse_errno);
}

static void put_manner(const struct tdi_policy_rule *rule)
{
    char time[64];
    const bool limited = rule->max_wait_ns != UINT64_MAX;
    tdi_unit_format_duration(time, sizeof(time), rule->max_wait_ns);
    if (rule->when_empty == TDI_EMPTY_OBSERVE) {
        printf("pass and be counted");
        return;
    }
    if (rule->when_empty == TDI_EMPTY_REFUSE) {
        put_refusal(rule);
        return;
    }
    printf(rule->when_empty == TDI_EMPTY_DROP ? "drop datagrams, else wait" : "wait");
    if (!limited) {
        printf(", however long");
        return;
    }
    printf(", at most %s, then ", time);
    put_refusal(rule);
}

void check_rule(const struct tdi_frozen *frozen, const struct tdi_frozen_rule *frozen_rule)
{
    const struct tdi_policy_rule *rule = &frozen_rule->rule;
    printf("rule ");
    check_put(tdi_frozen_text(frozen, rule->name));
    printf(": ");
    put_programs(frozen, frozen_rule);
    printf("; ");
    put_all_calls(frozen, rule);
    if (rule->calls || !rule->hooks) {
        printf("; to ");
        put_dests(frozen, rule);
    }
    printf("; counts ");
    put_count(rule);
    printf("; ");
    put_source(frozen, rule);
    printf("; when empty: ");
    put_manner(rule);
    printf("\n");
}
