/* SPDX-License-Identifier: MIT */
/* What the kernel knows of processes: who we are, who still lives, which boot and which namespaces. */
#ifndef TUNDISH_PLAT_PROC_H
#define TUNDISH_PLAT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TDI_PROGRAM_LEN 16

/* Names one process for as long as the machine runs, as far as it can be told; 0 is unknown. */
struct tdi_identity {
    uint32_t pid;
    uint64_t start_time;       /* 1/100 s since boot in the initial time namespace, from /proc */
    uint64_t pid_namespace;    /* inode */
    uint32_t namespace_digest; /* where the inode is unknown; see tdi_proc_digest */
    uint64_t image;            /* of the program, see proc.c; forked children have their parent's */
    char program[TDI_PROGRAM_LEN];
};

/* 10 bits of a pid namespace, for where there is no room for more; not 0, but of 0. */
static inline uint32_t tdi_proc_digest(uint64_t pid_namespace)
{
    return pid_namespace ? 1 + (uint32_t)(pid_namespace % 1023) : 0;
}

/* The calling process. Without /proc only the pid and the name are known. Signal-safe. */
void tdi_proc_identify(struct tdi_identity *out);

/*
 * False only if it is certainly gone; a pid namespace that is unknown or not the asker's says nothing. Where only
 * the digest is known, namespaces of the same one are taken for the same.
 */
bool tdi_proc_may_live(const struct tdi_identity *who, const struct tdi_identity *asker);

/* Whether two identities of one process are of one program, or nobody knows: nothing was executed in between. */
bool tdi_proc_is_same_execution(const struct tdi_identity *a, const struct tdi_identity *b);

/*
 * Whether the process, which was not certainly gone just now, has executed another program since. False also if
 * that cannot be known, or it was the same program again.
 */
bool tdi_proc_has_executed(const struct tdi_identity *who, const struct tdi_identity *asker);

/* The 128 bits of /proc/sys/kernel/random/boot_id, or zeros where there is none. */
void tdi_proc_boot_id(uint64_t out[2]);

/*
 * What CLOCK_BOOTTIME of this process is ahead of the initial time namespace's. Read once; 0 where the kernel
 * has no time namespaces.
 */
int64_t tdi_proc_boottime_offset_ns(void);

/* For a forked child, which may be in another time namespace. */
void tdi_proc_forget_boottime_offset(void);

/* False after unshare(CLONE_NEWTIME) without exec: then the offset above cannot be known. */
bool tdi_proc_boottime_offset_known(void);

/* The calling thread; not 0. And whether a thread of this process is still there. */
uint32_t tdi_proc_thread(void);
bool tdi_proc_thread_lives(uint32_t thread);

/*
 * A full memory barrier in every running thread of this process at once. prepare() once per process before, and
 * again after a fork. 0, or a negative errno where the kernel has none, or a filter forbids it, also by now.
 */
int tdi_proc_barrier_prepare(void);
int tdi_proc_barrier(void);

uint32_t tdi_proc_pid(void);
uint32_t tdi_proc_uid(void);

/* The program's name without directories, as it was when this code was loaded. Static. */
const char *tdi_proc_program(void);

/* A variable of the environment; NULL in a set-user-ID program. */
const char *tdi_proc_env(const char *name);

/* Lets another thread run. */
void tdi_proc_yield(void);

#endif
