/* SPDX-License-Identifier: MIT */
/* The hook library as the dynamic linker, its users and the tools of others see it. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/stub.h"
#include "hooks/stub_enter.h"
#include "kit/kit.h"

#define LEN(array) (sizeof(array) / sizeof(array)[0])

typedef struct tdi_stub_entry *hooked_function(void);

static const enum stub_machine machines[] = {STUB_X86_64, STUB_AARCH64};
static const uint64_t pages[] = {0x1000, 0x10000};
static const char *const few[] = {"write", "SSL_write", "a"};

/* Names, made and dropped. */

struct names {
    char text[256][48];
    const char *name[256];
    size_t count;
};

static struct names *numbered_names(size_t count)
{
    struct names *names = calloc(1, sizeof *names);
    for (; names->count < count; names->count++) {
        snprintf(names->text[names->count], sizeof names->text[0], "hooked_%zu", names->count);
        names->name[names->count] = names->text[names->count];
    }
    return names;
}

static uint32_t random_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(*state >> 33);
}

static struct names *random_names(uint64_t *state, size_t count)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    struct names *names = calloc(1, sizeof *names);
    for (; names->count < count; names->count++) {
        char *text = names->text[names->count];
        size_t len = 1 + random_number(state) % 40;
        for (size_t i = 0; i < len; i++)
            text[i] = letters[random_number(state) % (sizeof letters - 1)];
        names->name[names->count] = text;
    }
    return names;
}

/* Loaded libraries. */

static void *load_bytes(const unsigned char *bytes, size_t size)
{
    static unsigned serial;
    char name[32];
    snprintf(name, sizeof name, "stub-%u.so", serial++);
    const char *path = kit_tmpfile(name);
    FILE *file = fopen(path, "w");
    kit_expect(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "%s", strerror(errno));
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    kit_expect(library, "%s", dlerror());
    return library;
}

static void *load(const struct names *names)
{
    size_t size;
    unsigned char *bytes = stub_make(STUB_HERE, names->name, names->count, &size);
    kit_expect(bytes, "%s", strerror(errno));
    void *library = load_bytes(bytes, size);
    free(bytes);
    return library;
}

static struct tdi_stub_entry *call(void *library, const char *name)
{
    hooked_function *function;
    *(void **)&function = dlsym(library, name);
    kit_expect(function, "%s is not found", name);
    return function();
}

static void expect_all_found(void *library, const struct names *names)
{
    const struct tdi_stub_entry *table = dlsym(library, TDI_STUB_TABLE);
    kit_expect(table, "no table");
    for (size_t i = 0; i < names->count; i++) {
        const struct tdi_stub_entry *entry = call(library, names->name[i]);
        ck_assert_str_eq(entry->name, names->name[i]);
        ck_assert_ptr_null(entry->hook);
        ck_assert_int_eq((const char *)entry - (const char *)table,
                         (entry - table) * (long)sizeof *entry); /* an element of the table */
        ck_assert(entry >= table && entry < table + names->count + 3);
    }
}

START_TEST(each_function_hands_over_its_own_entry)
{
    static const size_t counts[] = {0, 1, 2, 30, 128, 256};
    for (size_t i = 0; i < LEN(counts); i++) {
        struct names *names = numbered_names(counts[i]);
        void *library = load(names);
        expect_all_found(library, names);
        dlclose(library);
        free(names);
    }
}
END_TEST

START_TEST(the_table_has_each_name_once_in_order_and_ends)
{
    static const char *const expected[] = {"SSL_write", "a", "dlclose", "dlsym", "dlvsym", "write"};
    struct names names = {.name = {"write", "dlsym", "a", "write", "SSL_write"}, .count = 5};
    void *library = load(&names);
    struct tdi_stub_entry *table = dlsym(library, TDI_STUB_TABLE);
    kit_expect(table, "no table");
    for (size_t i = 0; i < LEN(expected); i++)
        ck_assert_str_eq(table[i].name, expected[i]);
    ck_assert_ptr_null(table[LEN(expected)].name);
    ck_assert_ptr_null(table[LEN(expected)].hook);
    table[0].hook = table; /* it can be filled */
    ck_assert_ptr_eq(call(library, "SSL_write")->hook, table);
    dlclose(library);
}
END_TEST

/* Hides the better of the two hash tables from the dynamic linker. */
static void drop_gnu_hash(unsigned char *bytes, size_t size)
{
    const int64_t tag = DT_GNU_HASH, unknown = 0x6000000f;
    unsigned char *at = memmem(bytes, size, &tag, sizeof tag);
    kit_expect(at, "no DT_GNU_HASH");
    memcpy(at, &unknown, sizeof unknown);
}

static void look_up_random_names(bool by_gnu_hash)
{
    uint64_t state = 1;
    for (size_t round = 0; round < 40; round++) {
        size_t size;
        struct names *names = random_names(&state, 1 + random_number(&state) % 200);
        struct names *others = random_names(&state, 200);
        unsigned char *bytes = stub_make(STUB_HERE, names->name, names->count, &size);
        kit_expect(bytes, "%s", strerror(errno));
        if (!by_gnu_hash)
            drop_gnu_hash(bytes, size);
        void *library = load_bytes(bytes, size);
        expect_all_found(library, names);
        for (size_t i = 0; i < others->count; i++)
            if (strlen(others->name[i]) > 4) /* short ones may be among the names */
                ck_assert_ptr_null(dlsym(library, others->name[i]));
        dlclose(library);
        free(bytes);
        free(others);
        free(names);
    }
}

START_TEST(names_and_no_others_are_found_by_either_hash_table)
{
    look_up_random_names(true);
    look_up_random_names(false);
}
END_TEST

START_TEST(only_the_table_can_be_written_to_once_it_is_loaded)
{
    struct names names = {.name = {"a"}, .count = 1};
    void *library = load(&names);
    const uintptr_t table = (uintptr_t)dlsym(library, TDI_STUB_TABLE);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4200], mode[8];
    unsigned found = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (!strstr(line, "/stub-") || sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3)
            continue;
        found++;
        ck_assert_msg((mode[1] == 'w') == (start <= table && table < end), "%s", line);
        ck_assert_msg(mode[1] != 'w' || mode[2] != 'x', "%s", line);
    }
    ck_assert_uint_ge(found, 4);
    fclose(maps);
    dlclose(library);
}
END_TEST

START_TEST(it_can_be_preloaded)
{
    static const char *const names[] = {"first", "second", "unlink"};
    char path[STUB_PATH], command[STUB_PATH * 2];
    size_t size;
    unsigned char *bytes = stub_make(STUB_HERE, names, LEN(names), &size);
    ck_assert_int_eq(stub_store(bytes, size, TDI_STUB_FILE, ".so", true, path), 0);
    snprintf(command, sizeof command, "LD_PRELOAD='%s' '%s' 2>&1", path, STUB_CALLER);
    ck_assert_int_eq(system(command), 0);
    free(bytes);
}
END_TEST

/* The bytes of either machine. */

static const Elf64_Phdr *segments_of(const unsigned char *bytes, size_t *count)
{
    const Elf64_Ehdr *header = (const void *)bytes;
    *count = header->e_phnum;
    return (const void *)(bytes + header->e_phoff);
}

static const void *at_address(const unsigned char *bytes, uint64_t address)
{
    size_t count;
    const Elf64_Phdr *segment = segments_of(bytes, &count);
    for (; count > 0; segment++, count--)
        if (segment->p_type == PT_LOAD && address - segment->p_vaddr < segment->p_filesz)
            return bytes + segment->p_offset + (address - segment->p_vaddr);
    kit_fail("%#lx is nowhere", (unsigned long)address);
}

static uint64_t tag_of(const unsigned char *bytes, int64_t tag)
{
    size_t count;
    const Elf64_Phdr *segment = segments_of(bytes, &count);
    while (segment->p_type != PT_DYNAMIC)
        segment++;
    for (const Elf64_Dyn *dynamic = (const void *)(bytes + segment->p_offset); dynamic->d_tag; dynamic++)
        if (dynamic->d_tag == tag)
            return dynamic->d_un.d_val;
    kit_fail("no tag %ld", (long)tag);
}

static const Elf64_Sym *symbol_of(const unsigned char *bytes, const char *name)
{
    const char *strings = at_address(bytes, tag_of(bytes, DT_STRTAB));
    const Elf64_Sym *symbols = at_address(bytes, tag_of(bytes, DT_SYMTAB));
    const uint32_t *hash = at_address(bytes, tag_of(bytes, DT_HASH));
    for (uint32_t i = 1; i < hash[1]; i++)
        if (strcmp(strings + symbols[i].st_name, name) == 0)
            return &symbols[i];
    kit_fail("no symbol %s", name);
}

/* Where the address of the function behind the hooks comes to stand. */
static uint64_t enter_of(const unsigned char *bytes)
{
    const Elf64_Rela *relocations = at_address(bytes, tag_of(bytes, DT_RELA));
    const Elf64_Rela *last = relocations + tag_of(bytes, DT_RELASZ) / sizeof *last - 1;
    const Elf64_Sym *symbols = at_address(bytes, tag_of(bytes, DT_SYMTAB));
    ck_assert_ptr_eq(&symbols[ELF64_R_SYM(last->r_info)], symbol_of(bytes, TDI_STUB_ENTER));
    return last->r_offset;
}

static uint64_t add_distance(uint64_t here, const unsigned char *field)
{
    int32_t distance;
    memcpy(&distance, field, sizeof distance);
    return here + (uint64_t)(int64_t)distance;
}

static void check_x86_64(const unsigned char *code, uint64_t here, uint64_t entry, uint64_t enter)
{
    ck_assert_mem_eq(code, "\xf3\x0f\x1e\xfa\x4c\x8d\x15", 7);
    ck_assert_uint_eq(add_distance(here + 11, code + 7), entry);
    ck_assert_mem_eq(code + 11, "\xff\x25", 2);
    ck_assert_uint_eq(add_distance(here + 17, code + 13), enter);
}

static uint64_t adrp_target(uint32_t word, uint64_t here)
{
    int64_t distance = (int64_t)(word >> 29 & 3) | (int64_t)(word >> 5 & 0x7ffff) << 2;
    return ((here >> 12) + (uint64_t)(distance & 0x100000 ? distance - 0x200000 : distance)) << 12;
}

static void check_aarch64(const unsigned char *code, uint64_t here, uint64_t entry, uint64_t enter)
{
    uint32_t word[6];
    memcpy(word, code, sizeof word);
    ck_assert_uint_eq(word[0], 0xd503245f);
    ck_assert_uint_eq(word[1] & 0x9f00001f, 0x90000011);
    ck_assert_uint_eq(word[2] & 0xffc003ff, 0x91000231);
    ck_assert_uint_eq(adrp_target(word[1], here + 4) + (word[2] >> 10 & 0xfff), entry);
    ck_assert_uint_eq(word[3] & 0x9f00001f, 0x90000010);
    ck_assert_uint_eq(word[4] & 0xffc003ff, 0xf9400210);
    ck_assert_uint_eq(adrp_target(word[3], here + 12) + (word[4] >> 10 & 0xfff) * 8, enter);
    ck_assert_uint_eq(word[5], 0xd61f0200);
}

static void check_code(enum stub_machine machine, const unsigned char *bytes, size_t names)
{
    const Elf64_Rela *relative = at_address(bytes, tag_of(bytes, DT_RELA));
    ck_assert_uint_eq(tag_of(bytes, DT_RELACOUNT), names + 3);
    for (size_t i = 0; i < names + 3; i++, relative++) {
        const char *name = at_address(bytes, (uint64_t)relative->r_addend);
        const Elf64_Sym *symbol = symbol_of(bytes, name);
        const uint64_t entry = relative->r_offset - offsetof(struct tdi_stub_entry, name);
        const unsigned char *code = at_address(bytes, symbol->st_value);
        ck_assert_uint_gt(symbol->st_size, 0);
        (machine == STUB_X86_64 ? check_x86_64 : check_aarch64)(code, symbol->st_value, entry,
                                                                enter_of(bytes));
    }
}

START_TEST(the_code_addresses_its_entry_and_the_pointer)
{
    static const size_t counts[] = {0, 1, 30, 128, 256};
    for (size_t i = 0; i < LEN(machines) * LEN(counts); i++) {
        size_t size;
        struct names *names = numbered_names(counts[i / LEN(machines)]);
        unsigned char *bytes = stub_make(machines[i % LEN(machines)], names->name, names->count, &size);
        check_code(machines[i % LEN(machines)], bytes, names->count);
        free(bytes);
        free(names);
    }
}
END_TEST

static void check_segments(const unsigned char *bytes, size_t size, uint64_t page)
{
    size_t count;
    uint64_t free_from = 0;
    const Elf64_Phdr *segment = segments_of(bytes, &count);
    for (; count > 0; segment++, count--) {
        if (segment->p_type != PT_GNU_STACK)
            ck_assert_uint_le(segment->p_offset + segment->p_filesz, size);
        ck_assert_uint_ne(segment->p_flags & (PF_W | PF_X), PF_W | PF_X);
        if (segment->p_type == PT_GNU_RELRO)
            ck_assert_uint_eq((segment->p_vaddr + segment->p_memsz) % page, 0);
        if (segment->p_type != PT_LOAD)
            continue;
        ck_assert_uint_eq(segment->p_align, page);
        ck_assert_uint_eq(segment->p_vaddr % page, segment->p_offset % page);
        ck_assert_uint_ge(segment->p_vaddr / page * page, free_from);
        free_from = (segment->p_vaddr + segment->p_memsz + page - 1) / page * page;
    }
}

START_TEST(no_page_is_of_two_segments_and_none_is_both_written_and_run)
{
    for (size_t i = 0; i < 2 * 257; i++) {
        size_t size;
        struct names *names = numbered_names(i / 2);
        unsigned char *bytes = stub_make(machines[i % 2], names->name, names->count, &size);
        check_segments(bytes, size, pages[i % 2]);
        free(bytes);
        free(names);
    }
}
END_TEST

START_TEST(it_is_small)
{
    size_t size;
    for (size_t i = 0; i < LEN(machines); i++) {
        free(stub_make(machines[i], few, 1, &size));
        ck_assert_uint_lt(size, 2048);
    }
}
END_TEST

START_TEST(the_same_names_are_the_same_bytes)
{
    static const char *const shuffled[] = {"a", "write", "dlsym", "SSL_write", "a"};
    for (size_t i = 0; i < LEN(machines); i++) {
        size_t size, other_size;
        unsigned char *bytes = stub_make(machines[i], few, LEN(few), &size);
        unsigned char *other = stub_make(machines[i], shuffled, LEN(shuffled), &other_size);
        ck_assert_uint_eq(size, other_size);
        ck_assert_mem_eq(bytes, other, size);
        free(other);
        other = stub_make(machines[i], few, LEN(few) - 1, &other_size);
        ck_assert(size != other_size || memcmp(bytes, other, size) != 0);
        free(other);
        free(bytes);
    }
}
END_TEST

START_TEST(a_machine_without_code_is_an_error)
{
    size_t size;
    errno = 0;
    ck_assert_ptr_null(stub_make(STUB_UNKNOWN, few, LEN(few), &size));
    ck_assert_int_eq(errno, ENOTSUP);
}
END_TEST

START_TEST(readelf_has_nothing_to_complain_of)
{
    char command[STUB_PATH * 2];
    if (system("command -v readelf >/dev/null 2>&1") != 0)
        return;
    for (size_t i = 0; i < LEN(machines); i++) {
        size_t size;
        unsigned char *bytes = stub_make(machines[i], few, LEN(few), &size);
        FILE *file = fopen(kit_tmpfile("stub.so"), "w");
        ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
        fclose(file);
        snprintf(command, sizeof command,
                 "cd '%s' && LC_ALL=C readelf -W -h -l -d -n -r -D -s stub.so >out 2>err && ! test -s err && "
                 "! grep -i -e warning -e corrupt -e error out && grep -q SSL_write out",
                 kit_tmpdir());
        ck_assert_int_eq(system(command), 0);
        free(bytes);
    }
}
END_TEST

static Suite *stub(void)
{
    if (STUB_HERE == STUB_UNKNOWN)
        kit_skip("there are no hook libraries for this machine");
    Suite *suite = suite_create("stub");
    TCase *loaded = kit_case(suite, "loaded");
    tcase_add_test(loaded, each_function_hands_over_its_own_entry);
    tcase_add_test(loaded, the_table_has_each_name_once_in_order_and_ends);
    tcase_add_test(loaded, names_and_no_others_are_found_by_either_hash_table);
    tcase_add_test(loaded, only_the_table_can_be_written_to_once_it_is_loaded);
    tcase_add_test(loaded, it_can_be_preloaded);
    TCase *bytes = kit_case(suite, "bytes");
    tcase_add_test(bytes, the_code_addresses_its_entry_and_the_pointer);
    tcase_add_test(bytes, no_page_is_of_two_segments_and_none_is_both_written_and_run);
    tcase_add_test(bytes, it_is_small);
    tcase_add_test(bytes, the_same_names_are_the_same_bytes);
    tcase_add_test(bytes, a_machine_without_code_is_an_error);
    tcase_add_test(bytes, readelf_has_nothing_to_complain_of);
    return suite;
}

KIT_MAIN(stub)
