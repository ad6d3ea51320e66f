/* SPDX-License-Identifier: MIT */
/* What is wrong with names of a directory that is looked at again and again: each fault is to be said once. */
#ifndef TUNDISH_SIDECAR_FAULTS_H
#define TUNDISH_SIDECAR_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one look, in the order of names. */
struct tdi_faults_list {
    struct tdi_fault *fault;
    size_t count;
};

/* All 0 at first. What is not noted in a look is forgotten: no more is kept than a directory holds. */
struct tdi_faults {
    struct tdi_faults_list now;
    struct tdi_faults_list before;
    size_t at; /* the first of `before` that may still come */
    uint64_t now_ns;
    bool is_first;
};

/* What comes later must last so long: it may be in the making, or have come only to go again. */
#define TDI_FAULTS_LAST_NS UINT64_C(1000000000)

/* A look: begin, which never is at 0, and note what is wrong, in the order of strcmp. */
void tdi_faults_begin(struct tdi_faults *faults, uint64_t now_ns);

/* Whether it is time to say it. Another error is another fault. */
bool tdi_faults_note(struct tdi_faults *faults, const char *name, int error);

void tdi_faults_free(struct tdi_faults *faults);

#endif
