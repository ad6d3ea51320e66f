/* SPDX-License-Identifier: MIT */
/* A line for each bucket, rule and hook, terse, with all that was not left at its default. */
#include "conf/describe.h"

#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "policy/signature.h"

enum {
    TEXT = 512,
};

static void describe_rate(FILE *out, const struct tdi_rate *rate, uint32_t burst, bool chosen)
{
    char text[TEXT];
    tdi_unit_format_rate(text, sizeof text, rate);
    fprintf(out, " %s burst %u%s", text, burst, chosen ? "!" : "");
}

static void describe_bucket(FILE *out, const struct tdi_conf_bucket *bucket)
{
    fprintf(out, "bucket %s, line %u:", bucket->name, bucket->line);
    describe_rate(out, &bucket->rate, bucket->burst, bucket->has_burst);
    if (bucket->has_initial)
        fprintf(out, ", initial %u", bucket->initial);
    if (bucket->mode != 0600)
        fprintf(out, ", mode %04o", bucket->mode);
    fprintf(out, "%s%s%s\n", bucket->unfair ? ", unfair" : "", bucket->stepped ? ", stepped" : "",
            bucket->strict ? ", strict" : "");
}

static void describe_calls(FILE *out, const struct tdi_frozen *frozen, const struct tdi_policy_rule *rule)
{
    fputs(", calls", out);
    if (rule->calls == TDI_CALLS_UP || rule->calls == TDI_CALLS_DOWN)
        fputs(rule->calls == TDI_CALLS_UP ? " up" : " down", out);
    else if (rule->calls == TDI_CALL_CONNECT)
        fputs(" connect", out);
    else if (rule->calls != 0)
        fprintf(out, " 0x%x", rule->calls);
    else if (rule->hooks == 0)
        fputs(" default", out);
    for (unsigned group = 0; group < 32; group++)
        for (uint32_t i = 0; i < frozen->hooks && (rule->hooks >> group & 1) != 0; i++)
            if (frozen->hook[i].group == group) {
                fprintf(out, " %s", tdi_frozen_text(frozen, frozen->hook[i].symbol));
                break;
            }
}

static void describe_manner(FILE *out, const struct tdi_policy_rule *rule)
{
    static const char *const manners[] = {[TDI_EMPTY_WAIT] = "",
                                          [TDI_EMPTY_REFUSE] = ", refuse",
                                          [TDI_EMPTY_DROP] = ", drop",
                                          [TDI_EMPTY_OBSERVE] = ", observe"};
    char text[TEXT];
    fputs(manners[rule->when_empty], out);
    if (rule->refuse_errno != 0)
        fprintf(out, " errno %d", rule->refuse_errno);
    if (rule->max_wait_ns == UINT64_MAX)
        return;
    tdi_unit_format_duration(text, sizeof text, rule->max_wait_ns);
    fprintf(out, ", within %s", text);
}

static void describe_rule(FILE *out, const struct tdi_conf *conf, uint32_t number)
{
    static const char *const counts[] = {", counts ?", ", counts bytes", ", counts calls"};
    const struct tdi_frozen *frozen = &conf->frozen;
    const struct tdi_policy_rule *rule = &frozen->rule[number].rule;
    const char *only = tdi_frozen_text(frozen, frozen->rule[number].only);
    const char *skip = tdi_frozen_text(frozen, frozen->rule[number].skip);
    fprintf(out, "rule %s, line %u:%s", tdi_frozen_text(frozen, rule->name), conf->rule_line[number],
            rule->buckets == 0 ? " quota" : "");
    for (uint32_t i = 0; i < rule->buckets; i++)
        fprintf(out, "%s%s", i == 0 ? " " : ",", tdi_frozen_text(frozen, rule->bucket[i]));
    if (rule->has_rate)
        describe_rate(out, &rule->rate, rule->burst, rule->has_burst);
    fputs(counts[rule->count], out);
    describe_calls(out, frozen, rule);
    fprintf(out, "%s%s%s%s", *only ? ", only " : "", only, *skip ? ", skip " : "", skip);
    if (rule->dests > 0)
        fprintf(out, ", to %u from %u", rule->dests, rule->dest);
    describe_manner(out, rule);
    fputc('\n', out);
}

static void describe_hook(FILE *out, const struct tdi_frozen *frozen, const struct tdi_frozen_hook *hook)
{
    const char *signature = tdi_frozen_text(frozen, hook->signature);
    const char *library = tdi_frozen_text(frozen, hook->library);
    char like[TEXT], cost[TEXT], refusal[TEXT];
    tdi_signature_format(like, sizeof like, signature);
    tdi_cost_format(cost, sizeof cost, &hook->cost);
    tdi_refusal_format(refusal, sizeof refusal, &hook->refusal, signature);
    fprintf(out, "hook %u %s: %s, cost %s%s%s%s%s\n", hook->group, tdi_frozen_text(frozen, hook->symbol),
            like, cost, *library ? ", library " : "", library, *refusal ? ", refuse " : "", refusal);
}

void describe_conf(FILE *out, const struct tdi_conf *conf)
{
    for (uint32_t i = 0; i < conf->buckets; i++)
        describe_bucket(out, &conf->bucket[i]);
    for (uint32_t i = 0; i < conf->frozen.rules; i++)
        describe_rule(out, conf, i);
    for (uint32_t i = 0; i < conf->frozen.hooks; i++)
        describe_hook(out, &conf->frozen, &conf->frozen.hook[i]);
}

void note_complaint(void *context, unsigned line, const char *message)
{
    ck_assert_ptr_null(strpbrk(message, "\n\r\033"));
    fprintf(context, "%u: %s\n", line, message);
}

unsigned read_conf(struct tdi_conf *conf, const char *text, size_t len, char **complaints)
{
    size_t size;
    FILE *out = open_memstream(complaints, &size);
    FILE *in = fmemopen((void *)(uintptr_t)(len > 0 ? text : " "), len > 0 ? len : 1, "r");
    ck_assert(in && out);
    unsigned mistakes = tdi_conf_read(conf, in, note_complaint, out);
    fclose(in);
    fclose(out);
    return mistakes;
}
