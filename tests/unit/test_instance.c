/* SPDX-License-Identifier: MIT */
/* The table of handles: entries are claimed, signed and cleared, and nobody is taken for somebody else. */
#include <errno.h>
#include <string.h>

#include "core/instance.h"
#include "unit.h"

static struct tdi_layout *new_file(void)
{
    struct tdi_config config = unit_config(10, 5, SECOND_US, 0);
    return unit_file(&config, 10);
}

static struct tdi_identity identity(uint32_t pid, const char *program)
{
    struct tdi_identity who = {
        .pid = pid, .start_time = 1000 + pid, .pid_namespace = UINT64_C(1) << 40 | pid};
    memcpy(who.program, program, strlen(program));
    return who;
}

static int enter(struct tdi_layout *file, const struct tdi_identity *who, struct tdi_instance *out)
{
    return tdi_instance_enter(file, who, tdi_instance_number(file), out);
}

static uint64_t owner_at(const struct tdi_layout *file, uint32_t index)
{
    return atomic_load(&file->instance[index].owner);
}

START_TEST(who_enters_is_found_with_all_it_said)
{
    struct tdi_layout *file = new_file();
    struct tdi_identity who = identity(4711, "fifteen-letters"), read;
    struct tdi_instance mine, found;
    ck_assert_int_eq(enter(file, &who, &mine), 0);
    ck_assert_uint_ne((uint32_t)mine.owner, 0);
    ck_assert(tdi_instance_get(file, mine.index, &found, &read));
    ck_assert_uint_eq(found.owner, mine.owner);
    ck_assert_uint_eq(found.index, mine.index);
    ck_assert_uint_eq(read.pid, who.pid);
    ck_assert_uint_eq(read.start_time, who.start_time);
    ck_assert_uint_eq(read.pid_namespace, who.pid_namespace);
    ck_assert_str_eq(read.program, "fifteen-letters");
    tdi_instance_leave(file, &mine);
    ck_assert(!tdi_instance_get(file, mine.index, &found, &read));
}
END_TEST

START_TEST(a_full_table_refuses_and_a_freed_entry_is_used_again)
{
    struct tdi_layout *file = new_file();
    struct tdi_identity who = identity(1, "many");
    struct tdi_instance all[TDI_LAYOUT_INSTANCES], another;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++) {
        ck_assert_int_eq(enter(file, &who, &all[i]), 0);
        for (uint32_t j = 0; j < i; j++)
            ck_assert(all[j].index != all[i].index && all[j].owner != all[i].owner);
    }
    ck_assert_uint_eq(tdi_instance_count(file), TDI_LAYOUT_INSTANCES);
    ck_assert_int_eq(enter(file, &who, &another), -ENOSPC);
    ck_assert_uint_eq(another.owner, 0);
    tdi_instance_leave(file, &another); /* means nothing and does nothing */
    tdi_instance_leave(file, &all[17]);
    ck_assert_uint_eq(tdi_instance_count(file), TDI_LAYOUT_INSTANCES - 1);
    ck_assert_int_eq(enter(file, &who, &another), 0);
    ck_assert_uint_eq(another.index, all[17].index);
    ck_assert_uint_ne(another.owner, all[17].owner);
    ck_assert_int_eq(enter(file, &who, &another), -ENOSPC);
}
END_TEST

START_TEST(leaving_twice_does_not_throw_out_the_next_one)
{
    struct tdi_layout *file = new_file();
    struct tdi_identity who = identity(5, "first"), other = identity(5, "second"), read;
    struct tdi_instance first, second, found;
    enter(file, &who, &first);
    tdi_instance_leave(file, &first);
    enter(file, &other, &second);
    ck_assert_uint_eq(second.index, first.index);
    tdi_instance_leave(file, &first);
    ck_assert(tdi_instance_get(file, second.index, &found, &read));
    ck_assert_str_eq(read.program, "second");
}
END_TEST

START_TEST(an_identity_that_another_owner_signed_is_not_taken_over)
{
    struct tdi_layout *file = new_file();
    struct tdi_identity who = identity(5, "former"), read;
    struct tdi_instance former, found;
    enter(file, &who, &former);
    tdi_instance_leave(file, &former);
    /* The next one was killed right after its claim. */
    uint64_t claimed = UINT64_C(6) << 32 | 99;
    atomic_store(&file->instance[former.index].owner, claimed);
    memset(&read, 0xff, sizeof read);
    ck_assert(tdi_instance_get(file, former.index, &found, &read));
    ck_assert_uint_eq(found.owner, claimed);
    ck_assert_uint_eq(read.pid, 6);
    ck_assert_uint_eq(read.start_time, 0);
    ck_assert_uint_eq(read.pid_namespace, 0);
    ck_assert_str_eq(read.program, "");
    tdi_instance_leave(file, &found);
    ck_assert_uint_eq(owner_at(file, former.index), 0);
}
END_TEST

START_TEST(who_was_last_is_known_until_somebody_else_comes)
{
    struct tdi_layout *file = new_file();
    struct tdi_identity who = identity(5, "former"), next = identity(6, "next"), read;
    struct tdi_instance former, later;
    ck_assert(!tdi_instance_get_last(file, 0, &read));
    enter(file, &who, &former);
    ck_assert(tdi_instance_get_last(file, former.index, &read));
    ck_assert_str_eq(read.program, "former");
    tdi_instance_leave(file, &former);
    ck_assert(tdi_instance_get_last(file, former.index, &read));
    ck_assert_uint_eq(read.pid, 5);
    ck_assert_str_eq(read.program, "former");
    /* The next one has claimed the entry and may be in the middle of writing who it is. */
    atomic_store(&file->instance[former.index].owner, UINT64_C(6) << 32 | 99);
    ck_assert(!tdi_instance_get_last(file, former.index, &read));
    atomic_store(&file->instance[former.index].owner, 0);
    enter(file, &next, &later);
    ck_assert_uint_eq(later.index, former.index);
    ck_assert(tdi_instance_get_last(file, former.index, &read));
    ck_assert_uint_eq(read.pid, 6);
    ck_assert_str_eq(read.program, "next");
}
END_TEST

START_TEST(numbers_skip_0_where_they_begin_again)
{
    struct tdi_layout *file = new_file();
    atomic_store(&file->instances.next_owner, UINT32_MAX - 1);
    uint32_t last = 0;
    for (int i = 0; i < 5; i++) {
        uint32_t number = tdi_instance_number(file);
        ck_assert_uint_ne(number, 0);
        ck_assert_uint_ne(number, last);
        last = number;
    }
}
END_TEST

START_TEST(a_program_name_without_an_end_is_cut)
{
    struct tdi_layout *file = new_file();
    struct tdi_identity who = identity(7, "x"), read;
    struct tdi_instance mine, found;
    memset(who.program, 'y', sizeof who.program);
    enter(file, &who, &mine);
    ck_assert(tdi_instance_get(file, mine.index, &found, &read));
    ck_assert_str_eq(read.program, "yyyyyyyyyyyyyyy");
}
END_TEST

START_TEST(handles_without_an_entry_are_counted)
{
    struct tdi_layout *file = new_file();
    ck_assert_uint_eq(tdi_instance_unlisted(file), 0);
    tdi_instance_count_unlisted(file);
    tdi_instance_count_unlisted(file);
    ck_assert_uint_eq(tdi_instance_unlisted(file), 2);
}
END_TEST

static Suite *instance(void)
{
    Suite *suite = suite_create("instance");
    TCase *table = unit_case(suite, "table");
    tcase_add_test(table, who_enters_is_found_with_all_it_said);
    tcase_add_test(table, a_full_table_refuses_and_a_freed_entry_is_used_again);
    tcase_add_test(table, leaving_twice_does_not_throw_out_the_next_one);
    tcase_add_test(table, an_identity_that_another_owner_signed_is_not_taken_over);
    tcase_add_test(table, who_was_last_is_known_until_somebody_else_comes);
    tcase_add_test(table, numbers_skip_0_where_they_begin_again);
    tcase_add_test(table, a_program_name_without_an_end_is_cut);
    tcase_add_test(table, handles_without_an_entry_are_counted);
    return suite;
}

KIT_MAIN(instance)
