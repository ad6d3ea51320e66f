/* SPDX-License-Identifier: MIT */
/* Functions that are known by name: the table is sound, and what can never be hooked is known. */
#include "kit/kit.h"
#include "policy/cost.h"
#include "policy/hooks.h"
#include "policy/signature.h"

#include <stdlib.h>
#include <string.h>

START_TEST(names_are_sorted_and_found)
{
    for (size_t i = 0; i < tdi_known_hook_count; i++) {
        const char *name = tdi_known_hooks[i].name;
        ck_assert_msg(i == 0 || strcmp(tdi_known_hooks[i - 1].name, name) < 0, "%s", name);
        ck_assert_ptr_eq(tdi_known_hook(name), &tdi_known_hooks[i]);
        ck_assert_msg(tdi_hook_obstacle(name) == NULL, "%s", name);
    }
    ck_assert_ptr_null(tdi_known_hook(""));
    ck_assert_ptr_null(tdi_known_hook("SSL_writ"));
    ck_assert_ptr_null(tdi_known_hook("SSL_writes"));
    ck_assert_ptr_null(tdi_known_hook("~"));
}
END_TEST

START_TEST(signatures_and_costs_can_be_read)
{
    for (size_t i = 0; i < tdi_known_hook_count; i++) {
        const struct tdi_known_hook *known = &tdi_known_hooks[i];
        char compact[TDI_SIGNATURE_TEXT], why[200] = "";
        struct tdi_cost cost;
        ck_assert_msg(tdi_signature_parse(known->signature, compact, why, sizeof why) == 0, "%s: %s",
                      known->name, why);
        ck_assert_msg(tdi_cost_parse(known->cost, compact, &cost, why, sizeof why) == 0, "%s: %s",
                      known->name, why);
    }
}
END_TEST

/* The name that stands for a family is one of it, and all cost and return the same kind of thing. */
START_TEST(a_family_agrees)
{
    for (size_t i = 0; i < tdi_known_hook_count; i++) {
        const struct tdi_known_hook *known = &tdi_known_hooks[i];
        char compact[TDI_SIGNATURE_TEXT], head[TDI_SIGNATURE_TEXT], why[200];
        if (known->family == NULL)
            continue;
        const struct tdi_known_hook *first = tdi_known_hook(known->family);
        ck_assert_msg(first != NULL && first->family != NULL, "%s", known->name);
        ck_assert_str_eq(first->family, known->family);
        ck_assert_str_eq(first->cost, known->cost);
        ck_assert_int_eq(tdi_signature_parse(known->signature, compact, why, sizeof why), 0);
        ck_assert_int_eq(tdi_signature_parse(first->signature, head, why, sizeof why), 0);
        ck_assert_msg(compact[0] == head[0], "%s", known->name);
    }
}
END_TEST

START_TEST(opening_a_file_is_one_family)
{
    static const char *const names[] = {"open",       "open64",     "openat",       "openat64", "__open_2",
                                        "__open64_2", "__openat_2", "__openat64_2", "creat",    "creat64"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_str_eq(tdi_known_hook(names[i])->family, "open");
    ck_assert_str_eq(tdi_known_hook("open")->signature, "int (pointer, int, ...unsigned)");
    ck_assert_ptr_null(tdi_known_hook("fsync")->family);
    ck_assert_ptr_null(tdi_known_hook("fdatasync")->family);
}
END_TEST

START_TEST(what_can_never_be_hooked_is_told)
{
    static const struct {
        const char *name, *why;
    } cases[] = {
        {"setjmp", "returns twice"},
        {"_setjmp", "returns twice"},
        {"__sigsetjmp", "returns twice"},
        {"vfork", "returns twice"},
        {"swapcontext", "returns twice"},
        {"dlopen", "looks at who calls it"},
        {"dlsym", "looks at who"},
        {"_dl_allocate_tls", "dynamic linker"},
        {"__tls_get_addr", "dynamic"},
        {"main", "begins or ends"},
        {"_init", "begins or ends"},
        {"_Unwind_Resume", "unwinds"},
        {"__cxa_throw", "unwinds"},
        {"ffi_call", "made with"},
        {"", "is no name"},
        {"tundish_preload_hook_enter", "made with"},
        {"9lives", "is no name"},
        {"SSL write", "is no name"},
        {"open@GLIBC_2.2.5", "is no name"},
        {"gr\xc3\xb6\xc3\x9f"
         "e",
         "is no name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = tdi_hook_obstacle(cases[i].name);
        ck_assert_msg(why != NULL && strstr(why, cases[i].why) != NULL, "%s: %s", cases[i].name,
                      why ? why : "no obstacle");
    }
}
END_TEST

START_TEST(anything_else_can)
{
    static const char *const names[] = {"main_loop", "longjmp", "siglongjmp", "fork",  "_exit",
                                        "_ZN3fooEv", "x",       "X9_",        "mains", "tundish_acquire"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(tdi_hook_obstacle(names[i]) == NULL, "%s", names[i]);
}
END_TEST

static Suite *hooks(void)
{
    Suite *suite = suite_create("hooks");
    TCase *known = kit_case(suite, "known");
    tcase_add_test(known, names_are_sorted_and_found);
    tcase_add_test(known, signatures_and_costs_can_be_read);
    tcase_add_test(known, a_family_agrees);
    tcase_add_test(known, opening_a_file_is_one_family);
    TCase *obstacles = kit_case(suite, "obstacles");
    tcase_add_test(obstacles, what_can_never_be_hooked_is_told);
    tcase_add_test(obstacles, anything_else_can);
    return suite;
}

KIT_MAIN(hooks)
