/* SPDX-License-Identifier: MIT */
/* The mapped file's numbers against the contract: a change of the format is made knowingly or not at all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/layout.h"
#include "unit.h"

enum {
    LINE_MAX_LEN = 200,
};

/* The next line of the contract that says something, as name and number; false at the end. */
static bool next_line(FILE *in, char name[LINE_MAX_LEN], uint64_t *number)
{
    char line[LINE_MAX_LEN];
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = '\0';
        char *space = strrchr(line, ' ');
        if (line[0] == '#' || !space)
            continue;
        *space = '\0';
        strcpy(name, line);
        ck_assert_msg(sscanf(space + 1, "%" SCNu64, number) == 1, "no number after '%s'", name);
        return true;
    }
    return false;
}

START_TEST(the_layout_is_the_one_of_the_contract)
{
    char name[LINE_MAX_LEN];
    uint64_t number;
    FILE *in = fopen(LAYOUT, "r");
    ck_assert_msg(in != NULL, "%s: %s", LAYOUT, strerror(errno));
    const struct tdi_layout_fact *fact = tdi_layout_facts;
    for (; next_line(in, name, &number); fact++) {
        ck_assert_msg(fact->name != NULL, "the contract goes on with '%s'", name);
        ck_assert_str_eq(fact->name, name);
        ck_assert_msg(fact->number == number, "%s is %" PRIu64 ", the contract says %" PRIu64, name,
                      fact->number, number);
    }
    ck_assert_msg(fact->name == NULL, "the contract lacks '%s'", fact->name ? fact->name : "");
    fclose(in);
}
END_TEST

START_TEST(the_fingerprint_is_made_of_all_the_numbers)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const struct tdi_layout_fact *fact = tdi_layout_facts; fact->name; fact++)
        for (int byte = 0; byte < 8; byte++)
            hash = (hash ^ (fact->number >> 8 * byte & 0xff)) * UINT64_C(1099511628211);
    ck_assert_uint_eq(tdi_layout_fingerprint(), hash);
}
END_TEST

START_TEST(what_different_processes_write_lies_on_different_lines)
{
    const size_t word = offsetof(struct tdi_layout, word);
    ck_assert_uint_eq(word % TDI_LINE_SIZE, 0);
    ck_assert_uint_ge(offsetof(struct tdi_layout, record), word + TDI_LINE_SIZE);
    ck_assert_uint_ge(word, offsetof(struct tdi_layout, head) + sizeof(struct tdi_layout_head));
    ck_assert_uint_eq(offsetof(struct tdi_layout, instance) % TDI_LINE_SIZE, 0);
    ck_assert_uint_eq(sizeof(struct tdi_layout_instance) % TDI_LINE_SIZE, 0);
}
END_TEST

START_TEST(the_magic_can_be_read_by_people)
{
    const uint64_t magic = TDI_LAYOUT_MAGIC;
    const uint16_t one = 1;
    if (*(const unsigned char *)&one == 1)
        ck_assert_mem_eq(&magic, "tundish\n", 8);
}
END_TEST

static Suite *layout(void)
{
    Suite *suite = suite_create("layout");
    TCase *contract = unit_case(suite, "contract");
    tcase_add_test(contract, the_layout_is_the_one_of_the_contract);
    tcase_add_test(contract, the_fingerprint_is_made_of_all_the_numbers);
    tcase_add_test(contract, what_different_processes_write_lies_on_different_lines);
    tcase_add_test(contract, the_magic_can_be_read_by_people);
    return suite;
}

KIT_MAIN(layout)
