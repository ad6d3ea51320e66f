/* SPDX-License-Identifier: MIT */
/*
 * make_hooks POLICY LIBRARY [NAME SIGNATURE COST]...: a frozen policy with one rule, a quota that is never
 * used up, for hooks of these functions, and the hook library to it. What the launcher does, for machines
 * that it was not built for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stub.h"
#include "policy/frozen.h"
#include "policy/signature.h"

static struct tdi_frozen frozen;

static void fail(const char *subject, const char *why)
{
    fprintf(stderr, "%s: %s\n", subject, why);
    exit(1);
}

static void add_rule(void)
{
    struct tdi_policy_rule *rule = &frozen.rule[frozen.rules++].rule;
    rule->name = tdi_frozen_keep(&frozen, "abi", strlen("abi"));
    rule->has_rate = true;
    rule->rate = (struct tdi_rate){1000000, 1000000, false};
    rule->burst = 1000000;
    rule->count = TDI_COUNT_CALLS;
    rule->hooks = 1;
    rule->max_wait_ns = UINT64_MAX;
}

static void add_hook(char **words)
{
    struct tdi_frozen_hook *hook = &frozen.hook[frozen.hooks++];
    char signature[TDI_SIGNATURE_TEXT], why[256];
    if (tdi_signature_parse(words[1], signature, why, sizeof why) < 0 ||
        tdi_cost_parse(words[2], signature, &hook->cost, why, sizeof why) < 0)
        fail(words[0], why);
    hook->symbol = tdi_frozen_keep(&frozen, words[0], strlen(words[0]));
    hook->signature = tdi_frozen_keep(&frozen, signature, strlen(signature));
}

static void store(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        fail(path, "cannot be written");
}

int main(int argc, char **argv)
{
    const char *names[TDI_FROZEN_HOOKS];
    size_t count = 0, size;
    if (argc < 3 || argc % 3 != 0)
        fail(argv[0], "POLICY LIBRARY [NAME SIGNATURE COST]...");
    tdi_frozen_init(&frozen);
    add_rule();
    for (char **words = argv + 3; *words != NULL && count < TDI_FROZEN_HOOKS; words += 3) {
        names[count++] = words[0];
        add_hook(words);
    }
    tdi_frozen_seal(&frozen);
    store(argv[1], &frozen, tdi_frozen_size(&frozen));
    unsigned char *library = stub_make(STUB_HERE, names, count, &size);
    if (library == NULL)
        fail(argv[2], "no memory, or a machine without hooks");
    store(argv[2], library, size);
    free(library);
    return 0;
}
