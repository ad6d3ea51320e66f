/* SPDX-License-Identifier: MIT */
/*
 * Reads ELF files that nobody vouches for: each offset, size and count in them is held against the file's
 * size before it is followed, and everything is copied out by pread, so that a file that shrinks meanwhile is
 * an error and not a signal.
 *
 * Functions return 0 or a negative errno: -ENOEXEC, this is no ELF program or library; -EBADMSG, it is a
 * broken one; else what the system said.
 */
#ifndef TUNDISH_CLI_ELF_H
#define TUNDISH_CLI_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place that the dynamic linker fills with the address of a symbol. */
struct elf_relocation {
    ElfW(Addr) address;
    size_t symbol;
};

struct elf {
    int file;
    uint64_t size;
    ElfW(Ehdr) header;
    unsigned bits; /* 32 or 64 */
    bool native;   /* of our class, byte order and machine; if not, the rest is empty */

    ElfW(Phdr) * segments;
    size_t segment_count;
    char *interpreter; /* the dynamic linker it names, or NULL */

    /* By elf_read_dynamic. */
    ElfW(Dyn) * tags;
    size_t tag_count;
    char *strings;
    size_t strings_len;
    ElfW(Sym) * symbols;
    size_t symbol_count;
    struct elf_relocation *relocations; /* those that name a symbol */
    size_t relocation_count;
};

/* elf.c */

/* Reads the header, the segments and the interpreter. elf_close is to be called only after success. */
int elf_open(struct elf *elf, const char *path);
void elf_close(struct elf *elf);

/* "is a broken ELF file", for an error of the functions here. */
const char *elf_explain(int error);

/* *out (any pointer): a malloc'ed copy of a piece of the file, with a NUL behind it. */
int elf_piece(const struct elf *elf, uint64_t offset, uint64_t len, void *out);

/* Where in the file the bytes of an address are, and how many follow it in the same segment. */
int elf_locate(const struct elf *elf, uint64_t address, uint64_t *offset, uint64_t *available);

/* elf_dynamic.c */

/* Reads the dynamic section, its strings, symbols and relocations. A file without one has none. */
int elf_read_dynamic(struct elf *elf);

/* The first entry of this tag. */
bool elf_tag(const struct elf *elf, ElfW(Sxword) tag, uint64_t *value);

/* A string of the dynamic section; NULL if it is out of bounds. */
const char *elf_string(const struct elf *elf, uint64_t offset);

/* The name that the first entry of this tag means, or NULL. */
const char *elf_tag_string(const struct elf *elf, ElfW(Sxword) tag);

/* The name of a symbol; "" if it has none. */
const char *elf_symbol(const struct elf *elf, size_t index);

/* Whether others may use the definition that it has here; if not, and it has a name, it is an import. */
bool elf_symbol_is_defined(const struct elf *elf, size_t index);

/* elf_mark.c */

/* Whether the Go linker made it. Looks at notes and sections; what is broken there does not count. */
bool elf_is_go(const struct elf *elf);

/* elf_scan.c: what machine code tells. Only x86-64 is read: of other code nothing is found. */

/* Whether the constant is a believable argument, and if so whether it is one that is looked for. */
enum elf_constant {
    ELF_CONSTANT_ABSURD,
    ELF_CONSTANT_OTHER,
    ELF_CONSTANT_WANTED,
};
typedef enum elf_constant elf_constant_test(uint32_t constant);

/* Whether an imported function is called with a constant that is wanted as its argument (0 or 1). */
bool elf_scan_calls(const struct elf *elf, const char *function, unsigned argument, elf_constant_test *test);

/* Whether a system call is made without libc whose number is wanted. */
bool elf_scan_system_calls(const struct elf *elf, elf_constant_test *test);

#endif
