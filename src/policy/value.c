/* SPDX-License-Identifier: MIT */
/* The values of a rule that are more than a unit or a name of a table. */
#include "policy/value.h"

#include <errno.h>
#include <string.h>

#include "policy/dest.h"
#include "policy/names.h"

static int fail(const char *sentence, const char **why)
{
    *why = sentence;
    return -EINVAL;
}

int tdi_value_when_empty(const char *value, struct tdi_policy_rule *rule, const char **why)
{
    static const char *const manners[] = {
        [TDI_EMPTY_WAIT] = "wait", [TDI_EMPTY_DROP] = "drop", [TDI_EMPTY_OBSERVE] = "observe"};
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        if (manners[i] != NULL && strcmp(value, manners[i]) == 0) {
            rule->when_empty = (enum tdi_when_empty)i;
            return 0;
        }
    if (strncmp(value, "refuse", 6) != 0 || (value[6] != '\0' && value[6] != ':'))
        return fail("is wait, refuse, refuse:ERRNO, drop or observe", why);
    rule->when_empty = TDI_EMPTY_REFUSE;
    if (value[6] == '\0')
        return 0;
    rule->refuse_errno = tdi_names_errno(value + 7);
    if (rule->refuse_errno == 0)
        return fail("an error is named as in errno(3): EAGAIN, ECONNREFUSED, EACCES, ETIMEDOUT, ENOBUFS "
                    "and the like",
                    why);
    return 0;
}

int tdi_value_count(const char *value, enum tdi_count *count, const char **why)
{
    if (strcmp(value, "bytes") == 0)
        *count = TDI_COUNT_BYTES;
    else if (strcmp(value, "calls") == 0)
        *count = TDI_COUNT_CALLS;
    else
        return fail("is bytes or calls", why);
    return 0;
}

/* What nobody expands must not turn into a file name with a percent sign. */
int tdi_value_bucket(const char *name, size_t len, const char **why)
{
    if (len == 0)
        return fail("an empty bucket name", why);
    for (size_t i = 0; i < len; i++) {
        if (name[i] != '%')
            continue;
        char c = ++i < len ? name[i] : '\0';
        if (c == '\0' || strchr("punhP%", c) == NULL)
            return fail("after % comes p (process), u (user), n (program), h (destination), "
                        "P (its port) or another %",
                        why);
    }
    return 0;
}

/* "more than 64 destinations" */
static void say_full(uint32_t room, char *why, size_t len)
{
    const char digits[] = {(char)('0' + room / 100 % 10), (char)('0' + room / 10 % 10),
                           (char)('0' + room % 10), '\0'};
    struct tdi_text line;
    tdi_text_start(&line, why, len);
    tdi_text_add(&line, "more than ");
    tdi_text_add(&line, room < 100 ? digits + 1 : digits);
    tdi_text_add(&line, " destinations");
}

int tdi_value_dests(const char *list, struct tdi_dest *dest, uint32_t room, uint32_t *used, char *why,
                    size_t len)
{
    const char *item;
    size_t item_len;
    int result = 0;
    char unheard[1];
    while (tdi_list_next(&list, &item, &item_len)) {
        struct tdi_dest read[2];
        int count = tdi_dest_parse(item, item_len, read, result == 0 ? why : unheard, result == 0 ? len : 1);
        if (count < 0) {
            result = -EINVAL;
            continue;
        }
        if (*used + (uint32_t)count > room) {
            if (result == 0)
                say_full(room, why, len);
            return -EINVAL;
        }
        memcpy(&dest[*used], read, (size_t)count * sizeof *read);
        *used += (uint32_t)count;
    }
    return result;
}

bool tdi_value_lists(const char *list, const char *program)
{
    const char *item;
    size_t len;
    while (tdi_list_next(&list, &item, &len))
        if (tdi_item_is(item, len, program))
            return true;
    return false;
}

bool tdi_value_settle(struct tdi_policy_rule *rule)
{
    if (rule->rate.bytes && rule->count == TDI_COUNT_CALLS)
        return false;
    if (rule->count == TDI_COUNT_BY_BUCKET)
        rule->count = rule->rate.bytes ? TDI_COUNT_BYTES : TDI_COUNT_CALLS;
    rule->rate.bytes = rule->count == TDI_COUNT_BYTES;
    return true;
}
