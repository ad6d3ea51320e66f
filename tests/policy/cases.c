/* SPDX-License-Identifier: MIT */
/* Reads files of cases; lines that are empty or start with # are none. */
#include "policy/cases.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"

void cases_answer_error(int error, const char *why, char answer[CASES_TEXT])
{
    const char *name = error == -EINVAL ? "EINVAL" : error == -ERANGE ? "ERANGE" : "?";
    snprintf(answer, CASES_TEXT, "error %s %s", name, why ? why : "(no sentence)");
}

/* An expected error gives the beginning up to the error's name and any part of the sentence. */
static bool meets(const char *answer, const char *expected)
{
    const size_t kind = strlen("error EINVAL ");
    if (strncmp(expected, "error ", 6) != 0)
        return strcmp(answer, expected) == 0;
    return strlen(expected) > kind && strncmp(answer, expected, kind) == 0 &&
           strstr(answer + kind, expected + kind);
}

static unsigned check_line(const char *path, unsigned number, char *line, cases_answer_fn *answer_for)
{
    char answer[CASES_TEXT];
    char *arrow = strstr(line, " -> ");
    ck_assert_msg(arrow != NULL, "%s:%u: no ' -> '", path, number);
    *arrow = '\0';
    answer_for(strcmp(line, "<empty>") == 0 ? "" : line, answer);
    if (meets(answer, arrow + 4))
        return 0;
    fprintf(stderr, "%s:%u: '%s' -> %s\n  expected %s\n", path, number, line, answer, arrow + 4);
    return 1;
}

void cases_check(const char *path, cases_answer_fn *answer_for)
{
    char line[CASES_TEXT];
    unsigned number = 0, cases = 0, failures = 0;
    FILE *in = fopen(path, "r");
    ck_assert_msg(in != NULL, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, in)) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        cases++;
        failures += check_line(path, number, line, answer_for);
    }
    fclose(in);
    ck_assert_msg(cases > 0, "%s holds no case", path);
    ck_assert_msg(failures == 0, "%u of %u cases of %s fail", failures, cases, path);
}
