/* SPDX-License-Identifier: MIT */
/*
 * Functions that other objects of the process define, found as ld.so would find them for a caller, but never
 * our own or the hook library's. Allocates nothing, errno kept; takes ld.so's lock.
 */
#ifndef TUNDISH_PRELOAD_FIND_H
#define TUNDISH_PRELOAD_FIND_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses of one object, `to` being the first behind it. */
struct tdi_range {
    uintptr_t from, to;
};

static inline bool tdi_range_has(const struct tdi_range *range, const void *address)
{
    return (uintptr_t)address - range->from < range->to - range->from;
}

typedef void tdi_function(void);

enum tdi_found_way {
    TDI_FOUND_AT_START, /* in what was loaded at the start and never goes */
    TDI_FOUND_NEARBY,   /* in the caller's object or in what that needs */
    TDI_FOUND_ELSEWHERE,
};

struct tdi_found {
    tdi_function *function; /* NULL: nobody defines it */
    enum tdi_found_way way;
    struct tdi_range home;  /* the object that does */
    struct tdi_range users; /* callers for whom the answer is the same: everybody, or one object */
};

/* To be called once at the start: what is loaded now stays for good, and `table` is the hook library's. */
void tdi_find_begin(const void *table);

/* Whether the address is ours. */
bool tdi_find_is_us(const void *address);

/* Whether the address is in an object that stands before the hook library: the program itself, as a rule. */
bool tdi_find_is_before(const void *address);

/*
 * Finds `name` for a caller: among what was loaded at the start, then in what the caller's object needs, then
 * where it was `told` (the function itself, or NULL), then anywhere.
 */
struct tdi_found tdi_find(const char *name, tdi_function *told, const void *caller);

/* Whether the object that holds the address goes by that name: a soname, a path or the last part of one. */
bool tdi_find_is_in(const void *address, const char *library);

/*
 * Around a fork. A child in which ld.so's lock is held for ever, by a thread that was left behind in a visit,
 * could find nothing any more: so forks wait until nobody is in one, though not for long.
 */
void tdi_find_before_fork(void);
void tdi_find_after_fork_in_parent(void);
void tdi_find_after_fork_in_child(void);

/* The hook library's own function of that name. */
tdi_function *tdi_find_stub(const char *name);

/* The object that holds the address. false if it is in none that is loaded here. */
bool tdi_find_object(const void *address, struct tdi_range *object);

#endif
