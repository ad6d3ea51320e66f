/* SPDX-License-Identifier: MIT */
/*
 * libffi keeps pointers to the types it is given, so these have to stay: they are taken from one fixed room,
 * which has place for 128 functions of ordinary signatures.
 */
#include "sig.h"

#include <stddef.h>

#include "policy/signature.h"

#define TYPES_MOST 2048 /* pointers to types, in lists that for structs end in NULL */
#define STRUCTS_MOST 256

static ffi_type *lists[TYPES_MOST];
static size_t lists_used;
static ffi_type structs[STRUCTS_MOST];
static size_t structs_used;

static ffi_type **take_list(size_t count)
{
    if (count > TYPES_MOST - lists_used)
        return NULL;
    lists_used += count;
    return lists + lists_used - count;
}

static ffi_type *simple(char code)
{
    static const struct {
        char code;
        ffi_type *type;
    } types[] = {{'v', &ffi_type_void},      {'p', &ffi_type_pointer}, {'i', &ffi_type_sint32},
                 {'I', &ffi_type_uint32},    {'l', &ffi_type_sint64},  {'L', &ffi_type_uint64},
                 {'h', &ffi_type_sint16},    {'H', &ffi_type_uint16},  {'b', &ffi_type_sint8},
                 {'B', &ffi_type_uint8},     {'f', &ffi_type_float},   {'d', &ffi_type_double},
                 {'e', &ffi_type_longdouble}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == code)
            return types[i].type;
    return NULL;
}

static size_t count_members(const char *type)
{
    size_t count = 0;
    for (const char *member = type + 1; *member != '}'; member = tdi_signature_next(member))
        count++;
    return count;
}

static ffi_type *make_type(const char *type);

static ffi_type *make_struct(const char *type)
{
    size_t count = count_members(type);
    ffi_type **members = take_list(count + 1);
    if (members == NULL || structs_used == STRUCTS_MOST)
        return NULL;
    ffi_type *made = &structs[structs_used++];
    const char *member = type + 1;
    for (size_t i = 0; i < count; i++, member = tdi_signature_next(member))
        if ((members[i] = make_type(member)) == NULL)
            return NULL;
    members[count] = NULL;
    *made = (ffi_type){.type = FFI_TYPE_STRUCT, .elements = members};
    return made;
}

static ffi_type *make_type(const char *type)
{
    return *type == '{' ? make_struct(type) : simple(*type);
}

bool tdi_sig_prepare(ffi_cif *cif, const char *signature)
{
    const unsigned count = tdi_signature_args(signature), fixed = tdi_signature_fixed(signature);
    ffi_type **arguments = take_list(count);
    ffi_type *result = make_type(tdi_signature_type(signature, -1));
    if (arguments == NULL || result == NULL)
        return false;
    for (unsigned i = 0; i < count; i++)
        if ((arguments[i] = make_type(tdi_signature_type(signature, (int)i))) == NULL)
            return false;
    if (fixed < count)
        return ffi_prep_cif_var(cif, FFI_DEFAULT_ABI, fixed, count, result, arguments) == FFI_OK;
    return ffi_prep_cif(cif, FFI_DEFAULT_ABI, count, result, arguments) == FFI_OK;
}
