/* SPDX-License-Identifier: MIT */
/* Most functions of the table are the system call of their name. */
#include "raw.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw_events.h"
#include "raw_macros.h"

RAW5(int, prctl, int, unsigned long, unsigned long, unsigned long, unsigned long)

RAW3(int, connect, int, const struct sockaddr *, socklen_t)
RAW3(ssize_t, write, int, const void *, size_t)
RAW3(ssize_t, writev, int, const struct iovec *, int)
RAW6(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t)
RAW3(ssize_t, sendmsg, int, const struct msghdr *, int)
RAW4(int, sendmmsg, int, struct mmsghdr *, unsigned, int)
RAW4(ssize_t, sendfile, int, int, off_t *, size_t)
RAW6(ssize_t, splice, int, loff_t *, int, loff_t *, size_t, unsigned)
RAW4(ssize_t, vmsplice, int, const struct iovec *, size_t, unsigned)
RAW4(ssize_t, tee, int, int, size_t, unsigned)
RAW6(ssize_t, copy_file_range, int, loff_t *, int, loff_t *, size_t, unsigned)

RAW3(ssize_t, read, int, void *, size_t)
RAW3(ssize_t, readv, int, const struct iovec *, int)
RAW6(ssize_t, recvfrom, int, void *, size_t, int, struct sockaddr *, socklen_t *)
RAW3(ssize_t, recvmsg, int, struct msghdr *, int)
RAW5(int, recvmmsg, int, struct mmsghdr *, unsigned, int, struct timespec *)

static ssize_t raw_send(int fd, const void *buf, size_t n, int flags)
{
    return raw_sendto(fd, buf, n, flags, NULL, 0);
}

static ssize_t raw_recv(int fd, void *buf, size_t n, int flags)
{
    return raw_recvfrom(fd, buf, n, flags, NULL, NULL);
}

#ifdef SYS_sendfile64
RAW4(ssize_t, sendfile64, int, int, loff_t *, size_t)
#else
static ssize_t raw_sendfile64(int out, int in, loff_t *at, size_t n)
{
    return syscall(SYS_sendfile, out, in, at, n);
}
#endif

/* With an offset in halves, whose order is the same on every machine only for the vector calls. */
static ssize_t vector(long number, int fd, const struct iovec *iov, int count, loff_t at, int flags)
{
    return syscall(number, fd, iov, count, (long)at, (long)(at >> 32), flags);
}

#define RAW_VECTORS(direction, old, new)                                                                     \
    static ssize_t raw_##direction##v(int fd, const struct iovec *iov, int count, off_t at)                  \
    {                                                                                                        \
        return vector(old, fd, iov, count, at, 0);                                                           \
    }                                                                                                        \
    static ssize_t raw_##direction##v64(int fd, const struct iovec *iov, int count, loff_t at)               \
    {                                                                                                        \
        return vector(old, fd, iov, count, at, 0);                                                           \
    }                                                                                                        \
    static ssize_t raw_##direction##v2(int fd, const struct iovec *iov, int count, off_t at, int flags)      \
    {                                                                                                        \
        return vector(new, fd, iov, count, at, flags);                                                       \
    }                                                                                                        \
    static ssize_t raw_##direction##v64v2(int fd, const struct iovec *iov, int count, loff_t at, int flags)  \
    {                                                                                                        \
        return vector(new, fd, iov, count, at, flags);                                                       \
    }

RAW_VECTORS(pwrite, SYS_pwritev, SYS_pwritev2)
RAW_VECTORS(pread, SYS_preadv, SYS_preadv2)

static ssize_t raw_pwrite64(int fd, const void *buf, size_t n, loff_t at)
{
    struct iovec iov = {(void *)(uintptr_t)buf, n};
    return raw_pwritev64(fd, &iov, 1, at);
}

static ssize_t raw_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return raw_pwrite64(fd, buf, n, at);
}

static ssize_t raw_pread64(int fd, void *buf, size_t n, loff_t at)
{
    struct iovec iov = {buf, n};
    return raw_preadv64(fd, &iov, 1, at);
}

static ssize_t raw_pread(int fd, void *buf, size_t n, off_t at)
{
    return raw_pread64(fd, buf, n, at);
}

/* The checks are libc's; this early there are none. */
static ssize_t raw_read_chk(int fd, void *buf, size_t n, size_t room)
{
    (void)room;
    return raw_read(fd, buf, n);
}

static ssize_t raw_pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
    (void)room;
    return raw_pread(fd, buf, n, at);
}

static ssize_t raw_pread64_chk(int fd, void *buf, size_t n, loff_t at, size_t room)
{
    (void)room;
    return raw_pread64(fd, buf, n, at);
}

static ssize_t raw_recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
    (void)room;
    return raw_recv(fd, buf, n, flags);
}

static ssize_t raw_recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *from,
                                socklen_t *len)
{
    (void)room;
    return raw_recvfrom(fd, buf, n, flags, from, len);
}

RAW3(int, execve, const char *, char *const *, char *const *)
RAW5(int, execveat, int, const char *, char *const *, char *const *, int)

static int raw_execv(const char *path, char *const *argv)
{
    return raw_execve(path, argv, environ);
}

static int raw_fexecve(int fd, char *const *argv, char *const *envp)
{
    return raw_execveat(fd, "", argv, envp, AT_EMPTY_PATH);
}

static int raw_execvpe(const char *file, char *const *argv, char *const *envp)
{
    int (*libcs)(const char *, char *const *, char *const *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "execvpe");
    memcpy(&libcs, &symbol, sizeof symbol);
    return libcs(file, argv, envp);
}

static int raw_execvp(const char *file, char *const *argv)
{
    return raw_execvpe(file, argv, environ);
}

static int raw_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const *argv, char *const *envp)
{
    int (*libcs)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                 char *const *, char *const *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "posix_spawn");
    memcpy(&libcs, &symbol, sizeof symbol);
    return libcs(pid, path, actions, attributes, argv, envp);
}

static int raw_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const *argv, char *const *envp)
{
    int (*libcs)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                 char *const *, char *const *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "posix_spawnp");
    memcpy(&libcs, &symbol, sizeof symbol);
    return libcs(pid, file, actions, attributes, argv, envp);
}

const struct tdi_real tdi_raw = {
    .prctl = raw_prctl,
    .syscall = tdi_raw_syscall,

    .connect = raw_connect,
    .write = raw_write,
    .writev = raw_writev,
    .pwrite = raw_pwrite,
    .pwrite64 = raw_pwrite64,
    .pwritev = raw_pwritev,
    .pwritev64 = raw_pwritev64,
    .pwritev2 = raw_pwritev2,
    .pwritev64v2 = raw_pwritev64v2,
    .send = raw_send,
    .sendto = raw_sendto,
    .sendmsg = raw_sendmsg,
    .sendmmsg = raw_sendmmsg,
    .sendfile = raw_sendfile,
    .sendfile64 = raw_sendfile64,
    .splice = raw_splice,
    .vmsplice = raw_vmsplice,
    .tee = raw_tee,
    .copy_file_range = raw_copy_file_range,

    .read = raw_read,
    .read_chk = raw_read_chk,
    .readv = raw_readv,
    .pread = raw_pread,
    .pread64 = raw_pread64,
    .pread_chk = raw_pread_chk,
    .pread64_chk = raw_pread64_chk,
    .preadv = raw_preadv,
    .preadv64 = raw_preadv64,
    .preadv2 = raw_preadv2,
    .preadv64v2 = raw_preadv64v2,
    .recv = raw_recv,
    .recv_chk = raw_recv_chk,
    .recvfrom = raw_recvfrom,
    .recvfrom_chk = raw_recvfrom_chk,
    .recvmsg = raw_recvmsg,
    .recvmmsg = raw_recvmmsg,

    .epoll_create = raw_epoll_create,
    .epoll_create1 = raw_epoll_create1,
    .epoll_ctl = raw_epoll_ctl,
    .epoll_wait = raw_epoll_wait,
    .epoll_pwait = raw_epoll_pwait,
    .epoll_pwait2 = raw_epoll_pwait2,
    .poll = raw_poll,
    .poll_chk = raw_poll_chk,
    .ppoll = raw_ppoll,
    .ppoll_chk = raw_ppoll_chk,
    .select = raw_select,
    .pselect = raw_pselect,

    .close = raw_close,
    .close_range = raw_close_range,
    .closefrom = raw_closefrom,
    .dup = raw_dup,
    .dup2 = raw_dup2,
    .dup3 = raw_dup3,
    .fcntl = raw_fcntl,
    .fcntl64 = raw_fcntl,
    .accept = raw_accept,
    .accept4 = raw_accept4,
    .socket = raw_socket,
    .socketpair = raw_socketpair,
    .fclose = raw_fclose,
    .freopen = raw_freopen,
    .freopen64 = raw_freopen,

    .execve = raw_execve,
    .execv = raw_execv,
    .execvp = raw_execvp,
    .execvpe = raw_execvpe,
    .fexecve = raw_fexecve,
    .execveat = raw_execveat,
    .posix_spawn = raw_posix_spawn,
    .posix_spawnp = raw_posix_spawnp,
};
