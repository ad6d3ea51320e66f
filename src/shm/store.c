/* SPDX-License-Identifier: MIT */
/* Recognising is done on a mapping of the size this version makes: another size is another version's or
 * foreign. */
#include "shm/store.h"

#include <errno.h>
#include <string.h>

struct filling {
    tdi_file_fill *fill;
    void *context;
};

void tdi_store_init(struct tdi_layout *file)
{
    file->identity = (struct tdi_layout_identity){
        .magic = TDI_LAYOUT_MAGIC,
        .fingerprint = tdi_layout_fingerprint(),
        .version = TDI_LAYOUT_VERSION,
        .size = sizeof *file,
    };
}

static void fill_in(void *map, void *context)
{
    const struct filling *filling = context;
    tdi_store_init(map);
    filling->fill(map, filling->context);
}

int tdi_store_make(const char *path, mode_t mode, tdi_file_fill *fill, void *context,
                   struct tdi_layout **file, struct tdi_file_facts *facts)
{
    struct filling filling = {fill, context};
    void *map;
    int error = tdi_file_make(path, sizeof **file, TDI_LAYOUT_ALWAYS, mode, fill_in, &filling, &map, facts);
    *file = map;
    return error;
}

static enum tdi_store_fault find_fault(const struct tdi_layout_identity *identity)
{
    if (identity->magic != TDI_LAYOUT_MAGIC)
        return TDI_STORE_NO_MAGIC;
    if (identity->version != TDI_LAYOUT_VERSION)
        return TDI_STORE_OTHER_VERSION;
    if (identity->fingerprint != tdi_layout_fingerprint() || identity->size != sizeof(struct tdi_layout))
        return TDI_STORE_OTHER_LAYOUT;
    return TDI_STORE_FINE;
}

int tdi_store_map(const char *path, struct tdi_layout **file, struct tdi_file_facts *facts,
                  enum tdi_store_fault *fault)
{
    void *map;
    int error = tdi_file_map(path, sizeof **file, &map, facts);
    *fault = TDI_STORE_FINE;
    *file = NULL;
    if (error == -EPROTO)
        *fault = facts->regular ? TDI_STORE_WRONG_SIZE : TDI_STORE_NOT_REGULAR;
    if (error)
        return error;
    *fault = find_fault(map);
    if (*fault != TDI_STORE_FINE) {
        tdi_file_unmap(map, sizeof **file);
        return -EPROTO;
    }
    *file = map;
    return 0;
}

int tdi_store_recognise(const char *path, enum tdi_store_fault *fault)
{
    struct tdi_layout_identity identity;
    struct tdi_file_facts facts;
    int error = tdi_file_read_head(path, &identity, sizeof identity, &facts);
    *fault = TDI_STORE_FINE;
    if (error == -EPROTO)
        *fault = facts.regular ? TDI_STORE_WRONG_SIZE : TDI_STORE_NOT_REGULAR;
    if (error)
        return error;
    if (identity.magic == TDI_LAYOUT_MAGIC)
        return 0;
    *fault = TDI_STORE_NO_MAGIC;
    return -EPROTO;
}

void tdi_store_unmap(struct tdi_layout *file)
{
    tdi_file_unmap(file, sizeof *file);
}
