/* SPDX-License-Identifier: MIT */
/*
 * dlsym and dlvsym, so that who asks for a hooked function by name gets the hook as well; and dlclose, after
 * which functions may be gone. enter.S jumps here.
 *
 * An answer is changed only where the real one exists and calls of it will find their way back: a program that
 * asks whether there is such a function is told the truth, and one that asks two libraries for it gets the
 * second one's as it is.
 */
#include "caught.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "inside.h"
#include "text.h"

/* What enter.S expects: whether this is the answer, and what it is. */
struct answer {
    uintptr_t is_ours;
    void *function;
};

struct answer tdi_caught_dlsym(void *handle, const char *name, const void *caller);
struct answer tdi_caught_dlvsym(void *handle, const char *name, const char *version, const void *caller);

void *(*tdi_real_dlsym)(void *, const char *);
void *(*tdi_real_dlvsym)(void *, const char *, const char *);
static int (*real_dlclose)(void *);

static const struct answer not_ours = {0, NULL};

static struct tdi_hook *find_hook(const char *name)
{
    for (uint32_t i = 0; name != NULL && i < tdi_hooks; i++)
        if (tdi_hook[i].spec != NULL && tdi_text_same(tdi_hook[i].name, name))
            return &tdi_hook[i];
    return NULL;
}

static void *stub_of(const struct tdi_hook *hook)
{
    return (void *)(uintptr_t)tdi_find_stub(hook->name);
}

/* Whether calls by this caller would find the way to that function, or will from now on. */
static bool leads_to(struct tdi_hook *hook, tdi_function *function, const void *caller)
{
    struct tdi_home room;
    tdi_function *nobody = NULL;
    struct tdi_range object;
    if (!tdi_find_object((const void *)(uintptr_t)function, &object))
        return false; /* of another namespace, whose callers never come here */
    (void)atomic_compare_exchange_strong_explicit(&hook->told, &nobody, function, memory_order_relaxed,
                                                  memory_order_relaxed);
    const struct tdi_home *home = tdi_hook_home(hook, caller, &room);
    return home != NULL && home->function == function;
}

static struct answer lead(struct tdi_hook *hook, void *found, const void *caller)
{
    bool leads = leads_to(hook, (tdi_function *)(uintptr_t)found, caller);
    return (struct answer){1, leads ? stub_of(hook) : found};
}

/*
 * The global search finds the hook library first, whether or not anybody else has the function. Without it
 * there would be what was there at the start, what the caller's object needs, and what was made global later,
 * which only ld.so knows.
 */
static struct answer answer_default(struct tdi_hook *hook, const void *caller)
{
    struct tdi_found found = tdi_find(hook->name, NULL, caller);
    if (found.function != NULL && found.way != TDI_FOUND_ELSEWHERE)
        return (struct answer){1, stub_of(hook)};
    void *later = tdi_real_dlsym(RTLD_NEXT, hook->name);
    return later != NULL ? lead(hook, later, caller) : (struct answer){1, NULL}; /* dlerror knows why */
}

static struct answer answer(struct tdi_hook *hook, void *found, const void *caller)
{
    if (found == NULL)
        return (struct answer){1, NULL};
    return found == stub_of(hook) ? answer_default(hook, caller) : lead(hook, found, caller);
}

/* A search from the beginning, or from the program on, meets the hook library before anybody else. */
static bool finds_stub(void *handle, const void *caller)
{
    return handle == RTLD_DEFAULT || (handle == RTLD_NEXT && tdi_find_is_before(caller));
}

/* What stands behind the hook library and asks for the next function means the real one. */
static struct tdi_hook *find_asked_for(void *handle, const char *name, const void *caller)
{
    struct tdi_hook *hook = find_hook(name);
    if (hook == NULL || tdi_inside.house > 0 || tdi_find_is_us(caller))
        return NULL;
    return handle == RTLD_NEXT && !finds_stub(handle, caller) ? NULL : hook;
}

/* Who asks for dlclose itself is to get the one that notices. */
static struct answer answer_dlclose(void *handle, const char *name)
{
    void *found = tdi_real_dlsym(handle, name), *real;
    memcpy(&real, &real_dlclose, sizeof real);
    return (struct answer){1, found == real ? (void *)(uintptr_t)tdi_find_stub(name) : found};
}

struct answer tdi_caught_dlsym(void *handle, const char *name, const void *caller)
{
    struct tdi_hook *hook = find_asked_for(handle, name, caller);
    if (name != NULL && handle != RTLD_NEXT && handle != RTLD_DEFAULT && tdi_text_same(name, "dlclose"))
        return answer_dlclose(handle, name);
    if (hook == NULL)
        return not_ours;
    if (finds_stub(handle, caller))
        return answer_default(hook, caller);
    return answer(hook, tdi_real_dlsym(handle, name), caller);
}

struct answer tdi_caught_dlvsym(void *handle, const char *name, const char *version, const void *caller)
{
    struct tdi_hook *hook = find_asked_for(handle, name, caller);
    if (hook == NULL || finds_stub(handle, caller)) /* the hook library has no versions, so it is not found */
        return not_ours;
    return answer(hook, tdi_real_dlvsym(handle, name, version), caller);
}

static int caught_dlclose(void *handle)
{
    tdi_hook_closing_begins();
    int result = real_dlclose(handle);
    tdi_hook_closing_ends();
    return result;
}

static void put_code(ffi_go_closure *closure, void (*code)(void))
{
    memcpy(&closure->tramp, &code, sizeof code);
}

bool tdi_caught_begin(struct tdi_hook *hook)
{
    static const struct {
        const char *name;
        void (*code)(void);
        void *real;
    } all[] = {{"dlsym", tdi_catch_dlsym, &tdi_real_dlsym},
               {"dlvsym", tdi_catch_dlvsym, &tdi_real_dlvsym},
               {"dlclose", (void (*)(void))caught_dlclose, &real_dlclose}};
    struct tdi_home room;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!tdi_text_same(hook->name, all[i].name))
            continue;
        const struct tdi_home *home = tdi_hook_home(hook, NULL, &room);
        if (home == NULL)
            return false;
        memcpy(all[i].real, &home->function, sizeof home->function);
        put_code(&hook->closure, all[i].code);
        return true;
    }
    return false;
}
