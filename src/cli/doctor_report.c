/* SPDX-License-Identifier: MIT */
/* The objects' findings in the order of what they are about. */
#include "cli/doctor.h"

#include <stdio.h>
#include <string.h>

enum {
    WHO = 1024,
};

/* What a trait means for the limit. */
static const struct {
    enum doctor_trait trait;
    bool gap; /* part of the traffic is out of reach */
    const char *meaning;
} meanings[] = {
    {DOCTOR_TRAIT_GO, true, "a Go library: it makes system calls without libc"},
    {DOCTOR_TRAIT_IO_URING, true, "can use io_uring: what goes through it is not limited"},
    {DOCTOR_TRAIT_RAW_WRITE, true, "sends by syscall(), which this version does not wrap"},
    {DOCTOR_TRAIT_DEEPBIND, true, "opens libraries with RTLD_DEEPBIND: they do not see the limit"},
    {DOCTOR_TRAIT_DLMOPEN, true, "opens libraries in other namespaces (dlmopen): they do not see the limit"},
    {DOCTOR_TRAIT_OWN_NAME, true, "defines a limited name itself, and its own comes first"},
    {DOCTOR_TRAIT_SYMBOLIC, true, "defines a limited name and is bound to its own (DF_SYMBOLIC)"},
    {DOCTOR_TRAIT_AIO, true, "writes by aio: libc does that itself, without the limit"},
    {DOCTOR_TRAIT_DLOPEN, false,
     "opens libraries while it runs (dlopen), more than are listed here: they see the limit unless opened "
     "with RTLD_DEEPBIND"},
    {DOCTOR_TRAIT_SYSCALL, false, "calls syscall(): not all of its numbers can be seen from outside"},
    {DOCTOR_TRAIT_STDIO, false, "stdio: what libc writes itself (fwrite, printf and kin) is not limited"},
    {DOCTOR_TRAIT_FDOPEN, false,
     "makes streams of descriptors (fdopen): if they are sockets, what is printed to them is not limited"},
    {DOCTOR_TRAIT_DNS, false, "looks up names (getaddrinfo and kin): libc asks the DNS without the limit"},
    {DOCTOR_TRAIT_SYSLOG, false, "writes to the system log: libc does that itself, without the limit"},
};

/* "curl and 3 libraries"; false if nobody has it. */
static bool find_who(const struct doctor *doctor, enum doctor_trait trait, char who[WHO])
{
    const struct doctor_object *first = NULL;
    size_t others = 0;
    for (size_t i = 0; i < doctor->object_count; i++) {
        const struct doctor_object *object = &doctor->objects[i];
        if (!(object->traits & (1U << trait)))
            continue;
        if (first)
            others++;
        else
            first = object;
    }
    if (others == 0)
        snprintf(who, WHO, "%s", first ? first->name : "");
    else
        snprintf(who, WHO, "%s and %zu %s", first->name, others, others == 1 ? "library" : "libraries");
    return first != NULL;
}

static size_t say_names(const struct doctor *doctor, enum doctor_name kind, const char *label)
{
    size_t count = 0;
    for (size_t i = 0; i < doctor->object_count; i++) {
        const struct doctor_object *object = &doctor->objects[i];
        if (!object->names[kind])
            continue;
        doctor_say(label, "%s:%s", object->name, object->names[kind]);
        count++;
    }
    return count;
}

static void say_traits(struct doctor *doctor)
{
    char who[WHO];
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (!find_who(doctor, meanings[i].trait, who))
            continue;
        if (meanings[i].gap)
            doctor_gap(doctor, "%s: %s", who, meanings[i].meaning);
        else
            doctor_say("note", "%s: %s", who, meanings[i].meaning);
    }
}

static void say_nothing_limited(struct doctor *doctor, bool hookable)
{
    static const char nothing[] = "neither it nor its libraries import a name that is limited";
    char who[WHO];
    if (hookable)
        doctor_gap(doctor, "%s, only names that a [hook] could count", nothing);
    else if (doctor->blind)
        doctor_gap(doctor, "%s, as far as they can be looked at", nothing);
    else if (find_who(doctor, DOCTOR_TRAIT_DLOPEN, who))
        doctor_gap(doctor, "%s; what it opens while it runs may", nothing);
    else
        doctor_obstacle(doctor, "%s", nothing);
}

void doctor_report(struct doctor *doctor)
{
    size_t limited = say_names(doctor, DOCTOR_NAME_LIMITED, "limited");
    say_names(doctor, DOCTOR_NAME_ATTENDED, "attended");
    size_t hookable = say_names(doctor, DOCTOR_NAME_HOOKABLE, "hookable");
    if (limited == 0)
        say_nothing_limited(doctor, hookable != 0);
    say_traits(doctor);
}
