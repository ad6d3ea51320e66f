/* SPDX-License-Identifier: MIT */
/* Short forms of what nearly every test of this directory does. */
#include "proc/proc.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define TMPFILE_BIT 020000000 /* what O_TMPFILE has beyond O_DIRECTORY */

struct tundish_options proc_options(uint32_t capacity, uint32_t refill, uint64_t interval_us)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(capacity, refill);
    options.interval_us = interval_us;
    return options;
}

struct tundish_options proc_still_options(uint32_t capacity, uint32_t initial)
{
    struct tundish_options options = proc_options(capacity, 1, TUNDISH_INTERVAL_US_MAX);
    options.initial = initial;
    return options;
}

struct tundish *proc_create(const char *name, const struct tundish_options *options)
{
    struct tundish *bucket;
    int error = tundish_create(&bucket, name, options);
    kit_expect(error == 0, "create %s: %s", name, tundish_strerror(error));
    return bucket;
}

struct tundish *proc_create_private(const struct tundish_options *options)
{
    struct tundish *bucket;
    int error = tundish_create_private(&bucket, options);
    kit_expect(error == 0, "create_private: %s", tundish_strerror(error));
    return bucket;
}

struct tundish *proc_open(const char *name)
{
    struct tundish *bucket;
    int error = tundish_open(&bucket, name);
    kit_expect(error == 0, "open %s: %s", name, tundish_strerror(error));
    return bucket;
}

struct tundish_info proc_info(const struct tundish *bucket)
{
    struct tundish_info info = TUNDISH_INFO_INIT;
    int error = tundish_info(bucket, &info);
    kit_expect(error == 0, "info: %s", tundish_strerror(error));
    return info;
}

void proc_expect_in_line(const struct tundish *bucket, uint32_t waiting)
{
    uint64_t end_ns = kit_now_ns() + 10 * KIT_SECOND;
    while (proc_info(bucket).waiting != waiting) {
        kit_expect(kit_now_ns() < end_ns, "%u in line instead of %u", proc_info(bucket).waiting, waiting);
        kit_sleep_ns(KIT_MILLISECOND);
    }
}

unsigned proc_count_files(const char *directory)
{
    unsigned count = 0;
    DIR *names = opendir(directory);
    kit_expect(names, "%s: %s", directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(names));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    closedir(names);
    return count;
}

unsigned proc_count_descriptors(void)
{
    return proc_count_files("/proc/self/fd") - 1; /* the one that counts */
}

uint32_t proc_random(uint32_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}

int proc_deny_nameless_files(int without_noreplace)
{
    const uint32_t rename_answer =
        without_noreplace ? SECCOMP_RET_ERRNO | EINVAL : (uint32_t)SECCOMP_RET_ALLOW;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, rename_answer),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TMPFILE_BIT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {PROC_LEN(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
