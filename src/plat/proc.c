/* SPDX-License-Identifier: MIT */
/*
 * Small readers of /proc, made of system calls only: they run before main inside other programs, in signal
 * handlers and in forked children, so they neither allocate nor lock.
 */
#include "plat/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plat/cancel.h"
#include "plat/file.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_TICK (NS_PER_S / 100) /* USER_HZ, on every architecture */

static const char *skip_fields(const char *text, int count)
{
    for (; text && count > 0; count--) {
        text = strchr(text, ' ');
        if (text)
            text++;
    }
    return text;
}

static uint64_t parse_u64(const char *text)
{
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

static uint64_t inode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Field 22 of /proc/PID/stat, counted behind the last ')' since a program's name may hold anything. */
static uint64_t start_time_of(const char *path)
{
    char text[1024];
    if (tdi_file_read_text(path, text, sizeof text) <= 0)
        return 0;
    const char *after_name = strrchr(text, ')');
    const char *field = after_name ? skip_fields(after_name, 20) : NULL;
    if (!field)
        return 0;
    /* The reader's time namespace is in the number: out with it. */
    return parse_u64(field) - (uint64_t)(tdi_proc_boottime_offset_ns() / NS_PER_TICK);
}

/* Offsets need not be whole ticks. */
static bool is_same_start(uint64_t a, uint64_t b)
{
    return a - b + 1 <= 2;
}

/* The program's file, 0 if it may not be known: the process is another user's. Not 0 otherwise. */
static uint32_t file_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return 0;
    uint64_t hash = ((uint64_t)st.st_ino ^ (uint64_t)st.st_dev << 40) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32) | 1;
}

/*
 * The upper half is new at each exec and known to the program alone; the lower half tells programs apart, and
 * whoever may look into the process can read it.
 */
static uint64_t own_image(void)
{
    uint32_t secret = 0;
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM); /* 16 bytes from the kernel */
    if (random)
        memcpy(&secret, random, sizeof secret);
    return (uint64_t)secret << 32 | file_of("/proc/self/exe");
}

void tdi_proc_identify(struct tdi_identity *out)
{
    int saved = errno;
    memset(out, 0, sizeof *out);
    out->pid = tdi_proc_pid();
    out->start_time = start_time_of("/proc/self/stat");
    out->pid_namespace = inode_of("/proc/self/ns/pid");
    out->image = own_image();
    const char *program = tdi_proc_program();
    size_t len = strlen(program);
    memcpy(out->program, program, len < sizeof out->program ? len : sizeof out->program - 1);
    errno = saved;
}

static void format_path(char path[32], uint32_t pid, const char *name)
{
    char digits[12];
    int n = 0;
    do
        digits[n++] = (char)('0' + pid % 10);
    while (pid /= 10);
    char *at = stpcpy(path, "/proc/");
    while (n > 0)
        *at++ = digits[--n];
    stpcpy(at, name);
}

/* A descriptor for the moment of asking: it also tells of a process that died and was not waited for yet. */
static bool is_gone(uint32_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0)
        return errno == ESRCH || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
    int state = tdi_cancel_disable(); /* callers may hold tokens */
    struct pollfd exited = {.fd = fd, .events = POLLIN};
    const struct timespec at_once = {0, 0};
    bool gone = syscall(SYS_ppoll, &exited, 1, &at_once, NULL, 0) == 1; /* a preloaded poll() is not for us */
    close(fd);
    tdi_cancel_restore(state);
    return gone;
}

static bool is_near(const struct tdi_identity *who, const struct tdi_identity *asker)
{
    if (who->pid_namespace == 0)
        return who->namespace_digest != 0 && who->namespace_digest == tdi_proc_digest(asker->pid_namespace);
    return who->pid_namespace == asker->pid_namespace;
}

bool tdi_proc_may_live(const struct tdi_identity *who, const struct tdi_identity *asker)
{
    if (!is_near(who, asker))
        return true; /* or one of them is unknown: a pid says nothing then */
    if (who->pid == asker->pid && is_same_start(who->start_time, asker->start_time))
        return true;
    int saved = errno;
    bool gone = is_gone(who->pid);
    if (!gone && who->start_time != 0) {
        char path[32];
        format_path(path, who->pid, "/stat");
        uint64_t started = start_time_of(path);
        gone = started != 0 &&
               !is_same_start(started, who->start_time); /* the pid was given to another process */
    }
    errno = saved;
    return !gone;
}

bool tdi_proc_is_same_execution(const struct tdi_identity *a, const struct tdi_identity *b)
{
    uint32_t one = (uint32_t)(a->image >> 32), other = (uint32_t)(b->image >> 32);
    return one == other || one == 0 || other == 0;
}

bool tdi_proc_has_executed(const struct tdi_identity *who, const struct tdi_identity *asker)
{
    char path[32];
    int saved = errno;
    if (who->pid_namespace == 0 || who->pid_namespace != asker->pid_namespace)
        return false;
    format_path(path, who->pid, "/exe");
    uint32_t then = (uint32_t)who->image, now = file_of(path);
    errno = saved;
    return then != 0 && now != 0 && then != now;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

void tdi_proc_boot_id(uint64_t out[2])
{
    char text[64];
    out[0] = out[1] = 0;
    if (tdi_file_read_text("/proc/sys/kernel/random/boot_id", text, sizeof text) <= 0)
        return;
    int digits = 0;
    for (const char *c = text; *c && digits < 32; c++) {
        int value = hex_digit(*c);
        if (value < 0)
            continue;
        out[digits / 16] = out[digits / 16] << 4 | (uint64_t)value;
        digits++;
    }
}

static _Atomic(int64_t) boottime_offset_ns;
static _Atomic(int) boottime_offset_state; /* 0 not read, 1 known, 2 cannot be known */

/* The file has lines "boottime SECONDS NANOSECONDS", or a number instead of the word in older kernels. */
static int64_t parse_boottime_offset(const char *text)
{
    const char *line = strstr(text, "boottime");
    if (!line)
        return 0;
    char *end;
    long long seconds = strtoll(line + strlen("boottime"), &end, 10);
    long long nanoseconds = strtoll(end, NULL, 10);
    return seconds * NS_PER_S + nanoseconds;
}

static void read_boottime_offset(void)
{
    int saved = errno;
    char text[256];
    int state = 1;
    int64_t offset = 0;
    uint64_t ours = inode_of("/proc/self/ns/time");
    if (ours != 0 && ours != inode_of("/proc/self/ns/time_for_children"))
        state = 2; /* the file below tells of the children's namespace */
    else if (ours != 0 && tdi_file_read_text("/proc/self/timens_offsets", text, sizeof text) > 0)
        offset = parse_boottime_offset(text);
    atomic_store_explicit(&boottime_offset_ns, offset, memory_order_relaxed);
    /* Pairs with the acquire in offset_state: who sees the state sees the offset. */
    atomic_store_explicit(&boottime_offset_state, state, memory_order_release);
    errno = saved;
}

static int offset_state(void)
{
    int state = atomic_load_explicit(&boottime_offset_state, memory_order_acquire);
    if (state != 0)
        return state;
    read_boottime_offset();
    return atomic_load_explicit(&boottime_offset_state, memory_order_acquire);
}

int64_t tdi_proc_boottime_offset_ns(void)
{
    offset_state();
    return atomic_load_explicit(&boottime_offset_ns, memory_order_relaxed);
}

void tdi_proc_forget_boottime_offset(void)
{
    atomic_store_explicit(&boottime_offset_state, 0, memory_order_relaxed);
}

bool tdi_proc_boottime_offset_known(void)
{
    return offset_state() == 1;
}

uint32_t tdi_proc_thread(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

bool tdi_proc_thread_lives(uint32_t thread)
{
    int saved = errno;
    bool lives = syscall(SYS_tgkill, getpid(), (pid_t)thread, 0) == 0 || errno != ESRCH;
    errno = saved;
    return lives;
}

static int membarrier(int command)
{
    int saved = errno;
    int error = syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
    errno = saved;
    return error;
}

int tdi_proc_barrier_prepare(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

int tdi_proc_barrier(void)
{
    return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

uint32_t tdi_proc_pid(void)
{
    return (uint32_t)getpid();
}

uint32_t tdi_proc_uid(void)
{
    return (uint32_t)geteuid();
}

/* A copy: programs write titles over their arguments, where the original is. */
static char program_at_start[NAME_MAX + 1];

static __attribute__((constructor)) void remember_program(void)
{
    const char *name = program_invocation_short_name ? program_invocation_short_name : "";
    size_t len = strlen(name);
    memcpy(program_at_start, name, len < sizeof program_at_start ? len : sizeof program_at_start - 1);
}

const char *tdi_proc_program(void)
{
    if (program_at_start[0] || !program_invocation_short_name)
        return program_at_start;
    return program_invocation_short_name; /* other libraries' beginnings come first */
}

const char *tdi_proc_env(const char *name)
{
    return secure_getenv(name);
}

void tdi_proc_yield(void)
{
    sched_yield();
}
