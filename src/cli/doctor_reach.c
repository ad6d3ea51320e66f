/* SPDX-License-Identifier: MIT */
/* What keeps a preloaded library out of a program altogether, or makes it useless there. */
#include "cli/doctor.h"

#include <elf.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Whether the kernel will heed what the file says about privileges. */
static bool is_heeded(const char *path)
{
    struct statvfs status;
    return statvfs(path, &status) != 0 || !(status.f_flag & ST_NOSUID);
}

/* Capabilities make a program privileged for all but root, who has them anyway. */
static bool gains_capabilities(const char *path)
{
    union {
        struct vfs_ns_cap_data data;
        char bytes[sizeof(struct vfs_ns_cap_data)];
    } found;
    if (getuid() == 0)
        return false;
    ssize_t len = getxattr(path, "security.capability", found.bytes, sizeof(found));
    return len >= (ssize_t)XATTR_CAPS_SZ_1 && found.data.data[0].permitted;
}

const char *doctor_privilege(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0 || !is_heeded(path))
        return NULL;
    if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
        return "is set-user-ID";
    if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getgid())
        return "is set-group-ID";
    return gains_capabilities(path) ? "has file capabilities" : NULL;
}

const char *doctor_format(const struct elf *elf)
{
    const unsigned own_bits = sizeof(void *) * 8;
    if (elf->bits != own_bits)
        return elf->bits == 32 ? "is a 32-bit program" : "is a 64-bit program";
    if (!elf->native)
        return "is a program for another kind of machine";
    return elf->interpreter ? NULL : "is statically linked";
}

/*
 * Whether the name is one that glibc's dynamic linker has on some machine: ld-linux-x86-64.so.2, ld64.so.2.
 */
static bool is_of_glibc(const char *base)
{
    return strncmp(base, "ld-linux", 8) == 0 || strncmp(base, "ld64.so.", 8) == 0 ||
           strncmp(base, "ld.so.", 6) == 0;
}

static void judge_interpreter(struct doctor *doctor, const char *interpreter, bool here)
{
    const char *base = doctor_base(interpreter);
    if (strncmp(base, "ld-musl", 7) == 0)
        doctor_obstacle(doctor, "is made for musl (%s), the preload library for glibc", interpreter);
    else if (!is_of_glibc(base))
        doctor_obstacle(doctor, "its dynamic linker is not glibc's: %s", interpreter);
    else if (here && access(interpreter, X_OK) != 0)
        doctor_obstacle(doctor, "its dynamic linker is missing: %s", interpreter);
}

bool doctor_reach(struct doctor *doctor, const struct elf *elf, const char *path)
{
    const char *privilege = path ? doctor_privilege(path) : NULL;
    const char *format = doctor_format(elf);
    if (privilege)
        doctor_obstacle(doctor, "%s: it ignores what is preloaded", privilege);
    if (elf->native && elf_is_go(elf))
        doctor_obstacle(doctor, "is a Go program: it makes system calls without libc");
    if (format)
        doctor_obstacle(doctor, "%s", format);
    else
        judge_interpreter(doctor, elf->interpreter, path != NULL);
    return doctor->status != DOCTOR_NOT_AT_ALL;
}
