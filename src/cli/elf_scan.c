/* SPDX-License-Identifier: MIT */
/*
 * Constants in machine code. Which argument a call gets cannot be known without running it, but compilers put
 * a constant one into its register shortly before the call. So calls are searched for (direct ones by way of
 * a stub of the linkage table, indirect ones by way of the slot that the dynamic linker fills), and the bytes
 * before each are read backwards up to the first load of the register that makes sense. What is found so is
 * there; what is not found may still be.
 */
#include "cli/elf.h"

#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 16,      /* slots and stubs of one function; more than a linker makes */
    SEGMENTS = 8,     /* with code; usually there is one */
    LOOK_BACK = 64,   /* bytes between the load of an argument and its call */
    LOOK_AHEAD = 32,  /* bytes between the load of a number and its system call */
    STUB_PREFIX = 5,  /* endbr64 and a bnd prefix stand before a stub's jump */
    CALL = 0xe8,      /* call rel32 */
    JUMP = 0xe9,      /* jmp rel32 */
    INDIRECT = 0xff,  /* call or jmp through memory, by the next byte: */
    CALL_SLOT = 0x15, /* call *rel32(%rip) */
    JUMP_SLOT = 0x25, /* jmp *rel32(%rip) */
    LOAD_EAX = 0xb8,  /* mov $imm32, %eax; esi and edi alike: */
    LOAD_ESI = 0xbe,
    LOAD_EDI = 0xbf,
};

/* Addresses of a function's slots, or of the stubs that jump through them. */
struct places {
    uint64_t at[PLACES];
    size_t count;
};

/* The bytes of one segment. */
struct code {
    unsigned char *bytes;
    size_t len;
    uint64_t address;
};

static uint32_t read_32(const unsigned char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* What the rel32 at this place means: relative to its end. */
static uint64_t target_of(const struct code *code, size_t at)
{
    return code->address + at + 4 + (uint64_t)(int64_t)(int32_t)read_32(code->bytes + at);
}

static void add_place(struct places *places, uint64_t address)
{
    if (places->count < PLACES)
        places->at[places->count++] = address;
}

/* Whether the address is one of the places or up to `before` bytes ahead of one. */
static bool is_place(const struct places *places, uint64_t address, uint64_t before)
{
    for (size_t i = 0; i < places->count; i++)
        if (places->at[i] - address <= before)
            return true;
    return false;
}

static size_t load_code(const struct elf *elf, struct code codes[SEGMENTS])
{
    size_t count = 0;
    if (elf->header.e_machine != EM_X86_64)
        return 0;
    for (size_t i = 0; i < elf->segment_count && count < SEGMENTS; i++) {
        const ElfW(Phdr) *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
            elf_piece(elf, segment->p_offset, segment->p_filesz, &codes[count].bytes) != 0)
            continue;
        codes[count].len = (size_t)segment->p_filesz;
        codes[count++].address = segment->p_vaddr;
    }
    return count;
}

static void free_code(struct code *codes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(codes[i].bytes);
}

static struct places find_slots(const struct elf *elf, const char *function)
{
    struct places slots = {.count = 0};
    for (size_t i = 0; i < elf->relocation_count; i++)
        if (strcmp(elf_symbol(elf, elf->relocations[i].symbol), function) == 0)
            add_place(&slots, elf->relocations[i].address);
    return slots;
}

static void find_stubs(const struct code *code, const struct places *slots, struct places *stubs)
{
    for (size_t i = 0; i + 6 <= code->len; i++)
        if (code->bytes[i] == INDIRECT && code->bytes[i + 1] == JUMP_SLOT &&
            is_place(slots, target_of(code, i + 2), 0))
            add_place(stubs, code->address + i);
}

static bool is_call(const struct code *code, size_t at, const struct places *slots,
                    const struct places *stubs)
{
    const unsigned char *bytes = code->bytes + at;
    if ((bytes[0] == CALL || bytes[0] == JUMP) && at + 5 <= code->len)
        return is_place(stubs, target_of(code, at + 1), STUB_PREFIX);
    if (bytes[0] == INDIRECT && at + 6 <= code->len && (bytes[1] == CALL_SLOT || bytes[1] == JUMP_SLOT))
        return is_place(slots, target_of(code, at + 2), 0);
    return false;
}

/*
 * Whether this is a load of the register, and not of the one that the same byte means behind a REX.B prefix.
 */
static bool is_load(const struct code *code, size_t at, unsigned char load)
{
    return code->bytes[at] == load && (at == 0 || (code->bytes[at - 1] & 0xf1) != 0x41);
}

/* Whether the last believable constant loaded before this place is wanted. */
static bool is_loaded(const struct code *code, size_t at, unsigned char load, elf_constant_test *test)
{
    for (size_t back = 5; back <= LOOK_BACK && back <= at; back++) {
        if (!is_load(code, at - back, load))
            continue;
        enum elf_constant constant = test(read_32(code->bytes + at - back + 1));
        if (constant != ELF_CONSTANT_ABSURD)
            return constant == ELF_CONSTANT_WANTED;
    }
    return false;
}

bool elf_scan_calls(const struct elf *elf, const char *function, unsigned argument, elf_constant_test *test)
{
    struct code codes[SEGMENTS];
    struct places slots = find_slots(elf, function), stubs = {.count = 0};
    size_t count = slots.count ? load_code(elf, codes) : 0;
    bool found = false;
    for (size_t i = 0; i < count; i++)
        find_stubs(&codes[i], &slots, &stubs);
    for (size_t i = 0; i < count && !found; i++)
        for (size_t at = 0; at < codes[i].len && !found; at++)
            found = is_call(&codes[i], at, &slots, &stubs) &&
                    is_loaded(&codes[i], at, argument == 0 ? LOAD_EDI : LOAD_ESI, test);
    free_code(codes, count);
    return found;
}

/* Whether a syscall instruction follows soon. */
static bool is_system_call(const struct code *code, size_t at)
{
    size_t end = code->len - at > LOOK_AHEAD ? at + LOOK_AHEAD : code->len;
    for (size_t i = at; i + 2 <= end; i++)
        if (code->bytes[i] == 0x0f && code->bytes[i + 1] == 0x05)
            return true;
    return false;
}

static bool makes_system_call(const struct code *code, elf_constant_test *test)
{
    for (size_t i = 0; i + 5 <= code->len; i++)
        if (is_load(code, i, LOAD_EAX) && test(read_32(code->bytes + i + 1)) == ELF_CONSTANT_WANTED &&
            is_system_call(code, i + 5))
            return true;
    return false;
}

bool elf_scan_system_calls(const struct elf *elf, elf_constant_test *test)
{
    struct code codes[SEGMENTS];
    size_t count = load_code(elf, codes);
    bool found = false;
    for (size_t i = 0; i < count && !found; i++)
        found = makes_system_call(&codes[i], test);
    free_code(codes, count);
    return found;
}
