/* SPDX-License-Identifier: MIT */
/* What the file of one object tells: the libraries it needs, the names it imports, the ways around them. */
#include "cli/doctor.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* The numbers of io_uring are the same on all machines. */
enum {
    IO_URING_SETUP = 425,
    IO_URING_REGISTER = 427,
    NUMBERS = 600, /* more than there are system calls */
};

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void add_trait(struct doctor_object *object, enum doctor_trait trait)
{
    object->traits |= 1U << trait;
}

static bool has_trait(const struct doctor_object *object, enum doctor_trait trait)
{
    return object->traits & (1U << trait);
}

static int read_needed(struct doctor_object *object, const struct elf *elf)
{
    object->needed = calloc(elf->tag_count + 1, sizeof(*object->needed));
    if (!object->needed)
        return -ENOMEM;
    for (size_t i = 0; i < elf->tag_count; i++) {
        const char *name = elf->tags[i].d_tag == DT_NEEDED ? elf_string(elf, elf->tags[i].d_un.d_val) : NULL;
        char *needed = copy(name);
        if (!needed)
            continue;
        object->needed[object->needed_count++] = needed;
        if (strncmp(needed, "liburing.", 9) == 0 || strncmp(needed, "liburing-", 9) == 0)
            add_trait(object, DOCTOR_TRAIT_IO_URING);
    }
    return 0;
}

static int read_tags(struct doctor_object *object, const struct elf *elf)
{
    uint64_t flags;
    object->soname = copy(elf_tag_string(elf, DT_SONAME));
    object->rpath = copy(elf_tag_string(elf, DT_RPATH));
    object->runpath = copy(elf_tag_string(elf, DT_RUNPATH));
    object->no_default = elf_tag(elf, DT_FLAGS_1, &flags) && (flags & DF_1_NODEFLIB);
    return read_needed(object, elf);
}

static bool is_symbolic(const struct elf *elf)
{
    uint64_t flags = 0;
    return elf_tag(elf, DT_SYMBOLIC, &flags) || (elf_tag(elf, DT_FLAGS, &flags) && (flags & DF_SYMBOLIC));
}

static int append(char **list, const char *name)
{
    size_t len = *list ? strlen(*list) : 0, more = strlen(name);
    char *longer = realloc(*list, len + more + 2);
    if (!longer)
        return -ENOMEM;
    longer[len] = ' ';
    memcpy(longer + len + 1, name, more + 1);
    *list = longer;
    return 0;
}

static int add_import(struct doctor_object *object, const char *name)
{
    enum doctor_name kind = doctor_name(name);
    enum doctor_trait trait = doctor_trait(name);
    /* A wrapped name is no way around, but for those whose wrapper cannot see what comes of the call. */
    if (trait != DOCTOR_TRAITS && (!doctor_is_wrapped(name) || trait == DOCTOR_TRAIT_SYSCALL ||
                                   trait == DOCTOR_TRAIT_DLOPEN || trait == DOCTOR_TRAIT_DLMOPEN))
        add_trait(object, trait);
    return kind == DOCTOR_NAME_NONE ? 0 : append(&object->names[kind], name);
}

/* A definition of a wrapped name takes the place of ours where it comes first or is bound to directly. */
static void judge_definition(struct doctor_object *object, const char *name, bool is_program, bool symbolic)
{
    if ((is_program || symbolic) && doctor_name(name) == DOCTOR_NAME_LIMITED)
        add_trait(object, is_program ? DOCTOR_TRAIT_OWN_NAME : DOCTOR_TRAIT_SYMBOLIC);
}

static int read_symbols(struct doctor_object *object, const struct elf *elf, bool is_program)
{
    const bool symbolic = is_symbolic(elf);
    int error = 0;
    for (size_t i = 1; i < elf->symbol_count && !error; i++) {
        const char *name = elf_symbol(elf, i);
        if (elf->symbols[i].st_shndx == SHN_UNDEF)
            error = add_import(object, name);
        else if ((is_program || symbolic) && elf_symbol_is_defined(elf, i))
            judge_definition(object, name, is_program, symbolic);
    }
    return error;
}

static enum elf_constant is_deepbind(uint32_t flags)
{
    const uint32_t known = RTLD_LAZY | RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND | RTLD_GLOBAL | RTLD_NODELETE;
    if ((flags & ~known) || !(flags & (RTLD_LAZY | RTLD_NOW)))
        return ELF_CONSTANT_ABSURD;
    return flags & RTLD_DEEPBIND ? ELF_CONSTANT_WANTED : ELF_CONSTANT_OTHER;
}

static enum elf_constant is_io_uring(uint32_t number)
{
    if (number >= NUMBERS)
        return ELF_CONSTANT_ABSURD;
    return number >= IO_URING_SETUP && number <= IO_URING_REGISTER ? ELF_CONSTANT_WANTED : ELF_CONSTANT_OTHER;
}

static enum elf_constant is_write(uint32_t number)
{
    static const uint32_t numbers[] = {SYS_write,   SYS_writev,   SYS_sendto,   SYS_sendmsg,
                                       SYS_connect, SYS_sendmmsg, SYS_sendfile, SYS_splice};
    if (number >= NUMBERS)
        return ELF_CONSTANT_ABSURD;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i] == number)
            return ELF_CONSTANT_WANTED;
    return ELF_CONSTANT_OTHER;
}

/* libc and the dynamic linker make system calls because that is what they are for. */
static bool is_libc(const struct doctor_object *object)
{
    static const char *const names[] = {"libc.so.", "ld-linux", "ld64.so.", "libpthread.so.", "librt.so."};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(object->name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void read_code(struct doctor_object *object, const struct elf *elf)
{
    if (has_trait(object, DOCTOR_TRAIT_DLOPEN) && elf_scan_calls(elf, "dlopen", 1, is_deepbind))
        add_trait(object, DOCTOR_TRAIT_DEEPBIND);
    if (has_trait(object, DOCTOR_TRAIT_SYSCALL) && elf_scan_calls(elf, "syscall", 0, is_io_uring))
        add_trait(object, DOCTOR_TRAIT_IO_URING);
    if (has_trait(object, DOCTOR_TRAIT_SYSCALL) && !doctor_is_wrapped("syscall") &&
        elf_scan_calls(elf, "syscall", 0, is_write))
        add_trait(object, DOCTOR_TRAIT_RAW_WRITE);
    if (!is_libc(object) && elf_scan_system_calls(elf, is_io_uring))
        add_trait(object, DOCTOR_TRAIT_IO_URING);
    if (elf_is_go(elf))
        add_trait(object, DOCTOR_TRAIT_GO);
}

int doctor_examine(struct doctor_object *object, bool is_program)
{
    struct elf elf;
    int error = elf_open(&elf, object->path);
    if (error)
        return error;
    error = elf.native ? elf_read_dynamic(&elf) : -ENOEXEC;
    if (!error)
        error = read_tags(object, &elf);
    if (!error)
        error = read_symbols(object, &elf, is_program);
    if (!error)
        read_code(object, &elf);
    elf_close(&elf);
    return error;
}
