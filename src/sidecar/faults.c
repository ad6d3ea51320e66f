/* SPDX-License-Identifier: MIT */
/* See faults.h. Both lists are in the same order, so one walk along the old one finds all. */
#include "sidecar/faults.h"

#include <stdlib.h>
#include <string.h>

struct tdi_fault {
    char *name;
    int error;
    bool said;
    uint64_t since_ns;
};

static void free_list(struct tdi_faults_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->fault[i].name);
    free(list->fault);
    *list = (struct tdi_faults_list){.fault = NULL};
}

static struct tdi_fault *append(struct tdi_faults_list *list, const char *name, int error)
{
    struct tdi_fault *grown = reallocarray(list->fault, list->count + 1, sizeof(*grown));
    if (!grown)
        return NULL;
    list->fault = grown;
    grown[list->count] = (struct tdi_fault){.name = strdup(name), .error = error};
    return grown[list->count].name ? &grown[list->count++] : NULL;
}

void tdi_faults_begin(struct tdi_faults *faults, uint64_t now_ns)
{
    free_list(&faults->before);
    faults->before = faults->now;
    faults->now = (struct tdi_faults_list){.fault = NULL};
    faults->at = 0;
    faults->is_first = faults->now_ns == 0;
    faults->now_ns = now_ns;
}

static const struct tdi_fault *find_before(struct tdi_faults *faults, const char *name, int error)
{
    const struct tdi_faults_list *before = &faults->before;
    while (faults->at < before->count && strcmp(before->fault[faults->at].name, name) < 0)
        faults->at++;
    const struct tdi_fault *found = faults->at < before->count ? &before->fault[faults->at] : NULL;
    return found && found->error == error && strcmp(found->name, name) == 0 ? found : NULL;
}

bool tdi_faults_note(struct tdi_faults *faults, const char *name, int error)
{
    const struct tdi_fault *known = find_before(faults, name, error);
    struct tdi_fault *fault = append(&faults->now, name, error);
    if (!fault)
        return false; /* it would be said at every look */
    bool was_said = known && known->said;
    fault->since_ns = known ? known->since_ns : faults->now_ns;
    fault->said = was_said || faults->is_first || faults->now_ns - fault->since_ns >= TDI_FAULTS_LAST_NS;
    return fault->said && !was_said;
}

void tdi_faults_free(struct tdi_faults *faults)
{
    free_list(&faults->now);
    free_list(&faults->before);
}
