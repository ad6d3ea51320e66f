/* SPDX-License-Identifier: MIT */
/*
 * Which clock is read, and what happens when it is another one than before: the wall clock never counts,
 * another boot goes on where the last one stopped, and a process without the counter asks the kernel.
 *
 * The linker sends every call of a clock function in this program through the __wrap functions below.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "core/bucket.h"
#include "core/config.h"
#include "lib/handle.h"
#include "plat/clock.h"
#include "proc/proc.h"
#include "shm/store.h"

#define RACERS 8

static atomic_int watching;
static atomic_uint wall_clock_reads, steady_reads;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left);
time_t __real_time(time_t *out);
time_t __wrap_time(time_t *out);
int __real_gettimeofday(struct timeval *now, void *zone);
int __wrap_gettimeofday(struct timeval *now, void *zone);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static void note(clockid_t clock)
{
    int is_wall_clock = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
                        clock == CLOCK_REALTIME_ALARM || clock == CLOCK_TAI;
    if (atomic_load(&watching))
        atomic_fetch_add(is_wall_clock ? &wall_clock_reads : &steady_reads, 1);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    note(clock);
    return __real_clock_gettime(clock, now);
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    note(clock);
    return __real_clock_nanosleep(clock, flags, until, left);
}

time_t __wrap_time(time_t *out)
{
    note(CLOCK_REALTIME);
    return __real_time(out);
}

int __wrap_gettimeofday(struct timeval *now, void *zone)
{
    note(CLOCK_REALTIME);
    return __real_gettimeofday(now, zone);
}

long __wrap_syscall(long number, ...)
{
    long argument[6];
    va_list arguments;
    va_start(arguments, number);
    for (size_t i = 0; i < PROC_LEN(argument); i++)
        argument[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_futex && (argument[1] & FUTEX_CLOCK_REALTIME))
        note(CLOCK_REALTIME);
    if (number == SYS_clock_gettime || number == SYS_clock_nanosleep || number == SYS_timerfd_create)
        note((clockid_t)argument[0]);
    return __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                          argument[5]);
}

static void use_everything(void)
{
    struct tundish_options options = proc_options(10, 1000, 1000000);
    struct tundish *bucket = proc_create("bucket", &options), *again = proc_open("bucket");
    for (int i = 0; i < 20000; i++)
        tundish_try_acquire(bucket, 1);
    tundish_acquire(again, 25);
    tundish_acquire_for(bucket, 1000, 3 * KIT_MILLISECOND);
    struct tundish_demand demands[] = {{bucket, 5}, {again, 5}};
    tundish_acquire_all(demands, 2, tundish_now_ns() + KIT_SECOND);
    tundish_release(bucket, 3);
    tundish_configure(bucket, &options);
    tundish_reset(bucket);
    proc_info(again);
    tundish_flush(bucket);
    tundish_close(again);
    tundish_close(bucket);
    int error = tundish_unlink("bucket"); /* Check's own assertions read clocks */
    kit_expect(error == 0, "%s", tundish_strerror(error));
}

START_TEST(the_wall_clock_is_never_asked)
{
    static const enum tdi_clock_source sources[] = {TDI_CLOCK_UNDECIDED, TDI_CLOCK_VDSO};
    tdi_clock_force(sources[_i]);
    atomic_store(&watching, 1);
    use_everything();
    atomic_store(&watching, 0);
    ck_assert_uint_eq(atomic_load(&wall_clock_reads), 0);
    ck_assert_uint_gt(atomic_load(&steady_reads), 0); /* so the watch works */
}
END_TEST

START_TEST(all_sources_tell_the_same_time)
{
    static const enum tdi_clock_source sources[] = {TDI_CLOCK_COUNTER, TDI_CLOCK_VDSO, TDI_CLOCK_SYSCALL};
    enum tdi_clock_source best = tdi_clock_source();
    for (size_t i = 0; i < PROC_LEN(sources); i++) {
        if (sources[i] == TDI_CLOCK_COUNTER && best != TDI_CLOCK_COUNTER)
            continue;
        tdi_clock_force(sources[i]);
        uint64_t end_ns = kit_now_ns() + 30 * KIT_MILLISECOND;
        while (kit_now_ns() < end_ns) {
            struct timespec before, after;
            clock_gettime(CLOCK_BOOTTIME, &before);
            uint64_t ns = tundish_now_ns() + (uint64_t)tdi_proc_boottime_offset_ns();
            clock_gettime(CLOCK_BOOTTIME, &after);
            uint64_t least = (uint64_t)before.tv_sec * KIT_SECOND + (uint64_t)before.tv_nsec - 1000;
            uint64_t most = (uint64_t)after.tv_sec * KIT_SECOND + (uint64_t)after.tv_nsec + 1000;
            kit_expect(least <= ns && ns <= most, "source %d is %lld ns off", (int)sources[i],
                       (long long)(ns < least ? ns - least : ns - most));
        }
    }
}
END_TEST

/* Another boot. */

struct boot {
    struct kit_barrier barrier;
    _Atomic(uint64_t) start_ns;
    _Atomic(uint64_t) record[RACERS];
    _Atomic(int64_t) shift_us[RACERS];
};

static void set_field(struct tdi_layout *file, enum tdi_layout_field field, uint64_t value)
{
    uint32_t number = (uint32_t)atomic_load(&file->head.current);
    uint64_t tag = number & ((1u << TDI_FIELD_TAG_BITS) - 1);
    atomic_store(&file->record[number % TDI_LAYOUT_RECORDS].field[field], value << TDI_FIELD_TAG_BITS | tag);
}

/* Makes the bucket one of another boot, in which the machine had run for so much longer than now. */
static uint64_t pretend_reboot(const char *name, int64_t longer_us)
{
    struct tdi_layout *file;
    struct tdi_file_facts facts;
    enum tdi_store_fault fault;
    struct tdi_clock_base base;
    ck_assert_int_eq(tdi_store_map(kit_tmpfile(name), &file, &facts, &fault), 0);
    tdi_config_read_base(file, &base);
    set_field(file, TDI_FIELD_BOOT_A, (base.boot_id[0] >> 12) ^ 1);
    set_field(file, TDI_FIELD_SHIFT_US,
              (uint64_t)(base.shift_us - longer_us) & ((UINT64_C(1) << TDI_FIELD_VALUE_BITS) - 1));
    uint64_t stamp_us = tdi_bucket_stamp(file);
    tdi_store_unmap(file);
    return stamp_us;
}

static int open_after_the_boot(unsigned index, void *shared)
{
    struct boot *boot = shared;
    struct tdi_clock_base base;
    kit_barrier_wait(&boot->barrier);
    uint64_t now_ns = kit_now_ns();
    if (now_ns < atomic_load(&boot->start_ns))
        kit_sleep_ns(atomic_load(&boot->start_ns) - now_ns);
    struct tundish *bucket = proc_open("bucket");
    atomic_store(&boot->record[index], tdi_config_read_base(bucket->file, &base));
    atomic_store(&boot->shift_us[index], bucket->shift_us);
    kit_expect(tundish_available(bucket) == 3, "%u tokens", tundish_available(bucket));
    kit_barrier_wait(&boot->barrier);
    kit_expect(tundish_try_acquire(bucket, 4) == -EAGAIN, "too many tokens");
    tundish_close(bucket);
    return 0;
}

START_TEST(after_a_boot_tokens_are_kept_and_one_of_the_racing_openers_moves_the_time)
{
    static const int64_t longer_us[] = {INT64_C(10) * 86400 * 1000000, -INT64_C(10) * 86400 * 1000000, 0};
    for (int round = 0; round < 45; round++) {
        struct tundish_options options = proc_options(10, 1, UINT64_C(100) * 1000000);
        struct boot *boot = kit_shared_new(sizeof *boot);
        struct tundish *bucket = proc_create("bucket", &options);
        ck_assert_int_eq(tundish_try_acquire(bucket, 7), 0);
        tundish_close(bucket);
        uint64_t stamp_us = pretend_reboot("bucket", longer_us[round % 3]);
        kit_barrier_init(&boot->barrier, RACERS);
        atomic_store(&boot->start_ns, kit_now_ns() + 5 * KIT_MILLISECOND);
        kit_collect(kit_spawn(RACERS, open_after_the_boot, boot), 30 * KIT_SECOND);
        for (unsigned i = 0; i < RACERS; i++) {
            ck_assert_uint_ne(atomic_load(&boot->record[i]), 0);
            ck_assert_uint_eq(atomic_load(&boot->record[i]), atomic_load(&boot->record[0]));
            ck_assert_int_eq(atomic_load(&boot->shift_us[i]), atomic_load(&boot->shift_us[0]));
        }
        bucket = proc_open("bucket");
        uint64_t now_us = tdi_handle_now_us(bucket);
        kit_expect(now_us >= stamp_us && now_us < stamp_us + 20 * UINT64_C(1000000),
                   "bucket time is %llu us after a stamp of %llu", (unsigned long long)now_us,
                   (unsigned long long)stamp_us);
        ck_assert_uint_eq(proc_info(bucket).capacity, 10);
        tundish_close(bucket);
        ck_assert_int_eq(tundish_unlink("bucket"), 0);
    }
}
END_TEST

START_TEST(after_a_boot_the_rate_is_the_same)
{
    struct tundish_options options = proc_options(1000000, 10000, 1000000);
    options.initial = 5;
    tundish_close(proc_create("bucket", &options));
    pretend_reboot("bucket", INT64_C(3600) * 1000000);
    struct tundish *bucket = proc_open("bucket");
    uint64_t before_us = tdi_handle_now_us(bucket);
    uint32_t first = tundish_available(bucket);
    uint64_t middle_us = tdi_handle_now_us(bucket);
    kit_sleep_ns(30 * KIT_MILLISECOND);
    uint64_t later_us = tdi_handle_now_us(bucket);
    uint32_t second = tundish_available(bucket);
    uint64_t after_us = tdi_handle_now_us(bucket);
    ck_assert_uint_ge(second - first, (later_us - middle_us) / 100 - 1);
    ck_assert_uint_le(second - first, (after_us - before_us) / 100 + 1);
    tundish_close(bucket);
}
END_TEST

/* Without the counter. */

static int use_without_the_counter(unsigned index, void *shared)
{
    struct tundish_options options = proc_options(10, 1000, 1000000);
    struct tundish *bucket;
    (void)index, (void)shared;
    /* From here on nothing may read the kernel's clock in user space, so nothing of the kit. */
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0)
        return KIT_SKIP;
    if (tundish_create(&bucket, "bucket", &options) != 0 || tdi_clock_source() != TDI_CLOCK_SYSCALL)
        return 2;
    uint64_t start_ns = tundish_now_ns();
    if (tundish_acquire(bucket, 30) != 0 || tundish_now_ns() - start_ns < 15 * KIT_MILLISECOND)
        return 3;
    if (tundish_acquire_for(bucket, 1000, KIT_MILLISECOND) != -ETIMEDOUT)
        return 4;
    tundish_release(bucket, 5);
    if (tundish_reset(bucket) != 0 || tundish_try_acquire(bucket, 10) != 0)
        return 5;
    struct tundish_info info = TUNDISH_INFO_INIT;
    if (tundish_info(bucket, &info) != 0 || info.capacity != 10 || info.instances != 1)
        return 6;
    tundish_close(bucket);
    return tundish_unlink("bucket") == 0 ? 0 : 7;
}

START_TEST(a_process_that_may_not_read_the_counter_asks_the_kernel)
{
    int mode;
    if (prctl(PR_GET_TSC, &mode) != 0) {
        printf("no PR_SET_TSC here\n");
        return;
    }
    ck_assert_int_eq(tdi_clock_source() == TDI_CLOCK_SYSCALL, 0);
    tdi_clock_force(TDI_CLOCK_UNDECIDED);
    kit_collect(kit_spawn(1, use_without_the_counter, NULL), 30 * KIT_SECOND);
}
END_TEST

/* From now on only leaving is allowed. */
static int allow_no_system_call(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {PROC_LEN(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int use_without_system_calls(unsigned index, void *shared)
{
    struct tundish *bucket = shared;
    struct tundish_options options = proc_options(2000, 1000, 1000000);
    (void)index;
    tundish_try_acquire(bucket, 1); /* a forked process enters itself into the file */
    if (!allow_no_system_call())
        return KIT_SKIP;
    int wrong = 0;
    for (int i = 0; i < 100000; i++) {
        tundish_try_acquire(bucket, 1);
        wrong += tundish_available(bucket) > 2000;
        tundish_wait_time_ns(bucket, 3);
        tundish_release(bucket, 1);
    }
    tundish_reset(bucket);
    wrong += tundish_configure(bucket, &options) != 0;
    wrong += tundish_try_acquire(bucket, 1000) != 0;
    wrong += tundish_acquire_for(bucket, 1, KIT_SECOND) != 0;
    syscall(SYS_exit_group, wrong ? 9 : 0);
    return 9;
}

START_TEST(taking_and_giving_back_makes_no_system_call)
{
    struct tundish_options options = proc_options(2000, 1000, 1000000);
    struct tundish *bucket = proc_create_private(&options);
    if (tdi_clock_source() != TDI_CLOCK_COUNTER) {
        printf("no counter here: the clock may need the kernel\n");
        return;
    }
    kit_collect(kit_spawn(1, use_without_system_calls, bucket), 30 * KIT_SECOND);
    tundish_close(bucket);
}
END_TEST

static Suite *times(void)
{
    Suite *suite = suite_create("time");
    TCase *clocks = kit_case(suite, "clocks");
    tcase_add_loop_test(clocks, the_wall_clock_is_never_asked, 0, 2);
    tcase_add_test(clocks, all_sources_tell_the_same_time);
    tcase_add_test(clocks, a_process_that_may_not_read_the_counter_asks_the_kernel);
    tcase_add_test(clocks, taking_and_giving_back_makes_no_system_call);
    TCase *boots = kit_case(suite, "boots");
    tcase_add_test(boots, after_a_boot_tokens_are_kept_and_one_of_the_racing_openers_moves_the_time);
    tcase_add_test(boots, after_a_boot_the_rate_is_the_same);
    return suite;
}

KIT_MAIN(times)
