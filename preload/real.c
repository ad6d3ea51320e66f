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

#include "inside.h"
#include "raw.h"

_Thread_local struct tdi_inside tdi_inside __attribute__((tls_model("initial-exec")));

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
    struct tdi_real mine = tdi_raw;
    tdi_inside.house++;
    look_up(&mine.connect, "connect");
    look_up(&mine.write, "write");
    look_up(&mine.writev, "writev");
    look_up(&mine.send, "send");
    look_up(&mine.sendto, "sendto");
    look_up(&mine.sendmsg, "sendmsg");
    look_up(&mine.pwrite, "pwrite");
    look_up(&mine.pwritev, "pwritev");
    look_up(&mine.sendmmsg, "sendmmsg");
    look_up(&mine.sendfile, "sendfile");
    look_up(&mine.splice, "splice");
    look_up(&mine.vmsplice, "vmsplice");
    look_up(&mine.tee, "tee");
    look_up(&mine.copy_file_range, "copy_file_range");
    look_up(&mine.syscall, "syscall");
    look_up(&mine.read, "read");
    look_up(&mine.readv, "readv");
    look_up(&mine.pread, "pread");
    look_up(&mine.preadv, "preadv");
    look_up(&mine.recv, "recv");
    look_up(&mine.recvfrom, "recvfrom");
    look_up(&mine.recvmsg, "recvmsg");
    look_up(&mine.recvmmsg, "recvmmsg");
    look_up(&mine.epoll_create, "epoll_create");
    look_up(&mine.epoll_create1, "epoll_create1");
    look_up(&mine.epoll_ctl, "epoll_ctl");
    look_up(&mine.epoll_wait, "epoll_wait");
    look_up(&mine.epoll_pwait, "epoll_pwait");
    look_up(&mine.poll, "poll");
    look_up(&mine.ppoll, "ppoll");
    look_up(&mine.select, "select");
    look_up(&mine.pselect, "pselect");
    look_up(&mine.close, "close");
    look_up(&mine.dup, "dup");
    look_up(&mine.dup2, "dup2");
    look_up(&mine.dup3, "dup3");
    look_up(&mine.fcntl, "fcntl");
    look_up(&mine.accept, "accept");
    look_up(&mine.accept4, "accept4");
    look_up(&mine.socket, "socket");
    look_up(&mine.socketpair, "socketpair");
    look_up(&mine.fclose, "fclose");
    look_up(&mine.freopen, "freopen");
    look_up(&mine.execve, "execve");
    look_up(&mine.execv, "execv");
    look_up(&mine.execvp, "execvp");
    look_up(&mine.execvpe, "execvpe");
    look_up(&mine.fexecve, "fexecve");
    look_up(&mine.posix_spawn, "posix_spawn");
    look_up(&mine.posix_spawnp, "posix_spawnp");
#ifdef __GLIBC__ /* elsewhere not all of these exist, and nobody calls them */
    look_up(&mine.pwrite64, "pwrite64");
    look_up(&mine.pwritev64, "pwritev64");
    look_up(&mine.pwritev2, "pwritev2");
    look_up(&mine.pwritev64v2, "pwritev64v2");
    look_up(&mine.sendfile64, "sendfile64");
    look_up(&mine.pread64, "pread64");
    look_up(&mine.preadv64, "preadv64");
    look_up(&mine.preadv2, "preadv2");
    look_up(&mine.preadv64v2, "preadv64v2");
    look_up(&mine.read_chk, "__read_chk");
    look_up(&mine.pread_chk, "__pread_chk");
    look_up(&mine.pread64_chk, "__pread64_chk");
    look_up(&mine.recv_chk, "__recv_chk");
    look_up(&mine.recvfrom_chk, "__recvfrom_chk");
    look_up(&mine.freopen64, "freopen64");
    look_up(&mine.poll_chk, "__poll_chk");
    look_up(&mine.ppoll_chk, "__ppoll_chk");
#if __GLIBC_PREREQ(2, 28)
    look_up(&mine.fcntl64, "fcntl64");
#endif
#if __GLIBC_PREREQ(2, 34)
    look_up(&mine.close_range, "close_range");
    look_up(&mine.closefrom, "closefrom");
    look_up(&mine.execveat, "execveat");
#endif
#if __GLIBC_PREREQ(2, 35)
    look_up(&mine.epoll_pwait2, "epoll_pwait2");
#endif
#endif
    look_up(&mine.prctl, "prctl");
    tdi_inside.house--;
    errno = saved_errno;

    int nobody = 0;
    if (!atomic_compare_exchange_strong_explicit(&filling, &nobody, 1, memory_order_relaxed,
                                                 memory_order_relaxed))
        return &tdi_raw; /* somebody is a few instructions from publishing the same; this one call goes without */
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
    return tdi_inside.house > 0 ? &tdi_raw : fill();
}
