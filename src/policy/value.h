/* SPDX-License-Identifier: MIT */
/*
 * The values of a rule, however its words are written: in the environment or in a file. No allocation, no
 * locale, no errno. A reader returns 0, or -EINVAL with a static sentence in *why that says what is wrong and
 * what would be right.
 */
#ifndef TUNDISH_POLICY_VALUE_H
#define TUNDISH_POLICY_VALUE_H

#include "policy/policy.h"

/* "wait", "refuse:EACCES": when_empty and refuse_errno. */
int tdi_value_when_empty(const char *value, struct tdi_policy_rule *rule, const char **why);

/* "bytes" or "calls" */
int tdi_value_count(const char *value, enum tdi_count *count, const char **why);

/* A bucket's name as an element of a list: not empty, and each % of it means something. */
int tdi_value_bucket(const char *name, size_t len, const char **why);

/*
 * A list of destinations behind the *used ones of `dest`, which holds `room`. Reads on after an error, whose
 * sentence, the first one, is in `why`. How many were added is what *used grew by.
 */
int tdi_value_dests(const char *list, struct tdi_dest *dest, uint32_t room, uint32_t *used, char *why,
                    size_t len);

/* Whether a comma list holds the program. */
bool tdi_value_lists(const char *list, const char *program);

/* Makes rate and count of a rule one: false if the rate is in bytes and calls are to be counted. */
bool tdi_value_settle(struct tdi_policy_rule *rule);

#endif
