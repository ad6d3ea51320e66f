/* SPDX-License-Identifier: MIT */
/* The functions behind the wrappers, in one table: whatever would have been called without us. */
#ifndef TUNDISH_PRELOAD_REAL_H
#define TUNDISH_PRELOAD_REAL_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct tdi_real {
    int (*connect)(int, const struct sockaddr *, socklen_t);
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*writev)(int, const struct iovec *, int);
    ssize_t (*send)(int, const void *, size_t, int);
    ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    ssize_t (*sendmsg)(int, const struct msghdr *, int);
    int (*prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
};

/*
 * The table, looked up by whoever comes first, thread or constructor. Raw system calls while that very lookup
 * is under way. Never NULL, keeps errno.
 */
const struct tdi_real *tdi_real(void);

#endif
