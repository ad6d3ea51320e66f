/* SPDX-License-Identifier: MIT */
/*
 * Reads the tables that ld.so reads, where it has mapped them. They are trusted as ld.so trusts them.
 */
#include "object.h"

#include <elf.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "text.h"

struct symbols {
    const ElfW(Sym) * symbol;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *hash; /* the older table */
    const ElfW(Half) * version;
};

struct tdi_object tdi_object_of(const struct dl_phdr_info *info)
{
    struct tdi_object object = {.base = info->dlpi_addr, .range = {UINTPTR_MAX, 0}, .path = info->dlpi_name};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + header->p_vaddr, to = from + header->p_memsz;
        if (header->p_type == PT_DYNAMIC)
            object.dynamic = (const ElfW(Dyn) *)from;
        if (header->p_type != PT_LOAD)
            continue;
        object.range.from = from < object.range.from ? from : object.range.from;
        object.range.to = to > object.range.to ? to : object.range.to;
    }
    return object;
}

/* glibc has already made addresses of these, other libraries leave them as they are in the file. */
static const void *address_in(const struct tdi_object *object, ElfW(Addr) value)
{
    return (const void *)(value < object->base ? object->base + value : value);
}

static struct symbols symbols_of(const struct tdi_object *object)
{
    struct symbols symbols = {.symbol = NULL};
    for (const ElfW(Dyn) *d = object->dynamic; d != NULL && d->d_tag != DT_NULL; d++) {
        const void *address = address_in(object, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            symbols.symbol = address;
        else if (d->d_tag == DT_STRTAB)
            symbols.strings = address;
        else if (d->d_tag == DT_GNU_HASH)
            symbols.gnu_hash = address;
        else if (d->d_tag == DT_HASH)
            symbols.hash = address;
        else if (d->d_tag == DT_VERSYM)
            symbols.version = address;
    }
    return symbols;
}

static bool defines(const struct symbols *symbols, uint32_t i, const char *name)
{
    const ElfW(Sym) *symbol = &symbols->symbol[i];
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
           (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE) &&
           tdi_text_same(symbols->strings + symbol->st_name, name);
}

/* Not the default version of its name: kept for programs that were linked long ago. */
static bool is_old(const struct symbols *symbols, uint32_t i)
{
    return symbols->version != NULL && (symbols->version[i] & 0x8000) != 0;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static uint32_t sysv_hash(const char *name)
{
    uint32_t hash = 0;
    for (; *name != '\0'; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash ^= (hash & 0xf0000000) >> 24;
        hash &= 0x0fffffff;
    }
    return hash;
}

/* The better of two places of a name, 0 being none. */
static uint32_t better(const struct symbols *symbols, uint32_t one, uint32_t other)
{
    return one == 0 || is_old(symbols, one) ? other : one;
}

static uint32_t look_up_gnu(const struct symbols *symbols, const char *name)
{
    const uint32_t *head = symbols->gnu_hash;
    const uint32_t buckets = head[0], first = head[1], words = head[2];
    const uint32_t *bucket = head + 4 + words * (sizeof(ElfW(Addr)) / sizeof *head);
    const uint32_t *chain = bucket + buckets;
    const uint32_t hash = gnu_hash(name);
    uint32_t found = 0, i = buckets > 0 ? bucket[hash % buckets] : 0;
    if (i < first)
        return 0;
    for (bool last = false; !last; i++) {
        uint32_t there = chain[i - first];
        last = (there & 1) != 0;
        if ((there | 1) == (hash | 1) && defines(symbols, i, name))
            found = better(symbols, found, i);
    }
    return found;
}

static uint32_t look_up_sysv(const struct symbols *symbols, const char *name)
{
    const uint32_t buckets = symbols->hash[0];
    const uint32_t *bucket = symbols->hash + 2, *chain = bucket + buckets;
    uint32_t found = 0;
    for (uint32_t i = buckets > 0 ? bucket[sysv_hash(name) % buckets] : 0; i != 0; i = chain[i])
        if (defines(symbols, i, name))
            found = better(symbols, found, i);
    return found;
}

/* What an indirect function resolves to on this processor. */
static tdi_function *resolve(uintptr_t resolver)
{
#if defined(__aarch64__)
    const struct {
        unsigned long size, hwcap, hwcap2;
    } argument = {sizeof argument, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    return ((tdi_function * (*)(uint64_t, const void *)) resolver)(argument.hwcap | UINT64_C(1) << 62,
                                                                   &argument);
#else
    return ((tdi_function * (*)(void)) resolver)();
#endif
}

bool tdi_object_look_up(const struct tdi_object *object, const char *name, struct tdi_found *found)
{
    struct symbols symbols = symbols_of(object);
    uint32_t i = 0;
    if (symbols.symbol == NULL || symbols.strings == NULL)
        return false;
    if (symbols.gnu_hash != NULL)
        i = look_up_gnu(&symbols, name);
    else if (symbols.hash != NULL)
        i = look_up_sysv(&symbols, name);
    if (i == 0)
        return false;
    uintptr_t address = object->base + symbols.symbol[i].st_value;
    found->function = ELF64_ST_TYPE(symbols.symbol[i].st_info) == STT_GNU_IFUNC ? resolve(address)
                                                                                : (tdi_function *)address;
    found->home = object->range;
    return true;
}

bool tdi_object_is_named(const struct tdi_object *object, const char *name)
{
    ElfW(Addr) strings = 0, soname = 0;
    for (const ElfW(Dyn) *d = object->dynamic; d != NULL && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB)
            strings = d->d_un.d_ptr;
        if (d->d_tag == DT_SONAME)
            soname = d->d_un.d_val;
    }
    if (strings != 0 && soname != 0 &&
        tdi_text_same((const char *)address_in(object, strings) + soname, name))
        return true;
    return tdi_text_same(object->path, name) || tdi_text_same(tdi_text_last_part(object->path), name);
}

const char *tdi_object_needs(const struct tdi_object *object, const ElfW(Dyn) * *at)
{
    const char *strings = symbols_of(object).strings;
    const ElfW(Dyn) *d = *at == NULL ? object->dynamic : *at + 1;
    for (; strings != NULL && d != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED) {
            *at = d;
            return strings + d->d_un.d_val;
        }
    return NULL;
}
