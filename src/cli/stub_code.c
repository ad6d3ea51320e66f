/* SPDX-License-Identifier: MIT */
/*
 * The functions of a hook library in machine code. A call's arguments may be in any register but the one or
 * two that a procedure linkage table may use too: these alone are written, and the stack is not.
 */
#include "cli/stub_code.h"

#include <elf.h>
#include <string.h>

/* Of GNU property notes; not every <elf.h> has them. */
#define X86_FEATURE 0xc0000002u
#define AARCH64_FEATURE 0xc0000000u
enum {
    IBT_AND_SHSTK = 3, /* of X86_FEATURE: endbr64 at each function, no return address touched */
    BTI = 1,           /* of AARCH64_FEATURE: bti at each function */
};

static unsigned char *put_bytes(unsigned char *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

/* A distance from the end of the field, which is the end of the instruction. */
static unsigned char *put_distance(unsigned char *at, uint64_t here, uint64_t target)
{
    uint32_t distance = (uint32_t)(target - (here + sizeof(distance)));
    return put_bytes(at, &distance, sizeof(distance));
}

static void write_x86_64(unsigned char code[STUB_CODE_SIZE], uint64_t here, uint64_t entry, uint64_t enter)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    static const unsigned char lea_r10[] = {0x4c, 0x8d, 0x15}; /* lea DISTANCE(%rip), %r10 */
    static const unsigned char jump_by[] = {0xff, 0x25};       /* jmp *DISTANCE(%rip) */
    static const unsigned char trap = 0xcc;
    unsigned char *at = put_bytes(code, endbr64, sizeof(endbr64));
    at = put_bytes(at, lea_r10, sizeof(lea_r10));
    at = put_distance(at, here + (uint64_t)(at - code), entry);
    at = put_bytes(at, jump_by, sizeof(jump_by));
    at = put_distance(at, here + (uint64_t)(at - code), enter);
    memset(at, trap, (size_t)(code + STUB_CODE_SIZE - at));
}

/* adrp: the 4 KiB page of an address, by its distance in pages. */
static uint32_t aarch64_page(unsigned target_register, uint64_t here, uint64_t target)
{
    uint64_t pages = (target >> 12) - (here >> 12);
    return 0x90000000u | (uint32_t)(pages & 3) << 29 | (uint32_t)(pages >> 2 & 0x7ffff) << 5 |
           target_register;
}

static void write_aarch64(unsigned char code[STUB_CODE_SIZE], uint64_t here, uint64_t entry, uint64_t enter)
{
    const uint32_t bti_c = 0xd503245f, add_x17_x17 = 0x91000231, ldr_x16_x16 = 0xf9400210,
                   br_x16 = 0xd61f0200, trap = 0xd4200000;
    const uint32_t words[STUB_CODE_SIZE / sizeof(uint32_t)] = {
        bti_c,
        aarch64_page(17, here + 4, entry),
        add_x17_x17 | (uint32_t)(entry & 0xfff) << 10,
        aarch64_page(16, here + 12, enter),
        ldr_x16_x16 | (uint32_t)(enter & 0xfff) / 8 << 10, /* it counts in eights */
        br_x16,
        trap,
        trap,
    };
    memcpy(code, words, sizeof(words));
}

const struct stub_code *stub_code_get(enum stub_machine machine)
{
    static const struct stub_code codes[] = {
        [STUB_X86_64] = {EM_X86_64, 0x1000, R_X86_64_RELATIVE, R_X86_64_GLOB_DAT, X86_FEATURE, IBT_AND_SHSTK,
                         write_x86_64},
        [STUB_AARCH64] = {EM_AARCH64, 0x10000, R_AARCH64_RELATIVE, R_AARCH64_GLOB_DAT, AARCH64_FEATURE, BTI,
                          write_aarch64},
    };
    return machine == STUB_X86_64 || machine == STUB_AARCH64 ? &codes[machine] : NULL;
}
