/* SPDX-License-Identifier: MIT */
/*
 * Most functions that are worth a hook take a few integers and pointers and return one. On the machines that
 * hooks exist for, the first six of these are passed in as many registers, whatever their types, and a result
 * comes in one: so such a function can be called as one of six longs, which saves the third of a hook's time
 * that ffi_call needs for finding that out. What a function does not take it does not look at.
 */
#include "straight.h"

#include <stdint.h>
#include <string.h>

#include "policy/signature.h"

#define REGISTERS 6

typedef uint64_t six(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static bool is_integer(char type)
{
    return type != '\0' && strchr("pbhilBHIL", type) != NULL;
}

bool tdi_straight_suits(const char *signature)
{
    const unsigned count = tdi_signature_args(signature);
    if (count > REGISTERS || tdi_signature_fixed(signature) != count)
        return false;
    for (int i = 0; i < (int)count; i++)
        if (!is_integer(*tdi_signature_type(signature, i)))
            return false;
    return is_integer(*signature) || *signature == 'v';
}

/* Widened as its caller had to. */
static uint64_t widen(char type, const void *argument)
{
    switch (type) {
    case 'b':
        return (uint64_t) * (const int8_t *)argument;
    case 'B':
        return *(const uint8_t *)argument;
    case 'h':
        return (uint64_t) * (const int16_t *)argument;
    case 'H':
        return *(const uint16_t *)argument;
    case 'i':
        return (uint64_t) * (const int32_t *)argument;
    case 'I':
        return *(const uint32_t *)argument;
    default:
        return *(const uint64_t *)argument;
    }
}

void tdi_straight_call(tdi_function *function, const char *signature, void *result, void **arguments)
{
    uint64_t words[REGISTERS] = {0};
    const char *types = signature + 1;
    for (unsigned i = 0; types[i] != '\0'; i++)
        words[i] = widen(types[i], arguments[i]);
    uint64_t answer = ((six *)function)(words[0], words[1], words[2], words[3], words[4], words[5]);
    if (*signature != 'v')
        *(uint64_t *)result = answer; /* libffi looks at as much of it as the type has */
}
