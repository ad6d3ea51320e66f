/* SPDX-License-Identifier: MIT */
/*
 * The marks that the Go linker leaves: a note of its build id, and sections that stripping keeps. Nothing
 * that is loaded depends on sections and notes, so broken ones only mean that there is no mark.
 */
#include "cli/elf.h"

#include <stdlib.h>
#include <string.h>

static bool is_go_section(const char *name)
{
    return strcmp(name, ".go.buildinfo") == 0 || strcmp(name, ".note.go.buildid") == 0 ||
           strcmp(name, ".gopclntab") == 0;
}

static bool has_go_section(const struct elf *elf)
{
    const ElfW(Ehdr) *header = &elf->header;
    ElfW(Shdr) * sections;
    char *names = NULL;
    bool found = false;
    if (header->e_shentsize != sizeof(*sections) || header->e_shstrndx >= header->e_shnum ||
        elf_piece(elf, header->e_shoff, (uint64_t)header->e_shnum * sizeof(*sections), &sections) != 0)
        return false;
    const ElfW(Shdr) *table = &sections[header->e_shstrndx];
    if (elf_piece(elf, table->sh_offset, table->sh_size, &names) == 0) {
        for (size_t i = 0; i < header->e_shnum && !found; i++)
            found = sections[i].sh_name < table->sh_size && is_go_section(names + sections[i].sh_name);
    }
    free(names);
    free(sections);
    return found;
}

/*
 * Whether one of the notes in these bytes is by "Go". Each is a head, a name and a description, all padded.
 */
static bool is_go_note(const char *notes, uint64_t len)
{
    ElfW(Nhdr) head;
    for (uint64_t at = 0; at <= len && len - at >= sizeof(head);) {
        memcpy(&head, notes + at, sizeof(head));
        at += sizeof(head);
        if (head.n_namesz == 4 && len - at >= 4 && memcmp(notes + at, "Go\0", 4) == 0)
            return true;
        at += (((uint64_t)head.n_namesz + 3) & ~UINT64_C(3)) + (((uint64_t)head.n_descsz + 3) & ~UINT64_C(3));
    }
    return false;
}

static bool has_go_note(const struct elf *elf)
{
    bool found = false;
    for (size_t i = 0; i < elf->segment_count && !found; i++) {
        const ElfW(Phdr) *segment = &elf->segments[i];
        char *notes;
        if (segment->p_type != PT_NOTE || elf_piece(elf, segment->p_offset, segment->p_filesz, &notes) != 0)
            continue;
        found = is_go_note(notes, segment->p_filesz);
        free(notes);
    }
    return found;
}

bool elf_is_go(const struct elf *elf)
{
    return has_go_note(elf) || has_go_section(elf);
}
