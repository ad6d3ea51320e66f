/* SPDX-License-Identifier: MIT */
/*
 * Sanitizers define dl_iterate_phdr() and begin theirs by looking up the real one, and others: which are looked
 * up here, by dl_iterate_phdr(). So the first look is at ld.so's own list of objects, as debuggers read it. It
 * may change under the eyes of several threads, but this is before there are any.
 */
#include "list.h"

#include <stdint.h>
#include <sys/auxv.h>

#include "object.h"

typedef int iterate_fn(tdi_list_fn *visit, void *argument);

static iterate_fn *real = dl_iterate_phdr;

static const ElfW(Phdr) * find_header(const ElfW(Phdr) * headers, size_t count, unsigned type)
{
    for (size_t i = 0; headers != NULL && i < count; i++)
        if (headers[i].p_type == type)
            return &headers[i];
    return NULL;
}

/* The program's dynamic section tells of the list. */
static const struct link_map *find_list(void)
{
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    const size_t count = getauxval(AT_PHNUM);
    const ElfW(Phdr) *self = find_header(headers, count, PT_PHDR);
    const ElfW(Phdr) *dynamic = find_header(headers, count, PT_DYNAMIC);
    if (dynamic == NULL || self == NULL)
        return NULL;
    const uintptr_t base = (uintptr_t)headers - self->p_vaddr;
    for (const ElfW(Dyn) *d = (const ElfW(Dyn) *)(base + dynamic->p_vaddr); d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_DEBUG && d->d_un.d_ptr != 0)
            return ((const struct r_debug *)d->d_un.d_ptr)->r_map;
    return NULL;
}

/* The last one in the list is libc's: whoever stands in for it comes before. */
void tdi_list_begin(void)
{
    struct tdi_found found;
    for (const struct link_map *map = find_list(); map != NULL; map = map->l_next) {
        const struct tdi_object object = {.base = map->l_addr, .path = map->l_name, .dynamic = map->l_ld};
        if (tdi_object_look_up(&object, "dl_iterate_phdr", &found))
            real = (iterate_fn *)found.function;
    }
}

int tdi_list_iterate(tdi_list_fn *visit, void *argument)
{
    return real(visit, argument);
}
