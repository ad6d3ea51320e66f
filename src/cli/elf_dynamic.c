/* SPDX-License-Identifier: MIT */
/*
 * What the dynamic linker reads of an ELF file. Nothing in there says outright how many symbols there are:
 * the hash tables tell it of those that are exported, the relocations of those that are needed.
 */
#include "cli/elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As ELF_R_SYM of our class. */
static size_t symbol_of(uint64_t info)
{
    return sizeof(void *) == 8 ? (size_t)(info >> 32) : (size_t)(info >> 8);
}

bool elf_tag(const struct elf *elf, ElfW(Sxword) tag, uint64_t *value)
{
    for (size_t i = 0; i < elf->tag_count; i++) {
        if (elf->tags[i].d_tag == tag) {
            *value = elf->tags[i].d_un.d_val;
            return true;
        }
    }
    return false;
}

const char *elf_string(const struct elf *elf, uint64_t offset)
{
    return offset < elf->strings_len ? elf->strings + offset : NULL;
}

const char *elf_tag_string(const struct elf *elf, ElfW(Sxword) tag)
{
    uint64_t offset;
    return elf_tag(elf, tag, &offset) ? elf_string(elf, offset) : NULL;
}

const char *elf_symbol(const struct elf *elf, size_t index)
{
    const char *name = index < elf->symbol_count ? elf_string(elf, elf->symbols[index].st_name) : NULL;
    return name ? name : "";
}

bool elf_symbol_is_defined(const struct elf *elf, size_t index)
{
    const ElfW(Sym) *symbol = &elf->symbols[index];
    unsigned binding = symbol->st_info >> 4, visibility = symbol->st_other & 3;
    return symbol->st_shndx != SHN_UNDEF && (binding == STB_GLOBAL || binding == STB_WEAK) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

/* A piece of this many bytes at an address. */
static int piece_at(const struct elf *elf, uint64_t address, uint64_t len, void *out)
{
    uint64_t offset, available;
    int error = elf_locate(elf, address, &offset, &available);
    if (error)
        return error;
    return len <= available ? elf_piece(elf, offset, len, out) : -EBADMSG;
}

static int read_tags(struct elf *elf)
{
    for (size_t i = 0; i < elf->segment_count; i++) {
        const ElfW(Phdr) *segment = &elf->segments[i];
        if (segment->p_type != PT_DYNAMIC)
            continue;
        int error = elf_piece(elf, segment->p_offset, segment->p_filesz, &elf->tags);
        if (error)
            return error;
        size_t room = (size_t)segment->p_filesz / sizeof(ElfW(Dyn));
        while (elf->tag_count < room && elf->tags[elf->tag_count].d_tag != DT_NULL)
            elf->tag_count++;
        return 0;
    }
    return 0;
}

static int read_strings(struct elf *elf)
{
    uint64_t address, len;
    if (!elf_tag(elf, DT_STRTAB, &address) || !elf_tag(elf, DT_STRSZ, &len))
        return 0;
    int error = piece_at(elf, address, len, &elf->strings);
    if (!error)
        elf->strings_len = (size_t)len;
    return error;
}

/* Appends the relocations of one table that name a symbol. Its entries start alike with or without addend. */
static int add_relocations(struct elf *elf, uint64_t address, uint64_t len, size_t entry)
{
    char *table;
    size_t count = (size_t)len / entry;
    int error = piece_at(elf, address, len, &table);
    if (error)
        return error;
    struct elf_relocation *more =
        realloc(elf->relocations, (elf->relocation_count + count + 1) * sizeof(*more));
    if (more)
        elf->relocations = more;
    else
        error = -ENOMEM;
    for (size_t i = 0; !error && i < count; i++) {
        ElfW(Rel) relocation;
        memcpy(&relocation, table + i * entry, sizeof(relocation));
        size_t symbol = symbol_of(relocation.r_info);
        if (symbol)
            more[elf->relocation_count++] = (struct elf_relocation){relocation.r_offset, symbol};
    }
    free(table);
    return error;
}

static int read_relocations(struct elf *elf)
{
    uint64_t address, len, kind;
    int error = 0;
    if (elf_tag(elf, DT_RELA, &address) && elf_tag(elf, DT_RELASZ, &len))
        error = add_relocations(elf, address, len, sizeof(ElfW(Rela)));
    if (!error && elf_tag(elf, DT_REL, &address) && elf_tag(elf, DT_RELSZ, &len))
        error = add_relocations(elf, address, len, sizeof(ElfW(Rel)));
    if (!error && elf_tag(elf, DT_JMPREL, &address) && elf_tag(elf, DT_PLTRELSZ, &len) &&
        elf_tag(elf, DT_PLTREL, &kind))
        error = add_relocations(elf, address, len, kind == DT_RELA ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel)));
    return error;
}

/* DT_HASH has a chain entry for each symbol. */
static int count_hashed(const struct elf *elf, uint64_t address, uint64_t *count)
{
    uint32_t *head;
    int error = piece_at(elf, address, 2 * sizeof(*head), &head);
    if (error)
        return error;
    *count = head[1];
    free(head);
    return 0;
}

/* The end of the chain that holds the last symbol of a DT_GNU_HASH. */
static int find_chain_end(const struct elf *elf, uint64_t chains, uint32_t first, uint32_t *last)
{
    uint32_t *chain;
    uint64_t offset, available, index = *last - first;
    int error = elf_locate(elf, chains + index * sizeof(*chain), &offset, &available);
    if (!error)
        error = elf_piece(elf, offset, available, &chain);
    if (error)
        return error;
    size_t at = 0, room = (size_t)available / sizeof(*chain);
    while (at < room && !(chain[at] & 1))
        at++;
    free(chain);
    *last += (uint32_t)at;
    return at < room ? 0 : -EBADMSG;
}

/* DT_GNU_HASH knows where the chains of its buckets start, and a bit marks the end of each. */
static int count_gnu_hashed(const struct elf *elf, uint64_t address, uint64_t *count)
{
    uint32_t *head, *buckets, last = 0;
    int error = piece_at(elf, address, 4 * sizeof(*head), &head);
    if (error)
        return error;
    uint32_t bucket_count = head[0], first = head[1], bloom_count = head[2];
    free(head);
    uint64_t at = address + 4 * sizeof(*head) + (uint64_t)bloom_count * sizeof(ElfW(Addr));
    uint64_t size = (uint64_t)bucket_count * sizeof(*buckets);
    error = piece_at(elf, at, size, &buckets);
    if (error)
        return error;
    for (uint32_t i = 0; i < bucket_count; i++)
        if (buckets[i] > last)
            last = buckets[i];
    free(buckets);
    if (last < first || last == 0)
        return 0; /* exports nothing */
    error = find_chain_end(elf, at + size, first, &last);
    if (!error)
        *count = (uint64_t)last + 1;
    return error;
}

static int count_symbols(const struct elf *elf, uint64_t *count)
{
    uint64_t address;
    int error = 0;
    *count = 0;
    if (elf_tag(elf, DT_HASH, &address))
        error = count_hashed(elf, address, count);
    else if (elf_tag(elf, DT_GNU_HASH, &address))
        error = count_gnu_hashed(elf, address, count);
    for (size_t i = 0; i < elf->relocation_count; i++)
        if (elf->relocations[i].symbol >= *count)
            *count = (uint64_t)elf->relocations[i].symbol + 1;
    return error;
}

static int read_symbols(struct elf *elf)
{
    uint64_t address, count;
    if (!elf_tag(elf, DT_SYMTAB, &address))
        return 0;
    int error = count_symbols(elf, &count);
    if (error || count == 0)
        return error;
    error = piece_at(elf, address, count * sizeof(ElfW(Sym)), &elf->symbols);
    if (!error)
        elf->symbol_count = (size_t)count;
    return error;
}

int elf_read_dynamic(struct elf *elf)
{
    int error = read_tags(elf);
    if (!error)
        error = read_strings(elf);
    if (!error)
        error = read_relocations(elf);
    if (!error)
        error = read_symbols(elf);
    return error;
}
