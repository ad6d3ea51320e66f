/* SPDX-License-Identifier: MIT */
/*
 * Writes the hook library: an ELF shared object of four segments. The first, read only, is what the dynamic
 * linker looks names up in; the second is the code; the third is written by the dynamic linker and read only
 * afterwards; the fourth is the table that the preloaded library fills. In the file they follow each other
 * without a gap: each lies a page further in memory than in the file, so that no page has two protections.
 *
 * First it is reckoned where each piece goes, then the pieces are written. There are no sections: nothing that
 * loads or debugs a library needs them. Both machines have the low byte first, as has whoever writes for them.
 */
#include "cli/stub.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stub_code.h"

static const char library_name[] = "libtundish-hooks.so";

enum {
    SYMBOL_ENTER = 1, /* after the empty symbol; those that are defined follow */
    SYMBOL_DEFINED,
    SOME_SECTION = 1, /* "is defined here": that there is no such section does not matter */
    BLOOM_SHIFT = 26,
};

/* What the file is made of, in its order. */
enum piece {
    HEADER,
    SEGMENTS,
    NOTE,
    GNU_HASH,
    HASH,
    SYMBOLS,
    STRINGS,
    RELOCATIONS,
    CODE,
    TAGS,
    ENTER,
    TABLE,
    END,
};

static const struct {
    enum piece first, end;
    uint32_t flags;
} loads[] = {
    {HEADER, CODE, PF_R},
    {CODE, TAGS, PF_R | PF_X},
    {TAGS, TABLE, PF_R | PF_W},
    {TABLE, END, PF_R | PF_W},
};

enum {
    LOADS = sizeof(loads) / sizeof(loads[0]),
    LOAD_SETTLED = 2, /* nobody writes to it after the dynamic linker */
    OTHER_SEGMENTS = 5,
    TAG_COUNT = 14,
};

/* struct tdi_stub_entry, as those machines have it. */
struct entry {
    Elf64_Addr hook, name;
};

/* The GNU property note. */
struct note {
    Elf64_Nhdr header;
    char owner[4];
    uint32_t property, len, bits, padding;
};

/* A defined symbol. */
struct symbol {
    const char *name;
    uint32_t hash;   /* of DT_GNU_HASH */
    uint32_t string; /* where in the strings its name is */
    uint32_t bucket;
    size_t entry; /* which of the table it goes to; the table itself has the number behind them */
};

struct image {
    const struct stub_code *code;
    const char **names; /* sorted, each once */
    size_t count;
    struct symbol *symbols; /* of the names, and of the table */
    size_t defined;
    uint32_t buckets, bloom_words;
    size_t offset[END + 1]; /* of the pieces */
    unsigned char *bytes;
};

/* Names. */

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int take_names(struct image *image, const char *const *names, size_t count)
{
    static const char *const also[] = TDI_STUB_ALSO;
    const size_t more = sizeof(also) / sizeof(also[0]);
    image->names = calloc(count + more, sizeof(*image->names));
    if (!image->names)
        return -ENOMEM;
    memcpy(image->names, also, sizeof(also));
    if (count > 0)
        memcpy(image->names + more, names, count * sizeof(*names));
    qsort(image->names, count + more, sizeof(*image->names), compare_names);
    for (size_t i = 0; i < count + more; i++)
        if (i == 0 || strcmp(image->names[i], image->names[image->count - 1]) != 0)
            image->names[image->count++] = image->names[i];
    return 0;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static uint32_t old_hash(const char *name)
{
    uint32_t hash = 0;
    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    return hash;
}

/* DT_GNU_HASH wants the symbols of a bucket side by side. */
static int compare_symbols(const void *left, const void *right)
{
    const struct symbol *a = left, *b = right;
    if (a->bucket != b->bucket)
        return a->bucket < b->bucket ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static int take_symbols(struct image *image)
{
    size_t string = 1 + sizeof(library_name) + sizeof(TDI_STUB_ENTER);
    image->defined = image->count + 1;
    image->buckets = (uint32_t)(image->defined / 2 + 1);
    for (image->bloom_words = 1; image->bloom_words * 4 < image->defined;) /* 16 bits a symbol */
        image->bloom_words *= 2;
    image->symbols = calloc(image->defined, sizeof(*image->symbols));
    if (!image->symbols)
        return -ENOMEM;
    for (size_t i = 0; i < image->defined; i++) {
        const char *name = i < image->count ? image->names[i] : TDI_STUB_TABLE;
        uint32_t hash = gnu_hash(name);
        image->symbols[i] = (struct symbol){name, hash, (uint32_t)string, hash % image->buckets, i};
        string += strlen(name) + 1;
    }
    return 0;
}

/* Places. */

static size_t strings_size(const struct image *image)
{
    const struct symbol *last = &image->symbols[image->defined - 1];
    return last->string + strlen(last->name) + 1;
}

/* Each piece starts at a multiple of eight. The symbols are still in the order of their strings. */
static void place(struct image *image)
{
    const size_t symbols = SYMBOL_DEFINED + image->defined;
    const size_t sizes[END] = {
        [HEADER] = sizeof(Elf64_Ehdr),
        [SEGMENTS] = (LOADS + OTHER_SEGMENTS) * sizeof(Elf64_Phdr),
        [NOTE] = sizeof(struct note),
        [GNU_HASH] = 4 * sizeof(uint32_t) + image->bloom_words * sizeof(uint64_t) +
                     (image->buckets + image->defined) * sizeof(uint32_t),
        [HASH] = (2 + image->buckets + symbols) * sizeof(uint32_t),
        [SYMBOLS] = symbols * sizeof(Elf64_Sym),
        [STRINGS] = strings_size(image),
        [RELOCATIONS] = (image->count + 1) * sizeof(Elf64_Rela),
        [CODE] = image->count * STUB_CODE_SIZE,
        [TAGS] = TAG_COUNT * sizeof(Elf64_Dyn),
        [ENTER] = sizeof(uint64_t),
        [TABLE] = (image->count + 1) * sizeof(struct entry),
    };
    for (enum piece piece = HEADER; piece < END; piece++) {
        size_t at = image->offset[piece];
        if (piece == CODE)
            at = image->offset[CODE] = (at + STUB_CODE_SIZE - 1) / STUB_CODE_SIZE * STUB_CODE_SIZE;
        image->offset[piece + 1] = (at + sizes[piece] + 7) / 8 * 8;
    }
}

static void *piece_at(const struct image *image, enum piece piece)
{
    return image->bytes + image->offset[piece];
}

static uint64_t size_of(const struct image *image, enum piece piece)
{
    return image->offset[piece + 1] - image->offset[piece];
}

/* In memory, from where the library is loaded. */
static uint64_t address(const struct image *image, enum piece piece)
{
    uint64_t load = 0;
    while (piece >= loads[load].end)
        load++;
    return image->offset[piece] + load * image->code->page;
}

static uint64_t entry_address(const struct image *image, size_t entry)
{
    return address(image, TABLE) + entry * sizeof(struct entry);
}

static uint64_t function_address(const struct image *image, size_t entry)
{
    return address(image, CODE) + entry * STUB_CODE_SIZE;
}

/* Pieces. */

static void write_header(struct image *image)
{
    *(Elf64_Ehdr *)piece_at(image, HEADER) = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE},
        .e_type = ET_DYN,
        .e_machine = image->code->machine,
        .e_version = EV_CURRENT,
        .e_phoff = image->offset[SEGMENTS],
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = LOADS + OTHER_SEGMENTS,
    };
}

static Elf64_Phdr segment(const struct image *image, uint32_t type, enum piece first, enum piece end,
                          uint32_t flags)
{
    const uint64_t place = address(image, first), size = image->offset[end] - image->offset[first];
    return (Elf64_Phdr){
        .p_type = type,
        .p_flags = flags,
        .p_offset = image->offset[first],
        .p_vaddr = place,
        .p_paddr = place,
        .p_filesz = size,
        .p_memsz = size,
        .p_align = type == PT_LOAD ? image->code->page : 8,
    };
}

static void write_segments(struct image *image)
{
    Elf64_Phdr *segments = piece_at(image, SEGMENTS), *next = segments;
    for (size_t i = 0; i < LOADS; i++)
        *next++ = segment(image, PT_LOAD, loads[i].first, loads[i].end, loads[i].flags);
    /* Only whole pages can be protected: what is settled has its last one to itself. */
    Elf64_Phdr *settled = &segments[LOAD_SETTLED];
    settled->p_memsz = image->code->page - settled->p_vaddr % image->code->page;
    if (settled->p_memsz < settled->p_filesz)
        settled->p_memsz += image->code->page;
    *next = *settled;
    next->p_type = PT_GNU_RELRO;
    next->p_flags = PF_R;
    next++->p_align = 1;
    *next++ = segment(image, PT_DYNAMIC, TAGS, ENTER, PF_R | PF_W);
    *next++ = segment(image, PT_NOTE, NOTE, GNU_HASH, PF_R);
    *next++ = segment(image, PT_GNU_PROPERTY, NOTE, GNU_HASH, PF_R);
    *next = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
}

static void write_note(struct image *image)
{
    *(struct note *)piece_at(image, NOTE) = (struct note){
        .header = {4, 4 * sizeof(uint32_t), NT_GNU_PROPERTY_TYPE_0},
        .owner = "GNU",
        .property = image->code->property,
        .len = sizeof(uint32_t),
        .bits = image->code->property_bits,
    };
}

/* Of each name two bits are set in one word of the filter; a chain's hashes end with one whose bit 0 is set. */
static void write_gnu_hash(struct image *image)
{
    uint32_t *head = piece_at(image, GNU_HASH);
    head[0] = image->buckets;
    head[1] = SYMBOL_DEFINED;
    head[2] = image->bloom_words;
    head[3] = BLOOM_SHIFT;
    uint64_t *bloom = (uint64_t *)(head + 4);
    uint32_t *buckets = (uint32_t *)(bloom + image->bloom_words), *chain = buckets + image->buckets;
    for (size_t i = 0; i < image->defined; i++) {
        const struct symbol *symbol = &image->symbols[i];
        const bool last = i + 1 == image->defined || symbol[1].bucket != symbol->bucket;
        bloom[symbol->hash / 64 % image->bloom_words] |=
            UINT64_C(1) << symbol->hash % 64 | UINT64_C(1) << (symbol->hash >> BLOOM_SHIFT) % 64;
        if (buckets[symbol->bucket] == 0)
            buckets[symbol->bucket] = (uint32_t)(SYMBOL_DEFINED + i);
        chain[i] = (symbol->hash & ~1u) | last;
    }
}

static void write_hash(struct image *image)
{
    uint32_t *head = piece_at(image, HASH), *buckets = head + 2, *chain = buckets + image->buckets;
    head[0] = image->buckets;
    head[1] = (uint32_t)(SYMBOL_DEFINED + image->defined);
    for (size_t i = 0; i < image->defined; i++) {
        uint32_t *bucket = &buckets[old_hash(image->symbols[i].name) % image->buckets];
        chain[SYMBOL_DEFINED + i] = *bucket;
        *bucket = (uint32_t)(SYMBOL_DEFINED + i);
    }
}

static void write_symbols(struct image *image)
{
    Elf64_Sym *symbols = piece_at(image, SYMBOLS);
    symbols[SYMBOL_ENTER].st_name = (uint32_t)(1 + sizeof(library_name));
    symbols[SYMBOL_ENTER].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    for (size_t i = 0; i < image->defined; i++) {
        const struct symbol *symbol = &image->symbols[i];
        const bool function = symbol->entry < image->count;
        symbols[SYMBOL_DEFINED + i] = (Elf64_Sym){
            .st_name = symbol->string,
            .st_info = ELF64_ST_INFO(STB_GLOBAL, function ? STT_FUNC : STT_OBJECT),
            .st_other = STV_DEFAULT,
            .st_shndx = SOME_SECTION,
            .st_value = function ? function_address(image, symbol->entry) : address(image, TABLE),
            .st_size = function ? STUB_CODE_SIZE : (image->count + 1) * sizeof(struct entry),
        };
    }
}

static void write_strings(struct image *image)
{
    char *strings = piece_at(image, STRINGS);
    memcpy(strings + 1, library_name, sizeof(library_name));
    memcpy(strings + 1 + sizeof(library_name), TDI_STUB_ENTER, sizeof(TDI_STUB_ENTER));
    for (size_t i = 0; i < image->defined; i++)
        strcpy(strings + image->symbols[i].string, image->symbols[i].name);
}

/* The relative ones first, as DT_RELACOUNT says. The symbols are in any order. */
static void write_relocations(struct image *image)
{
    Elf64_Rela *relocations = piece_at(image, RELOCATIONS);
    for (size_t i = 0; i < image->defined; i++) {
        const struct symbol *symbol = &image->symbols[i];
        relocations[symbol->entry] = (Elf64_Rela){
            .r_offset = entry_address(image, symbol->entry) + offsetof(struct entry, name),
            .r_info = ELF64_R_INFO((uint64_t)0, image->code->relative),
            .r_addend = (int64_t)(address(image, STRINGS) + symbol->string),
        };
    }
    relocations[image->count] = (Elf64_Rela){
        /* in the place of the table, which needs none */
        .r_offset = address(image, ENTER),
        .r_info = ELF64_R_INFO((uint64_t)SYMBOL_ENTER, image->code->symbol),
    };
}

static void write_code(struct image *image)
{
    unsigned char *code = piece_at(image, CODE);
    for (size_t i = 0; i < image->count; i++)
        image->code->write(code + i * STUB_CODE_SIZE, function_address(image, i), entry_address(image, i),
                           address(image, ENTER));
}

static void write_tags(struct image *image)
{
    const struct {
        int64_t tag;
        uint64_t value;
    } tags[TAG_COUNT] = {
        {DT_SONAME, 1},
        {DT_HASH, address(image, HASH)},
        {DT_GNU_HASH, address(image, GNU_HASH)},
        {DT_STRTAB, address(image, STRINGS)},
        {DT_SYMTAB, address(image, SYMBOLS)},
        {DT_STRSZ, size_of(image, STRINGS)},
        {DT_SYMENT, sizeof(Elf64_Sym)},
        {DT_RELA, address(image, RELOCATIONS)},
        {DT_RELASZ, (image->count + 1) * sizeof(Elf64_Rela)},
        {DT_RELAENT, sizeof(Elf64_Rela)},
        {DT_RELACOUNT, image->count},
        {DT_FLAGS, DF_BIND_NOW},
        {DT_FLAGS_1, DF_1_NOW},
        {DT_NULL, 0},
    };
    Elf64_Dyn *out = piece_at(image, TAGS);
    for (size_t i = 0; i < TAG_COUNT; i++)
        out[i] = (Elf64_Dyn){tags[i].tag, {tags[i].value}};
}

static int build(struct image *image, const char *const *names, size_t count)
{
    int error = take_names(image, names, count);
    if (!error)
        error = take_symbols(image);
    if (error)
        return error;
    place(image);
    qsort(image->symbols, image->defined, sizeof(*image->symbols), compare_symbols);
    image->bytes = calloc(1, image->offset[END]);
    if (!image->bytes)
        return -ENOMEM;
    write_header(image);
    write_segments(image);
    write_note(image);
    write_gnu_hash(image);
    write_hash(image);
    write_symbols(image);
    write_strings(image);
    write_relocations(image);
    write_code(image);
    write_tags(image);
    return 0;
}

unsigned char *stub_make(enum stub_machine machine, const char *const *names, size_t count, size_t *size)
{
    struct image image = {.code = stub_code_get(machine)};
    int error = image.code ? build(&image, names, count) : -ENOTSUP;
    free(image.symbols);
    free(image.names);
    *size = image.offset[END];
    if (error)
        errno = -error;
    return image.bytes;
}
