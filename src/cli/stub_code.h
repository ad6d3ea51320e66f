/* SPDX-License-Identifier: MIT */
/* What in a hook library depends on the machine that it is for. */
#ifndef TUNDISH_CLI_STUB_CODE_H
#define TUNDISH_CLI_STUB_CODE_H

#include <stdint.h>

#include "cli/stub.h"

enum {
    STUB_CODE_SIZE = 32, /* of a function: whole, in one line of the cache */
};

struct stub_code {
    uint16_t machine;       /* EM_ */
    uint32_t page;          /* the largest that the machine may have */
    uint32_t relative;      /* relocation: the load address plus the addend */
    uint32_t symbol;        /* relocation: the address of a symbol */
    uint32_t property;      /* of the GNU property note */
    uint32_t property_bits; /* the machine's guards of indirect jumps, which the code keeps */

    /* Writes the function that will lie at `here`: loads the address `entry`, jumps to where `*enter` says. */
    void (*write)(unsigned char code[STUB_CODE_SIZE], uint64_t here, uint64_t entry, uint64_t enter);
};

/* NULL if there is none. */
const struct stub_code *stub_code_get(enum stub_machine machine);

#endif
