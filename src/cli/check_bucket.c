/* SPDX-License-Identifier: MIT */
/* A [bucket] section in words. */
#include <stdio.h>
#include <string.h>

#include "cli/check.h"
#include "policy/policy.h"

void check_put_rate(const struct tdi_rate *rate, uint32_t burst, bool has_burst)
{
    char text[CLI_RULE_TEXT];
    const struct cli_rule rule = {.rate = *rate, .burst = burst};
    cli_rule_format(text, &rule);
    printf("%s%s", text, has_burst ? "" : " by default");
}

/* For what there is one of them, and who makes it. */
static void put_making(const struct tdi_conf_bucket *bucket)
{
    const bool process = tdi_policy_name_has(bucket->name, "p"),
               program = tdi_policy_name_has(bucket->name, "n");
    const bool place = tdi_policy_name_has(bucket->name, "hP");
    const char *what = process ? "each process" : program ? "each program" : "";
    printf(", one for %s%s%s, made when it is first used", what, *what && place ? " and " : "",
           place ? "each destination" : "");
}

static void put_start(const struct tdi_conf_bucket *bucket)
{
    char count[64] = "full";
    if (bucket->has_initial)
        tdi_unit_format_count(count, sizeof(count), bucket->initial, bucket->rate.bytes);
    printf(", %s at first", count);
}

void check_bucket(const struct tdi_conf_bucket *bucket)
{
    printf("bucket ");
    check_put(bucket->name);
    printf(": ");
    check_put_rate(&bucket->rate, bucket->burst, bucket->has_burst);
    put_start(bucket);
    printf(", %s, %s, %s, mode %04o", bucket->unfair ? "unfair" : "fair",
           bucket->stepped ? "stepped" : "not stepped", bucket->strict ? "strict" : "not strict",
           bucket->mode);
    if (tdi_policy_name_has(bucket->name, "hPpn"))
        put_making(bucket);
    printf("\n");
}
