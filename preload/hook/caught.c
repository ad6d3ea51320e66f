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
        if (tdi_hook[i].spec != NULL && strcmp(tdi_hook[i].name, name) == 0)
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

/* The global search finds the hook library first, whether or not anybody else has the function. */
static struct answer answer_default(struct tdi_hook *hook, const void *caller)
{
    struct tdi_home room;
    if (tdi_hook_home(hook, caller, &room) != NULL)
        return (struct answer){1, stub_of(hook)};
    return (struct answer){1, tdi_real_dlsym(RTLD_NEXT, hook->name)}; /* NULL, and dlerror knows why */
}

static struct answer answer(struct tdi_hook *hook, void *found, const void *caller)
{
    void *stub = stub_of(hook);
    if (found == NULL)
        return (struct answer){1, NULL};
    if (found == stub)
        return answer_default(hook, caller);
    bool leads = leads_to(hook, (tdi_function *)(uintptr_t)found, caller);
    return (struct answer){1, leads ? stub : found};
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

struct answer tdi_caught_dlsym(void *handle, const char *name, const void *caller)
{
    struct tdi_hook *hook = find_asked_for(handle, name, caller);
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
    int result = real_dlclose(handle);
    tdi_hook_forget();
    return result;
}

static void put_code(ffi_go_closure *closure, void (*code)(void))
{
    memcpy(&closure->tramp, &code, sizeof code);
}

bool tdi_caught_begin(struct tdi_hook *hook, enum tdi_caught which)
{
    static const struct {
        const char *name;
        enum tdi_caught which;
        void (*code)(void);
        void *real;
    } all[] = {{"dlsym", TDI_CAUGHT_WITH_HOOKS, tdi_catch_dlsym, &tdi_real_dlsym},
               {"dlvsym", TDI_CAUGHT_WITH_HOOKS, tdi_catch_dlvsym, &tdi_real_dlvsym},
               {"dlclose", TDI_CAUGHT_ALWAYS, (void (*)(void))caught_dlclose, &real_dlclose}};
    struct tdi_home room;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].which != which || strcmp(hook->name, all[i].name) != 0)
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
