/* SPDX-License-Identifier: MIT */
/* ELF files from the outside: the header, the segments, and pieces of the file within its bounds. */
#include "cli/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_MAX = 1 << 29, /* no believable program has larger segments, and a sparse file has any size */
};

/* Our own header, which the linker names: what is native is what we are. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

const char *elf_explain(int error)
{
    if (error == -ENOEXEC)
        return "is no ELF program";
    if (error == -EBADMSG)
        return "is a broken ELF file";
    return strerror(-error);
}

static int read_exactly(int file, void *buf, size_t len, uint64_t offset)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(file, (char *)buf + done, len - done, (off_t)(offset + done));
        if (got == 0)
            return -EBADMSG;
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got > 0)
            done += (size_t)got;
    }
    return 0;
}

int elf_piece(const struct elf *elf, uint64_t offset, uint64_t len, void *out)
{
    if (offset > elf->size || len > elf->size - offset)
        return -EBADMSG;
    if (len > PIECE_MAX)
        return -EFBIG;
    char *piece = malloc((size_t)len + 1);
    if (!piece)
        return -ENOMEM;
    piece[len] = '\0';
    int error = read_exactly(elf->file, piece, (size_t)len, offset);
    if (error)
        free(piece);
    else
        memcpy(out, &piece, sizeof(piece));
    return error;
}

int elf_locate(const struct elf *elf, uint64_t address, uint64_t *offset, uint64_t *available)
{
    for (size_t i = 0; i < elf->segment_count; i++) {
        const ElfW(Phdr) *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
            address - segment->p_vaddr >= segment->p_filesz)
            continue;
        uint64_t within = address - segment->p_vaddr;
        if (segment->p_offset > elf->size || within > elf->size - segment->p_offset)
            return -EBADMSG;
        *offset = segment->p_offset + within;
        *available = segment->p_filesz - within;
        if (*available > elf->size - *offset)
            *available = elf->size - *offset;
        return 0;
    }
    return -EBADMSG;
}

static int open_file(struct elf *elf, const char *path)
{
    struct stat status;
    elf->file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (elf->file < 0)
        return -errno;
    if (fstat(elf->file, &status) != 0)
        return -errno;
    elf->size = (uint64_t)status.st_size;
    return S_ISREG(status.st_mode) ? 0 : -ENOEXEC;
}

static int read_header(struct elf *elf)
{
    ElfW(Ehdr) *header = &elf->header;
    int error = read_exactly(elf->file, header->e_ident, EI_NIDENT, 0);
    if (error == -EBADMSG || (!error && memcmp(header->e_ident, ELFMAG, SELFMAG) != 0))
        return -ENOEXEC;
    if (error)
        return error;
    elf->bits = header->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
    if (header->e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS] ||
        header->e_ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA])
        return header->e_ident[EI_CLASS] == ELFCLASS32 || elf->bits == 64 ? 0 : -EBADMSG;
    error = read_exactly(elf->file, header, sizeof(*header), 0);
    elf->native = !error && header->e_machine == __ehdr_start.e_machine;
    return error;
}

static int read_interpreter(struct elf *elf)
{
    for (size_t i = 0; i < elf->segment_count; i++) {
        const ElfW(Phdr) *segment = &elf->segments[i];
        if (segment->p_type != PT_INTERP)
            continue;
        return segment->p_filesz <= 4096
                   ? elf_piece(elf, segment->p_offset, segment->p_filesz, &elf->interpreter)
                   : -EBADMSG;
    }
    return 0;
}

static int read_segments(struct elf *elf)
{
    const ElfW(Ehdr) *header = &elf->header;
    if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
        return -ENOEXEC;
    if (header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phnum == 0)
        return -EBADMSG;
    int error =
        elf_piece(elf, header->e_phoff, (uint64_t)header->e_phnum * sizeof(ElfW(Phdr)), &elf->segments);
    if (error)
        return error;
    elf->segment_count = header->e_phnum;
    return read_interpreter(elf);
}

int elf_open(struct elf *elf, const char *path)
{
    *elf = (struct elf){.file = -1};
    int error = open_file(elf, path);
    if (!error)
        error = read_header(elf);
    if (!error && elf->native)
        error = read_segments(elf);
    if (error)
        elf_close(elf);
    return error;
}

void elf_close(struct elf *elf)
{
    free(elf->relocations);
    free(elf->symbols);
    free(elf->strings);
    free(elf->tags);
    free(elf->interpreter);
    free(elf->segments);
    if (elf->file >= 0)
        close(elf->file);
}
