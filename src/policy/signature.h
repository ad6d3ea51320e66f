/* SPDX-License-Identifier: MIT */
/*
 * Signatures of hooked functions: as people write them, and the compact form that is frozen. Pure text work:
 * no allocation, no locale, no errno.
 *
 *   signature:  RESULT ( PARAMETERS )
 *   RESULT:     void or a type
 *   PARAMETERS: nothing, void, or types separated by commas; a type after "..." is one of those that are
 *               really passed in the place of a variable argument list
 *   type:       pointer, a C type that every program knows, anything with a "*" behind it (a pointer, whatever
 *               to), or a struct passed by value as the types in it: { int, double }
 *
 * const, volatile, restrict, blanks, and names of parameters and of the function are allowed and mean nothing.
 */
#ifndef TUNDISH_POLICY_SIGNATURE_H
#define TUNDISH_POLICY_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TDI_SIGNATURE_ARGS 32
#define TDI_SIGNATURE_DEPTH 8  /* structs in structs */
#define TDI_SIGNATURE_TEXT 160 /* of the compact form, with its terminator */

/*
 * The compact form is a string: the result's type, then those of the arguments, then nothing.
 *
 *   v void (as a result only)      p pointer
 *   b h i l  signed integers of 8, 16, 32 and 64 bits;  B H I L  unsigned ones
 *   f float   d double   e long double
 *   { types }  a struct by value, which may hold further ones
 *   .  once: the arguments behind it are variable ones
 */

/* 0, or -EINVAL with one sentence in `why` that says what is wrong and what would be right. */
int tdi_signature_parse(const char *text, char out[TDI_SIGNATURE_TEXT], char *why, size_t len);

/* Whether a compact form is sound, wherever it comes from. */
bool tdi_signature_is_sound(const char *signature);

/* How many arguments there are. */
unsigned tdi_signature_args(const char *signature);

/* How many of them are not variable. */
unsigned tdi_signature_fixed(const char *signature);

/* The type of argument i, from 0; of the result for i < 0. It begins there; '\0' if there is none. */
const char *tdi_signature_type(const char *signature, int i);

/* Behind the type that begins at `type`. */
const char *tdi_signature_next(const char *type);

/* As C again: "int (pointer, size_t, ...int)". Cut to len, always terminated. */
void tdi_signature_format(char *buf, size_t len, const char *signature);

#endif
