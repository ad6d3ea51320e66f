/* SPDX-License-Identifier: MIT */
/* /etc/ld.so.cache: pairs of a library's name and its path. Its offsets are held against its size. */
#include "cli/doctor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As glibc's sysdeps/generic/dl-cache.h has it. Offsets count from this header. */
struct cache_header {
    char magic[20]; /* "glibc-ld.so.cache1.1" */
    uint32_t count;
    uint32_t strings_len;
    uint8_t flags, padding[3];
    uint32_t extensions;
    uint32_t unused[3];
};

struct cache_entry {
    int32_t flags;
    uint32_t name, path;
    uint32_t os_version;
    uint64_t capabilities; /* for processors that have them; 0 for all */
};

static const char magic[] = "glibc-ld.so.cache1.1";

_Static_assert(sizeof(struct cache_header) == 48 && sizeof(struct cache_entry) == 24,
               "as ldconfig writes it");

void doctor_cache_load(struct doctor *doctor)
{
    struct stat status;
    int file = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < 1 << 28) {
        doctor->cache = calloc(1, (size_t)status.st_size + 1);
        ssize_t len = doctor->cache ? pread(file, doctor->cache, (size_t)status.st_size, 0) : -1;
        doctor->cache_len = len < 0 ? 0 : (size_t)len;
    }
    close(file);
}

/* The header, which an older form of the cache may precede; NULL if there is none. */
static const char *find_header(const struct doctor *doctor)
{
    if (!doctor->cache)
        return NULL;
    const char *at = memmem(doctor->cache, doctor->cache_len, magic, sizeof(magic) - 1);
    size_t before = at ? (size_t)(at - doctor->cache) : 0;
    return at && doctor->cache_len - before >= sizeof(struct cache_header) ? at : NULL;
}

bool doctor_cache_find(struct doctor *doctor, const char *name, char path[DOCTOR_PATH])
{
    const char *base = find_header(doctor);
    struct cache_header header;
    if (!base)
        return false;
    size_t len = doctor->cache_len - (size_t)(base - doctor->cache);
    memcpy(&header, base, sizeof(header));
    for (size_t i = 0; i < header.count && sizeof(header) + (i + 1) * sizeof(struct cache_entry) <= len;
         i++) {
        struct cache_entry entry;
        memcpy(&entry, base + sizeof(header) + i * sizeof(entry), sizeof(entry));
        if (entry.capabilities || entry.name >= len || entry.path >= len ||
            strcmp(base + entry.name, name) != 0)
            continue;
        if (snprintf(path, DOCTOR_PATH, "%s", base + entry.path) < DOCTOR_PATH && doctor_is_library(path))
            return true;
    }
    return false;
}
