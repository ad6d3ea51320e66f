/* SPDX-License-Identifier: MIT */
/* Findings and the verdict, on stdout. */
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    LABEL_WIDTH = 10,
};

static void put(const char *label, char *text)
{
    cli_disarm(text);
    printf("%-*s %s\n", LABEL_WIDTH, label, text);
}

/* Keeps the first reason of the worst kind, and counts the others of that kind. */
static void keep(struct doctor *doctor, int status, const char *text)
{
    bool worse = status == DOCTOR_NOT_AT_ALL && doctor->status == DOCTOR_PARTLY;
    if (doctor->status == CLI_OK || worse) {
        doctor->status = status;
        doctor->gaps = 0;
        snprintf(doctor->reason, sizeof(doctor->reason), "%s", text);
    }
    if (doctor->status == status)
        doctor->gaps++;
}

void doctor_say(const char *label, const char *format, ...)
{
    char text[DOCTOR_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    put(label, text);
}

void doctor_gap(struct doctor *doctor, const char *format, ...)
{
    char text[DOCTOR_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    put("gap", text);
    keep(doctor, DOCTOR_PARTLY, text);
}

void doctor_obstacle(struct doctor *doctor, const char *format, ...)
{
    char text[DOCTOR_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    put("obstacle", text);
    keep(doctor, DOCTOR_NOT_AT_ALL, text);
}

int doctor_verdict(const struct doctor *doctor)
{
    if (doctor->status == CLI_OK) {
        printf("works\n");
        return CLI_OK;
    }
    printf("%s: %s", doctor->status == DOCTOR_PARTLY ? "partly" : "not at all", doctor->reason);
    if (doctor->gaps > 1)
        printf("; and %u more", doctor->gaps - 1);
    printf("\n");
    return doctor->status;
}
