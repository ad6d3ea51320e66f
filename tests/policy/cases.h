/* SPDX-License-Identifier: MIT */
/* Files of cases: `text -> expected`, one a line, described in the README beside them. */
#ifndef TUNDISH_TESTS_POLICY_CASES_H
#define TUNDISH_TESTS_POLICY_CASES_H

#include <stdint.h>

enum {
    CASES_TEXT = 1024,
};

/* What is made of a text, written as the expectation of a case is. */
typedef void cases_answer_fn(const char *text, char answer[CASES_TEXT]);

/* Fails the test after saying which of the cases are not met. */
void cases_check(const char *path, cases_answer_fn *answer_for);

/* The answer of a text that was refused. */
void cases_answer_error(int error, const char *why, char answer[CASES_TEXT]);

/* A generator good enough for arguments, the same on each run. */
static inline uint64_t cases_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 16;
}

#endif
