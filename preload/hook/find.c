/* SPDX-License-Identifier: MIT */
/*
 * dlsym would do for some of this, but it looks from its caller's place, finds our own hook library first, and
 * allocates where it finds nothing. So objects are visited here, by dl_iterate_phdr, and their symbol tables read
 * (object.h). All visits of one search happen inside of a first one, whose lock keeps every object where it is.
 */
#include "find.h"

#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "inside.h"
#include "list.h"
#include "object.h"
#include "policy/stub.h"
#include "text.h"

#define QUEUE 64 /* objects that a caller's object needs, directly or not */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static const void *table; /* in the hook library, if there is one */
static unsigned at_start; /* how many objects there were; none of them ever goes */
static unsigned behind;   /* where those begin that stand behind the hook library */

bool tdi_find_is_us(const void *address)
{
    const struct tdi_range us = {(uintptr_t)__ehdr_start, (uintptr_t)_end};
    return tdi_range_has(&us, address);
}

/* The kernel's object also has names that look like libc's. */
static bool is_vdso(const struct tdi_object *object)
{
    unsigned long header = getauxval(AT_SYSINFO_EHDR);
    return header != 0 && tdi_range_has(&object->range, (const void *)header);
}

/* By its name as well: a list made by hand may hold several. */
static bool is_stub(const struct tdi_object *object)
{
    return (table != NULL && tdi_range_has(&object->range, table)) ||
           tdi_text_begins(tdi_text_last_part(object->path), TDI_STUB_FILE);
}

static bool is_foreign(const struct tdi_object *object)
{
    return !is_stub(object) && !tdi_range_has(&object->range, __ehdr_start) && !is_vdso(object);
}

#define PATIENCE 20000 /* yields; some milliseconds */

static _Atomic(uint32_t) inside_of_visits; /* threads */
static atomic_bool forking;

/* Nobody waits long: who waits here may hold what the forking thread waits for. */
static void enter(void)
{
    /* seq_cst, and in this order, against tdi_find_before_fork's: one of the two sees the other. */
    atomic_fetch_add(&inside_of_visits, 1);
    for (int i = 0; i < PATIENCE && atomic_load(&forking) && tdi_inside.visits == 0; i++) {
        atomic_fetch_sub(&inside_of_visits, 1);
        sched_yield();
        atomic_fetch_add(&inside_of_visits, 1);
    }
    tdi_inside.visits++;
}

static void leave(void)
{
    tdi_inside.visits--;
    atomic_fetch_sub(&inside_of_visits, 1);
}

void tdi_find_before_fork(void)
{
    atomic_store(&forking, true);
    for (int i = 0; i < PATIENCE && atomic_load(&inside_of_visits) > (uint32_t)tdi_inside.visits; i++)
        sched_yield();
}

void tdi_find_after_fork_in_parent(void)
{
    atomic_store(&forking, false);
}

void tdi_find_after_fork_in_child(void)
{
    atomic_store(&inside_of_visits, (uint32_t)tdi_inside.visits);
    atomic_store(&forking, false);
}

/* One visit to all objects, in the order they were loaded in. */
struct visit {
    /* Whether to stop. */
    bool (*look)(struct visit *visit, const struct tdi_object *object, unsigned index);
    const char *name;    /* a function's, or an object's */
    const void *address; /* to find the object of */
    unsigned from, to;   /* the indices of interest */
    unsigned index;
    bool stopped;
    struct tdi_object object; /* where it stopped */
    struct tdi_found found;
};

struct search {
    const char *name;
    tdi_function *told;
    const void *caller;
    struct tdi_found found;
};

static int visit_one(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct visit *visit = argument;
    unsigned index = visit->index++;
    (void)size;
    if (index < visit->from || index >= visit->to)
        return 0;
    visit->object = tdi_object_of(info);
    visit->stopped = visit->look(visit, &visit->object, index);
    return visit->stopped;
}

static bool go_round(struct visit *visit)
{
    visit->index = 0;
    visit->stopped = false;
    (void)tdi_list_iterate(visit_one, visit);
    return visit->stopped;
}

/* A search that is one visit only. */
static bool visit_all(struct visit *visit)
{
    enter();
    bool stopped = go_round(visit);
    leave();
    return stopped;
}

static bool look_for_function(struct visit *visit, const struct tdi_object *object, unsigned index)
{
    (void)index;
    return is_foreign(object) && tdi_object_look_up(object, visit->name, &visit->found);
}

static bool look_for_address(struct visit *visit, const struct tdi_object *object, unsigned index)
{
    (void)index;
    return tdi_range_has(&object->range, visit->address);
}

static bool look_for_object(struct visit *visit, const struct tdi_object *object, unsigned index)
{
    (void)index;
    return tdi_object_is_named(object, visit->name);
}

static bool find_object(const void *address, struct tdi_object *object)
{
    struct visit visit = {.look = look_for_address, .address = address, .to = UINT32_MAX};
    bool found = address != NULL && go_round(&visit);
    if (found)
        *object = visit.object;
    return found;
}

struct queue {
    struct tdi_object object[QUEUE];
    unsigned count;
};

static bool is_queued(const struct queue *queue, const struct tdi_object *object)
{
    for (unsigned i = 0; i < queue->count; i++)
        if (queue->object[i].base == object->base)
            return true;
    return false;
}

/* What an object needs, behind what is in the queue already. */
static void queue_needed(struct queue *queue, const struct tdi_object *object)
{
    const ElfW(Dyn) *at = NULL;
    for (const char *name; (name = tdi_object_needs(object, &at)) != NULL;) {
        struct visit visit = {.look = look_for_object, .name = name, .to = UINT32_MAX};
        if (queue->count < QUEUE && go_round(&visit) && !is_queued(queue, &visit.object))
            queue->object[queue->count++] = visit.object;
    }
}

/* In the caller's own object and in what it needs, as ld.so looks for what was loaded for it alone. */
static bool find_nearby(const char *name, const void *caller, struct tdi_found *found)
{
    struct queue queue = {.count = 0};
    if (!find_object(caller, &queue.object[0]))
        return false;
    queue.count = 1;
    found->users = queue.object[0].range;
    for (unsigned i = 0; i < queue.count; i++) {
        if (is_foreign(&queue.object[i]) && tdi_object_look_up(&queue.object[i], name, found))
            return true;
        queue_needed(&queue, &queue.object[i]);
    }
    return false;
}

static const struct tdi_range everybody = {0, UINTPTR_MAX};

/* The answer holds for the caller's object. */
static void answer_for(const void *caller, struct tdi_found *found)
{
    struct tdi_object user;
    found->users = find_object(caller, &user) ? user.range : (struct tdi_range){0, 0};
}

/* Another library may have come to lie there. */
static bool find_told(const struct search *search, struct tdi_found *found)
{
    struct tdi_object object;
    return search->told != NULL && find_object((const void *)(uintptr_t)search->told, &object) &&
           tdi_object_look_up(&object, search->name, found) && found->function == search->told;
}

/* Among the objects of these places in the order of loading. */
static bool find_among(const struct search *search, unsigned from, unsigned to, struct tdi_found *found)
{
    struct visit visit = {.look = look_for_function, .name = search->name, .from = from, .to = to};
    bool is_there = go_round(&visit);
    found->function = visit.found.function;
    found->home = visit.found.home;
    return is_there;
}

/* The whole search, inside of the first visit. */
static int search_all(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct search *search = argument;
    struct tdi_found *found = &search->found;
    const unsigned later = at_start > 0 ? at_start : UINT32_MAX;
    (void)info;
    (void)size;
    if (find_among(search, behind, later, found)) {
        found->way = TDI_FOUND_AT_START;
        found->users = everybody;
        return 1;
    }
    found->way = TDI_FOUND_NEARBY;
    if (find_nearby(search->name, search->caller, found))
        return 1;
    found->way = TDI_FOUND_ELSEWHERE;
    if (find_told(search, found) || find_among(search, later, UINT32_MAX, found))
        answer_for(search->caller, found);
    else
        found->function = NULL;
    return 1;
}

struct tdi_found tdi_find(const char *name, tdi_function *told, const void *caller)
{
    struct search search = {.name = name, .told = told, .caller = caller};
    int saved_errno = errno;
    enter();
    (void)tdi_list_iterate(search_all, &search);
    leave();
    errno = saved_errno;
    return search.found;
}

static bool look_for_library(struct visit *visit, const struct tdi_object *object, unsigned index)
{
    (void)index;
    return tdi_range_has(&object->range, visit->address) && tdi_object_is_named(object, visit->name);
}

bool tdi_find_is_in(const void *address, const char *library)
{
    struct visit visit = {.look = look_for_library, .name = library, .address = address, .to = UINT32_MAX};
    return visit_all(&visit);
}

bool tdi_find_is_before(const void *address)
{
    struct visit visit = {.look = look_for_address, .address = address, .to = behind};
    return visit_all(&visit);
}

static bool count(struct visit *visit, const struct tdi_object *object, unsigned index)
{
    (void)visit;
    if (is_stub(object))
        behind = index + 1;
    return false;
}

void tdi_find_begin(const void *stub_table)
{
    struct visit visit = {.look = count, .to = UINT32_MAX};
    table = stub_table;
    tdi_list_begin();
    (void)visit_all(&visit);
    at_start = visit.index;
}

static bool find_holder(const void *address, struct tdi_object *object)
{
    enter();
    bool found = find_object(address, object);
    leave();
    return found;
}

tdi_function *tdi_find_stub(const char *name)
{
    struct tdi_found found = {.function = NULL};
    struct tdi_object stub;
    return find_holder(table, &stub) && tdi_object_look_up(&stub, name, &found) ? found.function : NULL;
}

bool tdi_find_object(const void *address, struct tdi_range *object)
{
    struct tdi_object there;
    if (!find_holder(address, &there))
        return false;
    *object = there.range;
    return true;
}
