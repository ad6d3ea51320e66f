/* SPDX-License-Identifier: MIT */
/*
 * Where the dynamic linker finds a library: the RPATH of whoever needs it and of those who need that, unless
 * there is a RUNPATH; LD_LIBRARY_PATH; its RUNPATH; the cache; the directories that are always searched.
 */
#include "cli/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static const char standard[] = "/lib64:/usr/lib64:/lib:/usr/lib";

bool doctor_is_library(const char *path)
{
    struct elf elf;
    if (elf_open(&elf, path) != 0)
        return false;
    bool is = elf.native && elf.header.e_type == ET_DYN;
    elf_close(&elf);
    return is;
}

/* The directory of a file once all links are followed. */
static void find_directory(const char *path, char directory[DOCTOR_PATH])
{
    char *real = realpath(path, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    if (slash)
        *slash = '\0';
    snprintf(directory, DOCTOR_PATH, "%s", real ? real : "");
    free(real);
}

/* What a word after $ stands for. False if nothing. */
static bool find_token(const struct doctor *doctor, const struct doctor_object *object, const char *word,
                       size_t len, char value[DOCTOR_PATH])
{
    if (len == 6 && strncmp(word, "ORIGIN", len) == 0) {
        find_directory(object->path, value);
        return true;
    }
    if (len == 3 && strncmp(word, "LIB", len) == 0) {
        char directory[DOCTOR_PATH];
        find_directory(doctor->interpreter ? doctor->interpreter : "/lib/.", directory);
        snprintf(value, DOCTOR_PATH, "%s", directory + (strncmp(directory, "/usr/", 5) == 0 ? 5 : 1));
        return directory[0] == '/';
    }
    if (len == 8 && strncmp(word, "PLATFORM", len) == 0) {
        const char *platform = (const char *)getauxval(AT_PLATFORM);
        snprintf(value, DOCTOR_PATH, "%s", platform ? platform : "");
        return platform != NULL;
    }
    return false;
}

/* Replaces $ORIGIN, ${ORIGIN} and the like. False if that cannot be done. */
static bool expand(const struct doctor *doctor, const struct doctor_object *object, const char *from,
                   size_t len, char out[DOCTOR_PATH])
{
    size_t used = 0;
    for (size_t i = 0; i < len;) {
        char value[DOCTOR_PATH] = {from[i], '\0'};
        size_t step = 1;
        if (from[i] == '$') {
            bool braced = i + 1 < len && from[i + 1] == '{';
            const char *word = from + i + 1 + braced;
            size_t word_len = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
            step = 1 + word_len + 2 * (size_t)braced;
            if (i + step > len || !find_token(doctor, object, word, word_len, value))
                return false;
        }
        int written = snprintf(out + used, DOCTOR_PATH - used, "%s", value);
        used += (size_t)written;
        if (used >= DOCTOR_PATH)
            return false;
        i += step;
    }
    out[used] = '\0';
    return true;
}

/* Tries each directory of a list. An empty one is the working directory. */
static bool try_list(const struct doctor *doctor, const struct doctor_object *object, const char *list,
                     const char *name, char path[DOCTOR_PATH])
{
    size_t len;
    for (const char *at = list; at && *at; at += len + (at[len] != '\0')) {
        char directory[DOCTOR_PATH];
        len = strcspn(at, ":;");
        if (!expand(doctor, object, at, len, directory))
            continue;
        int written = snprintf(path, DOCTOR_PATH, "%s/%s", directory[0] ? directory : ".", name);
        if (written < DOCTOR_PATH && doctor_is_library(path))
            return true;
    }
    return false;
}

/* The RPATH of the object, of the one that needs it, and so on up to the program. */
static bool try_rpaths(const struct doctor *doctor, size_t wanting, const char *name, char path[DOCTOR_PATH])
{
    for (size_t at = wanting;; at = doctor->objects[at].parent) {
        const struct doctor_object *object = &doctor->objects[at];
        if (!object->runpath && try_list(doctor, object, object->rpath, name, path))
            return true;
        if (object->parent == at)
            return false;
    }
}

static bool try_standard(struct doctor *doctor, const struct doctor_object *object, const char *name,
                         char path[DOCTOR_PATH])
{
    char beside[DOCTOR_PATH];
    if (!object->no_default && doctor_cache_find(doctor, name, path))
        return true;
    find_directory(doctor->interpreter ? doctor->interpreter : "", beside);
    return try_list(doctor, object, beside, name, path) || try_list(doctor, object, standard, name, path);
}

bool doctor_search(struct doctor *doctor, size_t wanting, const char *name, char path[DOCTOR_PATH])
{
    const struct doctor_object *object = &doctor->objects[wanting];
    if (strchr(name, '/'))
        return expand(doctor, object, name, strlen(name), path) && doctor_is_library(path);
    if (!object->runpath && try_rpaths(doctor, wanting, name, path))
        return true;
    return try_list(doctor, object, getenv("LD_LIBRARY_PATH"), name, path) ||
           try_list(doctor, object, object->runpath, name, path) || try_standard(doctor, object, name, path);
}
