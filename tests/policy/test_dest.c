/* SPDX-License-Identifier: MIT */
/*
 * Destinations: the cases of the folder dests/ (see its README; a new case is a new line there), and
 * addresses and prefixes at random against inet_pton(3) and a reference that looks at one bit after another.
 */
#include "kit/kit.h"
#include "policy/address.h"
#include "policy/cases.h"
#include "policy/dest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_words[] = {
    [TDI_KIND_OTHER] = "other", [TDI_KIND_INET] = "inet", [TDI_KIND_INET6] = "inet6",
    [TDI_KIND_UNIX] = "unix",   [TDI_KIND_PIPE] = "pipe", [TDI_KIND_FILE] = "file",
    [TDI_KIND_TTY] = "tty"};

static void add_dest(FILE *out, const struct tdi_dest *dest)
{
    char address[TDI_ADDRESS_TEXT];
    fputs(kind_words[dest->kind], out);
    if (dest->kind != TDI_KIND_INET && dest->kind != TDI_KIND_INET6)
        return;
    if (dest->kind == TDI_KIND_INET)
        tdi_address_format4(address, dest->address);
    else
        tdi_address_format6(address, dest->address);
    fprintf(out, " %s/%u", address, dest->prefix);
    if (dest->port != 0)
        fprintf(out, " port %u", dest->port);
}

static void answer_dest(const char *text, char answer[CASES_TEXT])
{
    struct tdi_dest dest[2];
    char why[CASES_TEXT - 32] = "";
    int count = tdi_dest_parse(text, strlen(text), dest, why, sizeof why);
    if (count < 0) {
        cases_answer_error(count, why, answer);
        return;
    }
    FILE *out = fmemopen(answer, CASES_TEXT, "w");
    for (int i = 0; i < count; i++) {
        fputs(i > 0 ? ", " : "", out);
        add_dest(out, &dest[i]);
    }
    fclose(out);
}

/* "unix, 10.0.0.0/8 of inet 10.0.0.1 443" */
static void answer_match(const char *text, char answer[CASES_TEXT])
{
    static struct tdi_policy policy;
    char list[256], setting[300], why[CASES_TEXT] = "", kind_word[16], address_text[64];
    char rate[] = "TUNDISH_RATE=1/s";
    char *words[] = {rate, setting, NULL};
    uint8_t address[16];
    unsigned port = 0;
    const char *of = strstr(text, " of ");
    ck_assert_msg(of != NULL, "bad case: %s", text);
    snprintf(list, sizeof list, "%.*s", (int)(of - text), text);
    snprintf(setting, sizeof setting, "TUNDISH_DEST=%s", list);
    words[1] = strcmp(list, "<empty>") == 0 ? NULL : setting;
    int fields = sscanf(of, " of %15s %63s %u", kind_word, address_text, &port);
    int kind = 0;
    while (strcmp(kind_words[kind], kind_word) != 0)
        kind++;
    if (fields == 3)
        ck_assert(inet_pton(kind == TDI_KIND_INET ? AF_INET : AF_INET6, address_text, address) == 1);
    ck_assert_msg(tdi_policy_from_environ(&policy, words, "", why, sizeof why) == 0, "%s", why);
    bool matches = tdi_policy_matches(&policy, &policy.rule[0], (enum tdi_kind)kind,
                                      fields == 3 ? address : NULL, (uint16_t)port);
    ck_assert(!matches || tdi_policy_reaches(&policy, &policy.rule[0], (enum tdi_kind)kind));
    snprintf(answer, CASES_TEXT, "%s", matches ? "yes" : "no");
}

START_TEST(destinations_are_read_as_the_cases_say)
{
    cases_check(DESTS "/good.txt", answer_dest);
}
END_TEST

START_TEST(what_is_no_destination_is_refused_as_the_cases_say)
{
    cases_check(DESTS "/bad.txt", answer_dest);
}
END_TEST

START_TEST(destinations_match_as_the_cases_say)
{
    cases_check(DESTS "/matches.txt", answer_match);
}
END_TEST

static void check_same_as_libc(const char *text)
{
    uint8_t ours[16] = {0}, theirs[16] = {0};
    ck_assert_msg(tdi_address_parse4(text, strlen(text), ours) == (inet_pton(AF_INET, text, theirs) == 1),
                  "as IPv4: '%s'", text);
    if (inet_pton(AF_INET, text, theirs) == 1)
        ck_assert_mem_eq(ours, theirs, 4);
    ck_assert_msg(tdi_address_parse6(text, strlen(text), ours) == (inet_pton(AF_INET6, text, theirs) == 1),
                  "as IPv6: '%s'", text);
    if (inet_pton(AF_INET6, text, theirs) == 1)
        ck_assert_mem_eq(ours, theirs, 16);
}

/* Zeros are frequent, since they are what the short form is about. */
static void make_address(uint64_t *state, uint8_t address[16])
{
    for (int i = 0; i < 16; i += 2) {
        bool zero = cases_random(state) % 2;
        address[i] = zero ? 0 : (uint8_t)cases_random(state);
        address[i + 1] = zero ? 0 : (uint8_t)cases_random(state);
    }
    if (cases_random(state) % 4 == 0)
        memcpy(address, (uint8_t[12]){[10] = 0xff, [11] = 0xff}, 12);
}

START_TEST(addresses_are_read_as_libc_reads_them)
{
    static const char signs[] = "0123456789abcdefABCDEFg.:::: %/";
    uint64_t state = 3;
    for (unsigned i = 0; i < 60000; i++) {
        uint8_t address[16];
        char text[64];
        make_address(&state, address);
        inet_ntop(i % 3 == 0 ? AF_INET : AF_INET6, address, text, sizeof text);
        check_same_as_libc(text);
        for (unsigned slips = (unsigned)(cases_random(&state) % 3) + 1; slips > 0; slips--)
            text[cases_random(&state) % strlen(text)] = signs[cases_random(&state) % (sizeof signs - 1)];
        check_same_as_libc(text);
        memmove(text, text + 1, strlen(text));
        check_same_as_libc(text);
    }
}
END_TEST

START_TEST(any_few_signs_are_read_as_libc_reads_them)
{
    static const char signs[] = "01f:::::.";
    uint64_t state = 4;
    for (unsigned i = 0; i < 60000; i++) {
        char text[24] = "";
        for (size_t n = 0, len = cases_random(&state) % 20; n < len; n++)
            text[n] = signs[cases_random(&state) % (sizeof signs - 1)];
        check_same_as_libc(text);
    }
}
END_TEST

START_TEST(a_printed_address_reads_back_as_the_same)
{
    uint64_t state = 5;
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t address[16], again[16];
        char text[TDI_ADDRESS_TEXT], theirs[64];
        make_address(&state, address);
        tdi_address_format6(text, address);
        ck_assert_msg(inet_pton(AF_INET6, text, again) == 1, "%s", text);
        ck_assert_mem_eq(address, again, 16);
        inet_ntop(AF_INET6, address, theirs, sizeof theirs);
        if (memcmp(address, (uint8_t[12]){0}, 12) != 0) /* which libc prints with an IPv4 end */
            ck_assert_str_eq(text, theirs);
        tdi_address_format4(text, address);
        inet_ntop(AF_INET, address, theirs, sizeof theirs);
        ck_assert_str_eq(text, theirs);
    }
}
END_TEST

static bool bit(const uint8_t *address, unsigned i)
{
    return (address[i / 8] >> (7 - i % 8)) & 1;
}

/* What is asked of one network: it has as many bits in common with the address as chance will have it. */
struct question {
    bool six;
    unsigned bits, prefix;
    uint16_t port, asked_port;
    uint8_t network[16], address[16];
};

static struct question make_question(uint64_t *state)
{
    struct question q = {.six = cases_random(state) % 2};
    q.bits = q.six ? 128 : 32;
    q.prefix = (unsigned)(cases_random(state) % (q.bits + 1));
    q.port = (uint16_t)(cases_random(state) % 3);
    q.asked_port = (uint16_t)(cases_random(state) % 2 + 1);
    make_address(state, q.network);
    make_address(state, q.address);
    q.network[0] |= 1; /* never a mapped one */
    for (unsigned i = q.prefix; i < q.bits; i++)
        q.network[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
    unsigned shared = (unsigned)(cases_random(state) % (q.prefix + 2));
    for (unsigned i = 0; i < shared && i < q.bits; i++)
        if (bit(q.address, i) != bit(q.network, i))
            q.address[i / 8] ^= (uint8_t)(0x80 >> i % 8);
    return q;
}

static bool is_inside(const struct question *q)
{
    bool inside = q->port == 0 || q->port == q->asked_port;
    for (unsigned i = 0; i < q->prefix; i++)
        inside = inside && bit(q->address, i) == bit(q->network, i);
    return inside;
}

START_TEST(a_network_matches_what_has_its_bits_and_no_more)
{
    uint64_t state = 6;
    for (unsigned round = 0; round < 40000; round++) {
        struct question q = make_question(&state);
        struct tdi_dest dest[2];
        char text[64], item[96], why[256];
        inet_ntop(q.six ? AF_INET6 : AF_INET, q.network, text, sizeof text);
        snprintf(item, sizeof item, q.six ? "[%s]/%u" : "%s/%u", text, q.prefix);
        if (q.port != 0)
            snprintf(item + strlen(item), sizeof item - strlen(item), ":%u", q.port);
        ck_assert_msg(tdi_dest_parse(item, strlen(item), dest, why, sizeof why) == 1, "%s", why);
        ck_assert_msg(tdi_dest_matches(dest, q.six ? TDI_KIND_INET6 : TDI_KIND_INET, q.address,
                                       q.asked_port) == is_inside(&q),
                      "%s, round %u", item, round);
    }
}
END_TEST

START_TEST(items_need_no_terminator_and_errno_stays)
{
    static const char list[] = "10.0.0.0/89999";
    struct tdi_dest dest[2];
    char why[64];
    errno = 1234;
    for (size_t len = 0; len < sizeof list; len++) {
        char *item = malloc(len + 1); /* so that a sanitizer sees a read beyond */
        memcpy(item, list, len);
        char *exact = realloc(item, len > 0 ? len : 1);
        int count = tdi_dest_parse(exact, len, dest, why, sizeof why);
        ck_assert_int_eq(count, len == 8 || len == 10 ? 1 : -EINVAL);
        free(exact);
    }
    ck_assert_int_eq(errno, 1234);
}
END_TEST

static Suite *destinations(void)
{
    Suite *suite = suite_create("destinations");
    TCase *cases = kit_case(suite, "cases");
    tcase_add_test(cases, destinations_are_read_as_the_cases_say);
    tcase_add_test(cases, what_is_no_destination_is_refused_as_the_cases_say);
    tcase_add_test(cases, destinations_match_as_the_cases_say);
    TCase *random = kit_case(suite, "random");
    tcase_add_test(random, addresses_are_read_as_libc_reads_them);
    tcase_add_test(random, any_few_signs_are_read_as_libc_reads_them);
    tcase_add_test(random, a_printed_address_reads_back_as_the_same);
    tcase_add_test(random, a_network_matches_what_has_its_bits_and_no_more);
    tcase_add_test(random, items_need_no_terminator_and_errno_stays);
    return suite;
}

KIT_MAIN(destinations)
