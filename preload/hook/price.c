/* SPDX-License-Identifier: MIT */
#include "price.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

#include "fd.h"

#define PAGE ((size_t)4096)

static uint64_t bound(uint64_t price)
{
    return price < TDI_PRICE_MOST ? price : TDI_PRICE_MOST;
}

/* Up to its end, a page at a time. */
static bool is_readable_text(const char *text)
{
    while (tdi_fd_readable(text, 1)) {
        size_t rest = PAGE - (uintptr_t)text % PAGE;
        if (memchr(text, '\0', rest) != NULL)
            return true;
        text += rest;
    }
    return false;
}

static const void *pointer_of(void *const *arguments, uint8_t i)
{
    const void *pointer;
    memcpy(&pointer, arguments[i], sizeof pointer);
    return pointer;
}

/* As many elements as are looked at. */
static bool is_readable_vector(const struct tdi_cost *cost, void *const *arguments)
{
    const struct tdi_cost count = {.kind = TDI_COST_ARG, .a = cost->b, .a_type = cost->b_type};
    uint64_t elements = tdi_cost_before(&count, arguments);
    elements = elements < UIO_MAXIOV ? elements : UIO_MAXIOV;
    return elements == 0 || tdi_fd_readable(pointer_of(arguments, cost->a), elements * sizeof(struct iovec));
}

static bool can_be_read(const struct tdi_cost *cost, void *const *arguments)
{
    if (cost->kind == TDI_COST_STRLEN)
        return is_readable_text(pointer_of(arguments, cost->a));
    return cost->kind != TDI_COST_IOV || is_readable_vector(cost, arguments);
}

uint64_t tdi_price_before(const struct tdi_cost *cost, void *const *arguments)
{
    return can_be_read(cost, arguments) ? bound(tdi_cost_before(cost, arguments)) : 0;
}

uint64_t tdi_price_after(const struct tdi_cost *cost, const void *result)
{
    return bound(tdi_cost_after(cost, result));
}
