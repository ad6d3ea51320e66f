/* SPDX-License-Identifier: MIT */
/* [bucket] sections. */
#include <string.h>

#include "policy/conf_draft.h"

static const char *text_of(const struct tdi_conf_section *section, enum tdi_conf_key key)
{
    return section->value[key].text;
}

/* Without a burst that can be read there is none: then nothing is known of what goes with it. */
static void read_rate(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                      struct tdi_conf_bucket *bucket)
{
    const char *rate = text_of(section, TDI_KEY_RATE), *burst = text_of(section, TDI_KEY_BURST), *why = "";
    if (!tdi_conf_has(section, TDI_KEY_RATE) && !section->unread)
        tdi_conf_say(draft, section->line, "[bucket \"%s\"] has no rate; write one, as rate = 10/s or 5MiB/s",
                     section->name);
    if (rate == NULL)
        return;
    if (tdi_unit_parse_rate(rate, &bucket->rate, &why) < 0) {
        tdi_conf_say_value(draft, section, TDI_KEY_RATE, why);
        return;
    }
    bucket->has_burst = tdi_conf_has(section, TDI_KEY_BURST);
    if (!bucket->has_burst)
        bucket->burst = tdi_unit_burst_of(&bucket->rate, bucket->stepped);
    else if (burst != NULL && tdi_unit_parse_burst(burst, &bucket->rate, &bucket->burst, &why) < 0)
        tdi_conf_say_value(draft, section, TDI_KEY_BURST, why);
}

static void read_initial(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                         struct tdi_conf_bucket *bucket)
{
    const char *text = text_of(section, TDI_KEY_INITIAL), *why = "";
    if (text == NULL || strcmp(text, "full") == 0)
        return;
    if (tdi_unit_parse_count(text, &bucket->initial, &why) < 0)
        tdi_conf_say_value(draft, section, TDI_KEY_INITIAL, why);
    else if (bucket->burst != 0 && bucket->initial > bucket->burst)
        tdi_conf_say_value(draft, section, TDI_KEY_INITIAL,
                           "is more than the burst; full is as much as there can be");
    else
        bucket->has_initial = true;
}

static void read_mode(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                      struct tdi_conf_bucket *bucket)
{
    const char *text = text_of(section, TDI_KEY_MODE);
    uint32_t mode = 0;
    if (text == NULL)
        return;
    const size_t len = strspn(text, "01234567");
    for (size_t i = 0; i < len && mode <= 0777; i++)
        mode = mode * 8 + (uint32_t)(text[i] - '0');
    if (len == 0 || text[len] != '\0' || mode > 0777)
        tdi_conf_say_value(draft, section, TDI_KEY_MODE, "is no octal mode, such as 0600 or 0660");
    else
        bucket->mode = mode;
}

/* A bucket for each destination or process is made by a program that knows a rule, but no section. */
static void refuse_what_programs_cannot_know(struct tdi_conf_draft *draft,
                                             const struct tdi_conf_section *section)
{
    static const enum tdi_conf_key keys[] = {TDI_KEY_INITIAL, TDI_KEY_MODE, TDI_KEY_FAIR, TDI_KEY_STEPPED,
                                             TDI_KEY_STRICT};
    if (!tdi_policy_name_has(section->name, "hPpn"))
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (text_of(section, keys[i]) != NULL)
            tdi_conf_say_value(draft, section, keys[i],
                               "buckets of a name with %h, %P, %p or %n are made when they are first used, "
                               "with a rate and a burst alone");
}

static void read_bucket(struct tdi_conf_draft *draft, const struct tdi_conf_section *section,
                        struct tdi_conf_bucket *bucket)
{
    bool fair = true;
    memcpy(bucket->name, section->name, strlen(section->name) + 1);
    bucket->line = section->line;
    bucket->mode = 0600;
    tdi_conf_read_flag(draft, section, TDI_KEY_FAIR, &fair);
    tdi_conf_read_flag(draft, section, TDI_KEY_STEPPED, &bucket->stepped);
    tdi_conf_read_flag(draft, section, TDI_KEY_STRICT, &bucket->strict);
    bucket->unfair = !fair;
    read_rate(draft, section, bucket);
    read_initial(draft, section, bucket);
    read_mode(draft, section, bucket);
    refuse_what_programs_cannot_know(draft, section);
}

void tdi_conf_read_buckets(struct tdi_conf_draft *draft)
{
    struct tdi_conf *out = draft->out;
    const struct tdi_conf_section *section;
    while ((section = tdi_conf_section(draft, TDI_CONF_BUCKET, out->buckets)) != NULL)
        read_bucket(draft, section, &out->bucket[out->buckets++]);
}
