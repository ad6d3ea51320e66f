/* SPDX-License-Identifier: MIT */
/*
 * The probes fire when the manual says: this program is its own tracer. As tracers do, it finds the notes in its
 * file and puts a breakpoint on each probe's empty instruction, which is all that is left out when it continues.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "proc/proc.h"

#if defined(__x86_64__)

#define NOP 0x90
#define BREAKPOINT 0xcc
#define PROBES_MAX 256
#define NOTE_TYPE 3

enum {
    GRANT,
    REFUSAL,
    WAIT_START,
    WAIT_END,
    KINDS
};
static const char *const kind_name[KINDS] = {"grant", "refusal", "wait__start", "wait__end"};

static struct {
    uintptr_t address;
    unsigned kind;
} probe[PROBES_MAX];
static unsigned probes;
static atomic_uint hits[KINDS], strays;

static void hit(int signal, siginfo_t *info, void *context)
{
    uintptr_t next = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)signal;
    (void)info;
    for (unsigned i = 0; i < probes; i++)
        if (probe[i].address == next - 1) {
            atomic_fetch_add(&hits[probe[i].kind], 1);
            return;
        }
    atomic_fetch_add(&strays, 1);
}

static void set_breakpoint(uintptr_t address)
{
    uintptr_t page = address & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
    size_t length = address + 1 - page;
    unsigned char *instruction = (unsigned char *)address;
    kit_expect(mprotect((void *)page, length, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect: %s",
               strerror(errno));
    kit_expect(*instruction == NOP || *instruction == BREAKPOINT, "no empty instruction, but %02x",
               *instruction);
    *instruction = BREAKPOINT;
    mprotect((void *)page, length, PROT_READ | PROT_EXEC);
}

static int get_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
    (void)size;
    *(uintptr_t *)bias = info->dlpi_addr;
    return 1; /* the program is the first */
}

/* A note's contents: address, base and semaphore, then provider, name and arguments. */
static void add_probe(const unsigned char *contents, uintptr_t bias)
{
    uint64_t address;
    memcpy(&address, contents, sizeof address);
    const char *provider = (const char *)contents + 3 * sizeof address;
    const char *name = provider + strlen(provider) + 1;
    unsigned kind = 0;
    while (kind < KINDS && strcmp(name, kind_name[kind]) != 0)
        kind++;
    if (strcmp(provider, "tundish") != 0 || kind == KINDS)
        return;
    kit_expect(probes < PROBES_MAX, "too many probes");
    probe[probes].kind = kind;
    probe[probes++].address = address + bias;
}

static void read_notes(const unsigned char *section, size_t size, uintptr_t bias)
{
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
        Elf64_Nhdr note;
        memcpy(&note, section + at, sizeof note);
        size_t name = at + sizeof note, contents = name + (note.n_namesz + 3U) / 4 * 4;
        if (note.n_type == NOTE_TYPE && strcmp((const char *)section + name, "stapsdt") == 0)
            add_probe(section + contents, bias);
        at = contents + (note.n_descsz + 3U) / 4 * 4;
    }
}

static const unsigned char *map_program(void)
{
    struct stat status;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    kit_expect(fd >= 0 && fstat(fd, &status) == 0, "/proc/self/exe: %s", strerror(errno));
    void *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    kit_expect(file != MAP_FAILED, "/proc/self/exe: %s", strerror(errno));
    close(fd);
    return file;
}

/* Begins to trace. */
static void trace(void)
{
    struct sigaction action = {.sa_sigaction = hit, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    const unsigned char *file = map_program();
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)file;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(const void *)(file + header->e_shoff);
    uintptr_t bias = 0;
    dl_iterate_phdr(get_bias, &bias);
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (section[i].sh_type == SHT_NOTE)
            read_notes(file + section[i].sh_offset, section[i].sh_size, bias);
    ck_assert_uint_ge(probes, KINDS);
    sigaction(SIGTRAP, &action, NULL);
    for (unsigned i = 0; i < probes; i++)
        set_breakpoint(probe[i].address);
}

/* What was hit since the last time. */
static void expect_hits(unsigned grants, unsigned refusals, unsigned starts, unsigned ends)
{
    unsigned expected[KINDS] = {grants, refusals, starts, ends};
    for (unsigned kind = 0; kind < KINDS; kind++) {
        unsigned seen = atomic_exchange(&hits[kind], 0);
        kit_expect(seen == expected[kind], "%s: %u times, not %u", kind_name[kind], seen, expected[kind]);
    }
    ck_assert_uint_eq(atomic_load(&strays), 0);
}

#define SOON 200   /* tokens: there in 200 ms */
#define LATER 5000 /* not before the test has gone on */

static struct tundish *new_bucket(uint32_t initial)
{
    struct tundish_options options = proc_options(LATER, 1000, 1000000);
    options.initial = initial;
    return proc_create_private(&options);
}

START_TEST(each_operation_fires_one)
{
    struct tundish_options options = proc_still_options(100, 5);
    struct tundish *bucket = proc_create_private(&options);
    trace();
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(tundish_try_acquire(bucket, 1), 0);
    expect_hits(5, 0, 0, 0);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(tundish_try_acquire(bucket, 1), -EAGAIN);
    ck_assert_int_eq(tundish_try_acquire(bucket, 101), -E2BIG);
    expect_hits(0, 4, 0, 0);
    ck_assert_int_eq(tundish_try_acquire(bucket, 0), 0);
    tundish_release(bucket, 1);
    ck_assert_int_eq(tundish_acquire(bucket, 1), 0);
    expect_hits(1, 0, 0, 0);
    tundish_close(bucket);
}
END_TEST

START_TEST(a_wait_begins_and_ends_once)
{
    trace();
    struct tundish *bucket = new_bucket(0);
    ck_assert_int_eq(tundish_acquire(bucket, SOON), 0);
    expect_hits(1, 0, 1, 1);
    ck_assert_int_eq(tundish_acquire_for(bucket, LATER, KIT_MILLISECOND), -ETIMEDOUT);
    expect_hits(0, 1, 1, 1);
    tundish_close(bucket);
}
END_TEST

START_TEST(so_does_one_without_a_thread)
{
    struct tundish_waiter *waiter;
    trace();
    struct tundish *bucket = new_bucket(0);
    ck_assert_int_eq(tundish_waiter_start(bucket, SOON, TUNDISH_NO_DEADLINE, &waiter), -EINPROGRESS);
    expect_hits(0, 0, 1, 0);
    while (tundish_waiter_poll(waiter) == -EINPROGRESS)
        kit_sleep_ns(KIT_MILLISECOND);
    expect_hits(1, 0, 0, 1);
    tundish_waiter_free(waiter);
    ck_assert_int_eq(tundish_waiter_start(bucket, LATER, TUNDISH_NO_DEADLINE, &waiter), -EINPROGRESS);
    tundish_waiter_free(waiter);
    expect_hits(0, 1, 1, 1);
    tundish_close(bucket);
}
END_TEST

/* It is what preloaded programs wait by. They get in line where tokens are missing, maybe at one after the other. */
START_TEST(so_does_one_for_several_buckets)
{
    trace();
    struct tundish_demand demand[2] = {{new_bucket(0), SOON}, {new_bucket(LATER), 1}};
    ck_assert_int_eq(tundish_acquire_all(demand, 2, TUNDISH_NO_DEADLINE), 0);
    expect_hits(2, 0, 1, 1);
    demand[0].n = LATER;
    ck_assert_int_eq(tundish_acquire_all(demand, 1, tundish_now_ns() + KIT_MILLISECOND), -ETIMEDOUT);
    expect_hits(0, 1, 1, 1);
    ck_assert_int_eq(tundish_try_acquire_all(demand, 1), -EAGAIN);
    expect_hits(0, 1, 0, 0);
    for (unsigned i = 0; i < 2; i++)
        tundish_close(demand[i].bucket);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__)
#define MAY_CANCEL 0 /* it takes the stack of a cancelled thread for spoilt */
#else
#define MAY_CANCEL 1
#endif

static void *wait_long(void *bucket)
{
    tundish_acquire(bucket, 100);
    return NULL;
}

START_TEST(so_does_one_that_is_cancelled)
{
    struct tundish_options options = proc_still_options(100, 5);
    struct tundish *bucket = proc_create_private(&options);
    pthread_t thread;
    trace();
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_long, bucket), 0);
    proc_expect_in_line(bucket, 1);
    ck_assert_int_eq(pthread_cancel(thread), 0);
    pthread_join(thread, NULL);
    expect_hits(0, 1, 1, 1);
    tundish_close(bucket);
}
END_TEST

static Suite *probes_suite(void)
{
    Suite *suite = suite_create("probes");
    TCase *fire = kit_case(suite, "fire");
    tcase_set_timeout(fire, 30);
    tcase_add_test(fire, each_operation_fires_one);
    tcase_add_test(fire, a_wait_begins_and_ends_once);
    tcase_add_test(fire, so_does_one_without_a_thread);
    tcase_add_test(fire, so_does_one_for_several_buckets);
    if (MAY_CANCEL)
        tcase_add_test(fire, so_does_one_that_is_cancelled);
    return suite;
}

#else

static Suite *probes_suite(void)
{
    kit_skip("breakpoints are set for x86-64 only");
}

#endif

KIT_MAIN(probes_suite)
