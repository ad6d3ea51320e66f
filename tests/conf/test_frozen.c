/* SPDX-License-Identifier: MIT */
/*
 * The frozen form: what is written can be read back, and nothing else can: whatever bytes a file holds, it is
 * refused, or all that is done with it stays within bounds (which the sanitizers see).
 */
#include "conf/describe.h"
#include "kit/kit.h"
#include "policy/cases.h"
#include "policy/signature.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char example[] = "[bucket \"api\"]\n"
                              "rate = 10MB/s\n"
                              "[bucket \"host-%h\"]\n"
                              "rate = 5/s\n"
                              "[rule \"bytes\"]\n"
                              "calls = SSL_write, copy\n"
                              "bucket = api, other\n"
                              "when-empty = refuse\n"
                              "[rule \"hosts\"]\n"
                              "bucket = host-%h\n"
                              "dest = 10.0.0.0/8:443, [2001:db8::]/32, unix\n"
                              "program = curl, wget\n"
                              "max-wait = 2s\n"
                              "[rule \"files\"]\n"
                              "calls = open, connect\n"
                              "rate = 5/s\n"
                              "skip = wget\n"
                              "[hook \"SSL_write\"]\n"
                              "refuse = -1 EAGAIN\n"
                              "library = libssl.so.3\n"
                              "[hook \"copy\"]\n"
                              "signature = long (pointer, pointer, int, ...int)\n"
                              "cost = iov(arg2, arg3)\n"
                              "refuse = 0 ENOMEM\n";

static struct tdi_conf conf;
static struct tdi_frozen frozen, copy;
static struct tdi_policy policy;
static const char *why;

static void freeze(const char *text)
{
    char *complaints;
    (void)read_conf(&conf, text, strlen(text), &complaints);
    ck_assert_str_eq(complaints, "");
    free(complaints);
    frozen = conf.frozen;
    tdi_frozen_seal(&frozen);
}

static void freeze_example(void)
{
    freeze(example);
}

/* As it is read from a file that was written. */
static int check_written(size_t size)
{
    memset(&copy, 0, sizeof copy);
    memcpy(&copy, &frozen, size);
    return tdi_frozen_check(&copy, size, &why);
}

START_TEST(what_is_written_is_read_back)
{
    ck_assert_int_eq(check_written(tdi_frozen_size(&frozen)), 0);
    ck_assert_ptr_null(why);
    ck_assert_uint_eq(copy.rules, 3);
    tdi_frozen_init(&frozen);
    tdi_frozen_seal(&frozen);
    ck_assert_int_eq(check_written(tdi_frozen_size(&frozen)), 0);
}
END_TEST

START_TEST(a_part_of_it_is_refused)
{
    for (size_t size = 0; size < tdi_frozen_size(&frozen); size += size < 64 ? 1 : 997) {
        ck_assert_int_eq(check_written(size), -EINVAL);
        ck_assert_str_eq(why, size < 16   ? "is no frozen configuration"
                              : size < 44 ? why
                                          : "is not as long as it says");
    }
    ck_assert_int_eq(check_written(tdi_frozen_size(&frozen) + 1), -EINVAL);
    ck_assert_str_eq(why, "is not as long as it says");
}
END_TEST

START_TEST(a_changed_byte_is_noticed)
{
    const size_t size = tdi_frozen_size(&frozen);
    for (size_t at = 0; at < size; at += at < 128 || at + 700 > size ? 1 : 31) {
        ((unsigned char *)&frozen)[at] ^= 0x10;
        ck_assert_int_eq(check_written(size), -EINVAL);
        ((unsigned char *)&frozen)[at] ^= 0x10;
    }
    ck_assert_int_eq(check_written(size), 0);
}
END_TEST

START_TEST(another_version_is_named_as_such)
{
    frozen.fingerprint++;
    ck_assert_int_eq(check_written(tdi_frozen_size(&frozen)), -EINVAL);
    ck_assert_str_eq(why, "was frozen by another version of tundish");
}
END_TEST

START_TEST(a_refusal_must_be_one_that_the_function_can_return)
{
    static const struct tdi_refusal wrong[] = {
        {1, EAGAIN, INT64_C(1) << 31}, {1, 0, INT64_MIN}, {1, 4000, -1}, {1, -EAGAIN, -1}, {2, 0, 0}};
    const struct tdi_refusal right = {1, 0, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        frozen.hook[0].refusal = wrong[i];
        tdi_frozen_seal(&frozen);
        ck_assert_int_eq(check_written(tdi_frozen_size(&frozen)), -EINVAL);
    }
    frozen.hook[0].refusal = right;
    tdi_frozen_seal(&frozen);
    ck_assert_int_eq(check_written(tdi_frozen_size(&frozen)), 0);
}
END_TEST

/* What a preloaded library does with a rule. */
static void use_rule(const struct tdi_policy_rule *rule)
{
    static const uint8_t address[16] = {10, 0, 0, 1};
    char name[64];
    tdi_policy_rule_name(name, sizeof name, &policy, rule);
    for (uint32_t i = 0; i < rule->buckets; i++)
        (void)tdi_policy_name_has(tdi_policy_bucket(&policy, rule, i), "hP");
    for (enum tdi_kind kind = TDI_KIND_OTHER; kind <= TDI_KIND_TTY; kind++) {
        (void)tdi_policy_reaches(&policy, rule, kind);
        (void)tdi_policy_matches(&policy, rule, kind, kind <= TDI_KIND_INET6 ? address : NULL, 443);
    }
    ck_assert(rule->buckets > 0 || rule->has_rate);
}

/* And with a hook; the costs that read a caller's memory are only looked at. */
static void use_hook(const struct tdi_frozen_hook *hook)
{
    const char *signature = tdi_frozen_text(&frozen, hook->signature);
    uint64_t result[2], value = 0;
    void *args[TDI_SIGNATURE_ARGS];
    char text[512];
    for (size_t i = 0; i < TDI_SIGNATURE_ARGS; i++)
        args[i] = &value;
    ck_assert_uint_gt(strlen(tdi_frozen_text(&frozen, hook->symbol)), 0);
    ck_assert_uint_le(tdi_signature_args(signature), TDI_SIGNATURE_ARGS);
    tdi_signature_format(text, sizeof text, signature);
    tdi_cost_format(text, sizeof text, &hook->cost);
    tdi_refusal_format(text, sizeof text, &hook->refusal, signature);
    (void)tdi_cost_before(&hook->cost, args);
    if (hook->refusal.stated)
        tdi_refusal_write(&hook->refusal, signature, result);
}

static void use(void)
{
    static const char *const programs[] = {"", "curl", "wget"};
    char line[128];
    for (size_t i = 0; i < 3; i++) {
        memset(&policy, 0, sizeof policy);
        (void)tdi_frozen_add(&policy, &frozen, programs[i], line, sizeof line);
        ck_assert_uint_le(policy.text_used, TDI_POLICY_TEXT);
        ck_assert_int_eq(policy.applies, policy.rules > 0);
        for (uint32_t rule = 0; rule < policy.rules; rule++)
            use_rule(&policy.rule[rule]);
    }
    for (uint32_t i = 0; i < frozen.hooks; i++)
        use_hook(&frozen.hook[i]);
}

/* A place that means something: the head, an entry in use, or the text. */
static size_t choose_place(uint64_t *state, const struct tdi_frozen *whole)
{
    const size_t size[] = {offsetof(struct tdi_frozen, rule), whole->rules * sizeof *whole->rule,
                           whole->dests * sizeof *whole->dest, whole->hooks * sizeof *whole->hook,
                           whole->text_used};
    const size_t start[] = {0, offsetof(struct tdi_frozen, rule), offsetof(struct tdi_frozen, dest),
                            offsetof(struct tdi_frozen, hook), offsetof(struct tdi_frozen, text)};
    const size_t part = cases_random(state) % 5;
    return start[part] + cases_random(state) % size[part];
}

static void damage(uint64_t *state, const struct tdi_frozen *whole)
{
    static const unsigned char bytes[] = {0, 1, 2, 0x20, 0x7f, 0x80, 0xff};
    unsigned char *at = (unsigned char *)&frozen + choose_place(state, whole);
    switch (cases_random(state) % 3) {
    case 0:
        *at ^= (unsigned char)(1U << cases_random(state) % 8);
        break;
    case 1:
        *at = bytes[cases_random(state) % sizeof bytes];
        break;
    default:
        *at = (unsigned char)cases_random(state);
    }
}

START_TEST(what_passes_can_be_used_whoever_wrote_it)
{
    const struct tdi_frozen whole = frozen;
    uint64_t state = 11;
    unsigned passed = 0, refused = 0;
    for (unsigned round = 0; round < 12000; round++) {
        frozen = whole;
        for (unsigned slips = 1 + (unsigned)(cases_random(&state) % 4); slips > 0; slips--)
            damage(&state, &whole);
        frozen.magic = TDI_FROZEN_MAGIC;
        if (frozen.text_used <= TDI_FROZEN_TEXT)
            tdi_frozen_seal(&frozen);
        else
            frozen.fingerprint = whole.fingerprint;
        if (tdi_frozen_check(&frozen, offsetof(struct tdi_frozen, text) + frozen.text_used, &why) == 0) {
            passed++;
            use();
        } else {
            refused++;
        }
    }
    ck_assert_uint_gt(passed, 1000);
    ck_assert_uint_gt(refused, 1000);
}
END_TEST

START_TEST(a_program_gets_its_rules_alone)
{
    static const struct {
        const char *program;
        uint32_t rules;
        const char *names;
    } expected[] = {
        {"curl", 3, "bytes hosts files "}, {"wget", 2, "bytes hosts "}, {"nc", 2, "bytes files "}};
    for (size_t i = 0; i < 3; i++) {
        char names[256] = "", name[64], line[128];
        memset(&policy, 0, sizeof policy);
        ck_assert_int_eq(tdi_frozen_add(&policy, &frozen, expected[i].program, line, sizeof line), 0);
        ck_assert(policy.applies);
        ck_assert_uint_eq(policy.rules, expected[i].rules);
        for (uint32_t k = 0; k < policy.rules; k++) {
            tdi_policy_rule_name(name, sizeof name, &policy, &policy.rule[k]);
            ck_assert_int_eq(strncmp(name, "rule \"", 6), 0);
            name[strlen(name) - 1] = '\0';
            strcat(strcat(names, name + 6), " ");
        }
        ck_assert_str_eq(names, expected[i].names);
    }
}
END_TEST

START_TEST(rules_are_added_behind_those_of_the_environment)
{
    char words[] = "TUNDISH_2_BUCKET=mine", dest[] = "TUNDISH_2_DEST=tty", line[256];
    char *environ_words[] = {words, dest, NULL};
    ck_assert_int_eq(tdi_policy_from_environ(&policy, environ_words, "curl", line, sizeof line), 0);
    ck_assert_int_eq(tdi_frozen_add(&policy, &frozen, "curl", line, sizeof line), 0);
    ck_assert_uint_eq(policy.rules, 4);
    ck_assert_str_eq(tdi_policy_bucket(&policy, &policy.rule[0], 0), "mine");
    ck_assert_str_eq(tdi_policy_bucket(&policy, &policy.rule[1], 1), "other");
    ck_assert_str_eq(tdi_policy_bucket(&policy, &policy.rule[2], 0), "host-%h");
    ck_assert_uint_eq(policy.rule[2].dest, 1);
    ck_assert(policy.rule[2].named && !policy.rule[1].named && !policy.rule[0].named);
    ck_assert(tdi_policy_reaches(&policy, &policy.rule[2], TDI_KIND_UNIX));
    ck_assert(!tdi_policy_reaches(&policy, &policy.rule[0], TDI_KIND_UNIX));
    tdi_policy_rule_name(line, sizeof line, &policy, &policy.rule[0]);
    ck_assert_str_eq(line, "rule 2");
    tdi_policy_rule_name(line, 10, &policy, &policy.rule[1]);
    ck_assert_str_eq(line, "rule \"byt");
}
END_TEST

START_TEST(a_rule_of_hooks_alone_concerns_no_usual_call)
{
    ck_assert_uint_eq(tdi_policy_calls(&frozen.rule[0].rule, true), 0);
    ck_assert_uint_eq(tdi_policy_calls(&frozen.rule[1].rule, false), TDI_CALL_CONNECT);
    ck_assert_uint_eq(tdi_policy_calls(&frozen.rule[2].rule, false), TDI_CALL_CONNECT);
    ck_assert_uint_eq(frozen.rule[2].rule.calls, TDI_CALL_CONNECT);
}
END_TEST

static void expect_no_room(const char *text, const char *complaint, uint32_t rules)
{
    char line[256];
    freeze(text);
    frozen.source = tdi_frozen_keep(&frozen, "/etc/t.conf", 11);
    memset(&policy, 0, sizeof policy);
    ck_assert_int_eq(tdi_frozen_add(&policy, &frozen, "curl", line, sizeof line), -EINVAL);
    ck_assert_str_eq(line, complaint);
    ck_assert_uint_eq(policy.rules, rules);
    ck_assert(policy.applies);
}

START_TEST(rules_that_do_not_fit_are_complained_about)
{
    char text[16384] = "", rule[1024], place[700] = "";
    for (int i = 0; i < 9; i++) {
        snprintf(rule, sizeof rule, "[rule \"r%d\"]\nrate = 1/s\n", i);
        strcat(text, rule);
    }
    expect_no_room(text, "more than 8 rules for curl, with rule \"r8\" of /etc/t.conf", 8);
    *text = '\0';
    for (int i = 0; i < 30; i++)
        strcat(place, i == 0 ? "tty" : ",tty");
    for (int i = 0; i < 3; i++) {
        snprintf(rule, sizeof rule, "[rule \"r%d\"]\nrate = 1/s\ndest = %s\n", i, place);
        strcat(text, rule);
    }
    expect_no_room(text, "more than 64 destinations for curl, with rule \"r2\" of /etc/t.conf", 2);
    *text = '\0';
    memset(place, 'b', sizeof place - 1);
    for (int i = 0; i < 7; i++) {
        snprintf(rule, sizeof rule, "[rule \"r%d\"]\nbucket = %s\n", i, place);
        strcat(text, rule);
    }
    expect_no_room(text, "more than 4095 bytes of names for curl, with rule \"r5\" of /etc/t.conf", 5);
}
END_TEST

START_TEST(a_text_is_kept_once)
{
    tdi_frozen_init(&frozen);
    uint16_t first = tdi_frozen_keep(&frozen, "connection", 7), second = tdi_frozen_keep(&frozen, "con", 3);
    ck_assert_uint_eq(first, 1);
    ck_assert_str_eq(tdi_frozen_text(&frozen, first), "connect");
    ck_assert_uint_eq(tdi_frozen_keep(&frozen, "connect", 7), first);
    ck_assert_uint_eq(tdi_frozen_keep(&frozen, "con", 3), second);
    ck_assert_uint_eq(frozen.text_used, 1 + 8 + 4);
}
END_TEST

START_TEST(texts_have_a_limited_room)
{
    static char text[TDI_FROZEN_TEXT];
    tdi_frozen_init(&frozen);
    memset(text, 'a', sizeof text);
    ck_assert_uint_eq(tdi_frozen_keep(&frozen, text, TDI_FROZEN_TEXT - 1), 0);
    ck_assert_uint_eq(tdi_frozen_keep(&frozen, text, TDI_FROZEN_TEXT - 2), 1);
    ck_assert_uint_eq(tdi_frozen_keep(&frozen, "b", 1), 0);
    ck_assert_uint_eq(tdi_frozen_size(&frozen), sizeof frozen - sizeof frozen.text + TDI_FROZEN_TEXT);
    tdi_frozen_seal(&frozen);
    ck_assert_int_eq(tdi_frozen_check(&frozen, tdi_frozen_size(&frozen), &why), 0);
}
END_TEST

static Suite *frozen_form(void)
{
    Suite *suite = suite_create("frozen form");
    TCase *file = kit_case(suite, "file");
    tcase_add_checked_fixture(file, freeze_example, NULL);
    tcase_add_test(file, what_is_written_is_read_back);
    tcase_add_test(file, a_part_of_it_is_refused);
    tcase_add_test(file, a_changed_byte_is_noticed);
    tcase_add_test(file, another_version_is_named_as_such);
    tcase_add_test(file, a_refusal_must_be_one_that_the_function_can_return);
    tcase_add_test(file, what_passes_can_be_used_whoever_wrote_it);
    TCase *rules = kit_case(suite, "rules");
    tcase_add_checked_fixture(rules, freeze_example, NULL);
    tcase_add_test(rules, a_program_gets_its_rules_alone);
    tcase_add_test(rules, rules_are_added_behind_those_of_the_environment);
    tcase_add_test(rules, a_rule_of_hooks_alone_concerns_no_usual_call);
    tcase_add_test(rules, rules_that_do_not_fit_are_complained_about);
    TCase *texts = kit_case(suite, "texts");
    tcase_add_test(texts, a_text_is_kept_once);
    tcase_add_test(texts, texts_have_a_limited_room);
    return suite;
}

KIT_MAIN(frozen_form)
