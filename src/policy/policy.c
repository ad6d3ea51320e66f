/* SPDX-License-Identifier: MIT */
/* What a frozen policy says when it is asked. */
#include "policy/policy.h"

#include <string.h>

#include "policy/dest.h"

const char *tdi_policy_bucket(const struct tdi_policy *policy, const struct tdi_policy_rule *rule, uint32_t i)
{
    return policy->text + rule->bucket[i];
}

uint32_t tdi_policy_calls(const struct tdi_policy_rule *rule, bool bytes)
{
    if (rule->calls != 0 || rule->hooks != 0)
        return rule->calls;
    return bytes ? TDI_CALLS_UP : TDI_CALL_CONNECT;
}

bool tdi_policy_reaches(const struct tdi_policy *policy, const struct tdi_policy_rule *rule,
                        enum tdi_kind kind)
{
    if (rule->dests == 0)
        return kind == TDI_KIND_INET || kind == TDI_KIND_INET6;
    for (uint32_t i = 0; i < rule->dests; i++)
        if (tdi_dest_reaches(&policy->dest[rule->dest + i], kind))
            return true;
    return false;
}

bool tdi_policy_matches(const struct tdi_policy *policy, const struct tdi_policy_rule *rule,
                        enum tdi_kind kind, const uint8_t *address, uint16_t port)
{
    if (rule->dests == 0)
        return kind == TDI_KIND_INET || kind == TDI_KIND_INET6;
    for (uint32_t i = 0; i < rule->dests; i++)
        if (tdi_dest_matches(&policy->dest[rule->dest + i], kind, address, port))
            return true;
    return false;
}

bool tdi_policy_name_has(const char *name, const char *keys)
{
    for (; *name != '\0'; name++) {
        if (*name != '%')
            continue;
        name++;
        if (*name == '\0')
            return false;
        if (strchr(keys, *name) != NULL)
            return true;
    }
    return false;
}

const char *tdi_policy_program(const char *argv0)
{
    if (argv0 == NULL)
        return "";
    const char *slash = strrchr(argv0, '/');
    return slash != NULL ? slash + 1 : argv0;
}
