/* SPDX-License-Identifier: MIT */
/*
 * The list of objects, and the order in which the dynamic linker loads them: what the first needs comes
 * first.
 */
#include "cli/doctor.h"

#include <stdlib.h>
#include <string.h>

enum {
    OBJECTS_MAX = 4096, /* as many as a list of needs that feeds itself may grow to */
};

const char *doctor_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* `count` if it is not there. */
static size_t find_path(const struct doctor *doctor, const char *path)
{
    size_t i = 0;
    while (i < doctor->object_count && !is_same(doctor->objects[i].path, path))
        i++;
    return i;
}

static bool is_loaded(const struct doctor *doctor, const char *name)
{
    for (size_t i = 0; i < doctor->object_count; i++)
        if (is_same(doctor->objects[i].name, name) || is_same(doctor->objects[i].soname, name))
            return true;
    return false;
}

size_t doctor_object_add(struct doctor *doctor, const char *name, const char *path, size_t parent)
{
    size_t at = find_path(doctor, path);
    if (at < doctor->object_count || at == OBJECTS_MAX)
        return at;
    struct doctor_object *more = realloc(doctor->objects, (at + 1) * sizeof(*more));
    if (!more)
        return at;
    doctor->objects = more;
    more[at] = (struct doctor_object){.name = strdup(name), .path = strdup(path), .parent = parent};
    doctor->object_count++;
    return at;
}

/* The dynamic linker stands in for itself and needs nothing. */
static bool is_linker(const struct doctor *doctor, const char *name)
{
    return doctor->interpreter && strcmp(doctor_base(doctor->interpreter), name) == 0;
}

/* Something that the program has will not be looked at. */
static void miss(struct doctor *doctor, const char *name, const char *wanting)
{
    doctor->blind = true;
    doctor_gap(doctor, "%s, which %s needs, is not found", name, wanting);
}

static void give_up(struct doctor *doctor, size_t at, int error)
{
    doctor->blind = true;
    if (at == 0)
        doctor_obstacle(doctor, "%s", elf_explain(error));
    else
        doctor_gap(doctor, "%s cannot be looked at: %s", doctor->objects[at].name, elf_explain(error));
}

static void add_needed(struct doctor *doctor, size_t at)
{
    char path[DOCTOR_PATH];
    for (size_t i = 0; i < doctor->objects[at].needed_count; i++) {
        const char *name = doctor->objects[at].needed[i];
        if (is_loaded(doctor, name) || is_linker(doctor, name))
            continue;
        if (doctor_search(doctor, at, name, path))
            doctor_object_add(doctor, doctor_base(name), path, at);
        else
            miss(doctor, name, doctor->objects[at].name);
    }
}

void doctor_objects_examine(struct doctor *doctor, bool follow)
{
    for (size_t i = 0; i < doctor->object_count; i++) {
        int error = doctor_examine(&doctor->objects[i], i == 0);
        if (error)
            give_up(doctor, i, error);
        else if (follow)
            add_needed(doctor, i);
    }
}

static void free_object(struct doctor_object *object)
{
    for (size_t i = 0; i < object->needed_count; i++)
        free(object->needed[i]);
    for (size_t i = 0; i < DOCTOR_NAMES; i++)
        free(object->names[i]);
    free(object->needed);
    free(object->runpath);
    free(object->rpath);
    free(object->soname);
    free(object->path);
    free(object->name);
}

void doctor_objects_free(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->object_count; i++)
        free_object(&doctor->objects[i]);
    free(doctor->objects);
    free(doctor->cache);
    free(doctor->interpreter);
}
