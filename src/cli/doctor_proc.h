/* SPDX-License-Identifier: MIT */
/* Files of /proc/PID. */
#ifndef TUNDISH_CLI_DOCTOR_PROC_H
#define TUNDISH_CLI_DOCTOR_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The content of /proc/PID/NAME, malloc'ed, with a NUL behind it; NULL with errno set. */
char *doctor_proc_read(pid_t pid, const char *name, size_t *len);

/* Where a link leads; false with errno set. */
bool doctor_proc_link(const char *path, char *target, size_t len);
bool doctor_proc_link_of(pid_t pid, const char *name, char *target, size_t len);

#endif
