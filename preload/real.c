/* SPDX-License-Identifier: MIT */
/*
 * Wrappers run before our constructor: other libraries' constructors and malloc's own start call write(). So
 * the table is filled on first use. A thread looks all names up into a table of its own and the first to
 * finish publishes it; nobody waits for anybody. dlsym of a name that exists allocates nothing, and these
 * exist in every libc. Should it call one of our wrappers all the same, tdi_inside sends that call to the
 * kernel directly.
 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside.h"

_Thread_local struct tdi_inside tdi_inside __attribute__((tls_model("initial-exec")));

static int raw_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    return (int)syscall(SYS_connect, fd, address, len);
}

static ssize_t raw_write(int fd, const void *buf, size_t n)
{
    return syscall(SYS_write, fd, buf, n);
}

static ssize_t raw_writev(int fd, const struct iovec *iov, int count)
{
    return syscall(SYS_writev, fd, iov, count);
}

static ssize_t raw_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
                          socklen_t len)
{
    return syscall(SYS_sendto, fd, buf, n, flags, to, len);
}

static ssize_t raw_send(int fd, const void *buf, size_t n, int flags)
{
    return raw_sendto(fd, buf, n, flags, NULL, 0);
}

static ssize_t raw_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return syscall(SYS_sendmsg, fd, message, flags);
}

static int raw_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    return (int)syscall(SYS_prctl, option, a, b, c, d);
}

static const struct tdi_real raw = {
    .connect = raw_connect,
    .write = raw_write,
    .writev = raw_writev,
    .send = raw_send,
    .sendto = raw_sendto,
    .sendmsg = raw_sendmsg,
    .prctl = raw_prctl,
};

static struct tdi_real found;
static atomic_int filling;                       /* 1 once somebody writes to `found` */
static _Atomic(const struct tdi_real *) current; /* NULL until `found` is complete */

/* ISO C has no cast from an object pointer to a function pointer; POSIX says the bits are the same. */
static void look_up(void *slot, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol != NULL)
        memcpy(slot, &symbol, sizeof symbol);
}

static const struct tdi_real *fill(void)
{
    int saved_errno = errno;
    struct tdi_real mine = raw;
    tdi_inside.house++;
    look_up(&mine.connect, "connect");
    look_up(&mine.write, "write");
    look_up(&mine.writev, "writev");
    look_up(&mine.send, "send");
    look_up(&mine.sendto, "sendto");
    look_up(&mine.sendmsg, "sendmsg");
    look_up(&mine.prctl, "prctl");
    tdi_inside.house--;
    errno = saved_errno;

    int nobody = 0;
    if (!atomic_compare_exchange_strong_explicit(&filling, &nobody, 1, memory_order_relaxed,
                                                 memory_order_relaxed))
        return &raw; /* somebody is a few instructions from publishing the same; this one call goes without */
    found = mine;
    /* Pairs with the acquire in tdi_real: the pointers must be there before the table is. */
    atomic_store_explicit(&current, &found, memory_order_release);
    return &found;
}

const struct tdi_real *tdi_real(void)
{
    /* Pairs with the release in fill. */
    const struct tdi_real *table = atomic_load_explicit(&current, memory_order_acquire);
    if (table != NULL)
        return table;
    return tdi_inside.house > 0 ? &raw : fill();
}
