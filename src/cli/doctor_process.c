/* SPDX-License-Identifier: MIT */
/*
 * A process that runs already. The library gets into a program at its start or never, so what counts is
 * whether it is there, and whether it was given anything to do. The rest is read from /proc.
 */
#include "cli/doctor.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor_proc.h"

static const char library[] = TUNDISH_PRELOAD_NAME;

/* What is known of a process. */
struct process {
    pid_t pid;
    char
        *environment; /* words, each with its NUL; as it was at the start, unless the process has reused it */
    size_t environment_len;
    bool loaded;      /* the library is mapped */
    unsigned buckets; /* so are these */
};

/* The value of the first variable whose name starts and ends so, or NULL. */
static const char *find_variable(const struct process *process, const char *start, const char *end)
{
    const char *limit = process->environment + process->environment_len;
    size_t start_len = strlen(start), end_len = strlen(end);
    for (const char *at = process->environment; at && at < limit; at += strlen(at) + 1) {
        size_t name_len = strcspn(at, "=");
        if (at[name_len] && name_len >= start_len + end_len && strncmp(at, start, start_len) == 0 &&
            strncmp(at + name_len - end_len, end, end_len) == 0)
            return at + name_len + 1;
    }
    return NULL;
}

/* "_RATE" finds TUNDISH_RATE, or TUNDISH_2_RATE of a second rule. */
static const char *find_setting(const struct process *process, const char *word)
{
    return find_variable(process, "TUNDISH", word);
}

/* AT_SECURE, from the vector that the kernel gave it at its start. */
static void judge_privilege(struct doctor *doctor, pid_t pid)
{
    size_t len;
    char *vector = doctor_proc_read(pid, "auxv", &len);
    ElfW(auxv_t) entry;
    for (size_t at = 0; vector && at + sizeof(entry) <= len; at += sizeof(entry)) {
        memcpy(&entry, vector + at, sizeof(entry));
        if (entry.a_type == AT_SECURE && entry.a_un.a_val)
            doctor_obstacle(doctor, "runs with the privileges of its file: it ignores what is preloaded");
    }
    free(vector);
}

static void judge_seccomp(struct doctor *doctor, pid_t pid)
{
    size_t len;
    char *status = doctor_proc_read(pid, "status", &len);
    const char *line = status ? strstr(status, "\nSeccomp:") : NULL;
    int mode = line ? atoi(line + strlen("\nSeccomp:")) : 0;
    if (mode == 1)
        doctor_obstacle(doctor, "is in strict seccomp mode, before which the library stands down");
    else if (mode == 2)
        doctor_say("note", "has a seccomp filter: it must allow futex and clock_gettime");
    free(status);
}

static void judge_namespaces(pid_t pid)
{
    char own[64], its[64];
    struct stat root, its_root;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/root/.", (int)pid);
    if (doctor_proc_link("/proc/self/ns/mnt", own, sizeof(own)) &&
        doctor_proc_link_of(pid, "ns/mnt", its, sizeof(its)) && strcmp(own, its) != 0)
        doctor_say("note", "has a mount namespace of its own: bucket and library must be there too");
    else if (stat("/", &root) == 0 && stat(path, &its_root) == 0 &&
             (root.st_dev != its_root.st_dev || root.st_ino != its_root.st_ino))
        doctor_say("note", "has a root directory of its own: bucket and library must be there too");
}

static void judge_descriptors(struct doctor *doctor, pid_t pid)
{
    char path[64], target[64];
    unsigned rings = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char name[sizeof("fd/") + NAME_MAX];
        snprintf(name, sizeof(name), "fd/%s", entry->d_name);
        if (doctor_proc_link_of(pid, name, target, sizeof(target)) &&
            strcmp(target, "anon_inode:[io_uring]") == 0)
            rings++;
    }
    if (rings)
        doctor_gap(doctor, "has %u io_uring %s open: what goes through %s is not limited", rings,
                   rings == 1 ? "descriptor" : "descriptors", rings == 1 ? "it" : "them");
    if (directory)
        closedir(directory);
}

/* Whether a file is a bucket. A percent sign in a bucket's name is written twice. */
static bool is_bucket(const char *path)
{
    char escaped[2 * DOCTOR_PATH], *out = escaped;
    struct tundish *bucket;
    for (; *path; path++) {
        if (*path == '%')
            *out++ = '%';
        *out++ = *path;
    }
    *out = '\0';
    if (tundish_open(&bucket, escaped) != 0)
        return false;
    tundish_close(bucket);
    return true;
}

/* One mapping: code of a file is an object; the library shows itself, and so do buckets. */
static void add_mapping(struct doctor *doctor, struct process *process, const char *permissions,
                        const char *path)
{
    char inside[DOCTOR_PATH];
    const char *base = doctor_base(path);
    if (snprintf(inside, sizeof(inside), "/proc/%d/root%s", (int)process->pid, path) >= DOCTOR_PATH)
        return;
    if (strcmp(base, library) == 0) {
        if (!process->loaded)
            doctor_say("preload", "%s", path);
        process->loaded = true;
    } else if (strncmp(permissions, "rw-s", 4) == 0 && is_bucket(inside)) {
        doctor_say("bucket", "%s", path);
        process->buckets++;
    } else if (permissions[2] == 'x' && permissions[3] == 'p') {
        doctor_object_add(doctor, base, inside, 0);
    }
}

static int read_mappings(struct doctor *doctor, struct process *process, const char *program)
{
    size_t len;
    char *rest, *maps = doctor_proc_read(process->pid, "maps", &len);
    if (!maps)
        return -errno;
    for (char *line = strtok_r(maps, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *path = strchr(line, '/'), *permissions = strchr(line, ' ');
        if (path && permissions && permissions < path && strcmp(path, program) != 0)
            add_mapping(doctor, process, permissions + 1, path);
    }
    free(maps);
    return 0;
}

/* What the library in the process was told to do, and what of that it has. */
static void judge_library(struct doctor *doctor, const struct process *process)
{
    const char *off = find_setting(process, "_OFF"), *bucket = find_setting(process, "_BUCKET");
    const char *rate = find_setting(process, "_RATE"), *config = find_setting(process, "_CONFIG");
    if (!process->loaded)
        doctor_obstacle(doctor, "the preload library is not in this process, and gets in only at its start: "
                                "restart it under 'tundish run'");
    else if (off && strcmp(off, "1") == 0)
        doctor_obstacle(doctor, "the preload library is loaded, but off (TUNDISH_OFF)");
    else if (process->buckets)
        doctor_say("active", "the preload library is loaded and has %u %s open", process->buckets,
                   process->buckets == 1 ? "bucket" : "buckets");
    else if (bucket)
        doctor_obstacle(doctor, "the preload library is loaded, but has no bucket open; it was to obey %s",
                        bucket);
    else if (rate || config)
        doctor_say("active", "the preload library is loaded, with %s%s", rate ? "a quota of its own: " : "",
                   rate ? rate : config);
    else if (find_variable(process, "LD_PRELOAD", ""))
        doctor_obstacle(doctor, "the preload library is loaded, but was given no bucket and no rate");
    else
        doctor_gap(doctor, "the preload library is loaded; whether it is active is not known, for the "
                           "environment is gone");
}

/* The program's file tells what a restart would do; -errno if it cannot be opened. */
static int judge_program(struct doctor *doctor, const char *path)
{
    struct elf elf;
    int error = elf_open(&elf, path);
    if (error)
        return error;
    doctor_reach(doctor, &elf, NULL);
    elf_close(&elf);
    return 0;
}

static int examine(struct doctor *doctor, struct process *process)
{
    char path[64], program[DOCTOR_PATH];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
    if (!doctor_proc_link(path, program, sizeof(program)))
        return -errno;
    doctor_say("program", "%s", program);
    int error = judge_program(doctor, path);
    if (error)
        return error;
    judge_privilege(doctor, process->pid);
    judge_seccomp(doctor, process->pid);
    judge_namespaces(process->pid);
    judge_descriptors(doctor, process->pid);
    doctor_object_add(doctor, doctor_base(program), path, 0);
    error = read_mappings(doctor, process, program);
    if (!error)
        judge_library(doctor, process);
    return error;
}

int doctor_process(struct doctor *doctor, pid_t pid)
{
    char subject[32];
    struct process process = {.pid = pid};
    snprintf(subject, sizeof(subject), "process %d", (int)pid);
    process.environment = doctor_proc_read(pid, "environ", &process.environment_len);
    int error = examine(doctor, &process);
    free(process.environment);
    if (error) {
        cli_say(subject, "%s",
                error == -ENOENT ? "there is no such process, or it is the kernel's" : elf_explain(error));
        return CLI_FAILED;
    }
    doctor_objects_examine(doctor, false);
    doctor_report(doctor);
    return doctor_verdict(doctor);
}
