/* SPDX-License-Identifier: MIT */
/*
 * syscall: whoever makes a wrapped call by its number (dig, libuv, jemalloc) is charged for it as well, and
 * is seen to close and to copy descriptors. Everything else goes to the real syscall(), six words unchanged.
 *
 * A call that no rule concerns goes there too, because syscall() is no cancellation point, as the functions
 * behind the wrappers are; around those, cancellation is disabled. Where the C library's arguments are not
 * the kernel's, the call is passed on: offsets in halves, sets of signals of another size.
 *
 * Our own calls of syscall() do not come here, see raw.h.
 */
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fd.h"
#include "gate.h"
#include "lib/cancel.h"
#include "policy/policy.h"
#include "ready/ready.h"
#include "real.h"
#include "rule.h"

#define KERNELS_MASK_SIZE 8

/* Beside the kinds of calls that may be charged: those whose wrappers have something to do all the same. */
#define NOTED (UINT32_C(1) << 31)
#define EXECUTED (UINT32_C(1) << 30)

/* A word of the call as the type that the function of its name takes. */
#define INT(i) ((int)a[i])
#define UNSIGNED(i) ((unsigned)a[i])
#define SIZE(i) ((size_t)a[i])
#define AT(i) ((void *)a[i])

struct mask_and_size {
    const sigset_t *mask;
    size_t size;
};

static long forward(long number, const long *a)
{
    return tdi_real()->syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* What kind of call a number is, and which of its words is the descriptor. 0: none of ours. */
static uint32_t kinds(long number, const long *a, int *fd)
{
    *fd = INT(0);
    switch (number) {
    case SYS_connect:
        return TDI_CALL_CONNECT;
    case SYS_write:
        return TDI_CALL_WRITE;
    case SYS_writev:
        return TDI_CALL_WRITEV;
    case SYS_sendto: /* MSG_FASTOPEN connects */
        return TDI_CALL_SENDTO | TDI_CALL_CONNECT;
    case SYS_sendmsg:
        return TDI_CALL_SENDMSG | TDI_CALL_CONNECT;
    case SYS_sendmmsg:
        return TDI_CALL_SENDMMSG | TDI_CALL_CONNECT;
    case SYS_vmsplice:
        return TDI_CALL_SPLICE;
    case SYS_tee:
        *fd = INT(1);
        return TDI_CALL_SPLICE;
    case SYS_splice:
        *fd = INT(2);
        return TDI_CALL_SPLICE;
    case SYS_copy_file_range:
        *fd = INT(2);
        return TDI_CALL_COPY_FILE_RANGE;
    case SYS_read:
        return TDI_CALL_READ;
    case SYS_readv:
        return TDI_CALL_READV;
    case SYS_recvfrom:
        return TDI_CALL_RECVFROM;
    case SYS_recvmsg:
        return TDI_CALL_RECVMSG;
    case SYS_recvmmsg:
        return TDI_CALL_RECVMMSG;
#ifdef __LP64__
    case SYS_sendfile:
        return TDI_CALL_SENDFILE;
    case SYS_pwrite64:
        return TDI_CALL_PWRITE;
    case SYS_pwritev:
    case SYS_pwritev2:
        return TDI_CALL_PWRITEV;
    case SYS_pread64:
        return TDI_CALL_PREAD;
    case SYS_preadv:
    case SYS_preadv2:
        return TDI_CALL_PREADV;
#endif
#ifdef SYS_dup2
    case SYS_dup2:
#endif
#ifdef SYS_close_range
    case SYS_close_range:
#endif
#ifdef SYS_accept
    case SYS_accept:
#endif
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
#ifdef SYS_poll
    case SYS_poll:
#endif
#ifdef __LP64__
    case SYS_pselect6:
#ifdef SYS_select
    case SYS_select:
#endif
#endif
    case SYS_close:
    case SYS_dup:
    case SYS_dup3:
    case SYS_fcntl:
    case SYS_socket:
    case SYS_socketpair:
    case SYS_accept4:
    case SYS_epoll_ctl:
    case SYS_epoll_pwait:
    case SYS_ppoll:
    case SYS_prctl:
    case SYS_seccomp:
        return NOTED;
    case SYS_execve:
    case SYS_execveat:
        return EXECUTED;
    default:
        return 0;
    }
}

/* What may be charged. */
static long charged(long number, const long *a)
{
    switch (number) {
    case SYS_connect:
        return connect(INT(0), AT(1), UNSIGNED(2));
    case SYS_write:
        return write(INT(0), AT(1), SIZE(2));
    case SYS_writev:
        return writev(INT(0), AT(1), INT(2));
    case SYS_sendto:
        return sendto(INT(0), AT(1), SIZE(2), INT(3), AT(4), UNSIGNED(5));
    case SYS_sendmsg:
        return sendmsg(INT(0), AT(1), INT(2));
    case SYS_sendmmsg:
        return sendmmsg(INT(0), AT(1), UNSIGNED(2), INT(3));
    case SYS_vmsplice:
        return vmsplice(INT(0), AT(1), SIZE(2), UNSIGNED(3));
    case SYS_tee:
        return tee(INT(0), INT(1), SIZE(2), UNSIGNED(3));
    case SYS_splice:
        return splice(INT(0), AT(1), INT(2), AT(3), SIZE(4), UNSIGNED(5));
    case SYS_copy_file_range:
        return copy_file_range(INT(0), AT(1), INT(2), AT(3), SIZE(4), UNSIGNED(5));
    case SYS_read:
        return read(INT(0), AT(1), SIZE(2));
    case SYS_readv:
        return readv(INT(0), AT(1), INT(2));
    case SYS_recvfrom:
        return recvfrom(INT(0), AT(1), SIZE(2), INT(3), AT(4), AT(5));
    case SYS_recvmsg:
        return recvmsg(INT(0), AT(1), INT(2));
    case SYS_recvmmsg:
        return recvmmsg(INT(0), AT(1), UNSIGNED(2), INT(3), AT(4));
#ifdef __LP64__
    case SYS_sendfile:
        return sendfile(INT(0), INT(1), AT(2), SIZE(3));
    case SYS_pwrite64:
        return pwrite(INT(0), AT(1), SIZE(2), a[3]);
    case SYS_pwritev:
        return pwritev(INT(0), AT(1), INT(2), a[3]);
    case SYS_pwritev2:
        return pwritev2(INT(0), AT(1), INT(2), a[3], INT(5));
    case SYS_pread64:
        return pread(INT(0), AT(1), SIZE(2), a[3]);
    case SYS_preadv:
        return preadv(INT(0), AT(1), INT(2), a[3]);
    case SYS_preadv2:
        return preadv2(INT(0), AT(1), INT(2), a[3], INT(5));
#endif
    default:
        return forward(number, a);
    }
}

/* What a mask of signals is to be for the function of a call's name: none, or of the kernel's size. */
static bool is_plain_mask(const void *mask, size_t size)
{
    return mask == NULL || size == KERNELS_MASK_SIZE;
}

/* What a function with fewer words than the kernel's pselect6 is to have: a last word that is plain, too. */
static bool is_plain_pair(const struct mask_and_size *pair)
{
    return pair == NULL || (tdi_fd_readable(pair, sizeof *pair) && is_plain_mask(pair->mask, pair->size));
}

/*
 * Waiting for events. ppoll and pselect6 write what is left of the time, which the functions of these names
 * do not: unless something may have to be hidden, they are the kernel's.
 */
static long waited(long number, const long *a)
{
    switch (number) {
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
        return epoll_wait(INT(0), AT(1), INT(2), INT(3));
#endif
    case SYS_epoll_pwait:
        return is_plain_mask(AT(4), SIZE(5)) ? epoll_pwait(INT(0), AT(1), INT(2), INT(3), AT(4))
                                             : forward(number, a);
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
        return is_plain_mask(AT(4), SIZE(5)) ? epoll_pwait2(INT(0), AT(1), INT(2), AT(3), AT(4))
                                             : forward(number, a);
#endif
#ifdef SYS_poll
    case SYS_poll:
        return poll(AT(0), (nfds_t)a[1], INT(2));
#endif
    case SYS_ppoll:
        tdi_ready_note_wait();
        return tdi_ready_any() && is_plain_mask(AT(3), SIZE(4)) ? ppoll(AT(0), (nfds_t)a[1], AT(2), AT(3))
                                                                : forward(number, a);
#ifdef __LP64__
#ifdef SYS_select
    case SYS_select:
        return select(INT(0), AT(1), AT(2), AT(3), AT(4));
#endif
    case SYS_pselect6: {
        const struct mask_and_size *pair = AT(5);
        tdi_ready_note_wait();
        return tdi_ready_any() && is_plain_pair(pair)
                   ? pselect(INT(0), AT(1), AT(2), AT(3), AT(4), pair != NULL ? pair->mask : NULL)
                   : forward(number, a);
    }
#endif
    default:
        return forward(number, a);
    }
}

/* A filter may make our calls the program's death, as prctl's does. */
static long confined(long number, const long *a)
{
    bool confines = INT(0) == SECCOMP_SET_MODE_STRICT || INT(0) == SECCOMP_SET_MODE_FILTER;
    if (confines)
        tdi_rules_stand_down();
    long result = forward(number, a);
    if (confines && result < 0)
        tdi_rules_stand_up();
    return result;
}

/* Descriptors come and go. */
static long noted(long number, const long *a)
{
    switch (number) {
    case SYS_close:
        return close(INT(0));
    case SYS_dup:
        return dup(INT(0));
#ifdef SYS_dup2
    case SYS_dup2:
        return dup2(INT(0), INT(1));
#endif
    case SYS_dup3:
        return dup3(INT(0), INT(1), INT(2));
#ifdef SYS_close_range
    case SYS_close_range:
        return close_range(UNSIGNED(0), UNSIGNED(1), INT(2));
#endif
    case SYS_fcntl:
        return INT(1) == F_DUPFD || INT(1) == F_DUPFD_CLOEXEC ? fcntl(INT(0), INT(1), INT(2))
                                                              : forward(number, a);
    case SYS_socket:
        return socket(INT(0), INT(1), INT(2));
    case SYS_socketpair:
        return socketpair(INT(0), INT(1), INT(2), AT(3));
#ifdef SYS_accept
    case SYS_accept:
        return accept(INT(0), AT(1), AT(2));
#endif
    case SYS_accept4:
        return accept4(INT(0), AT(1), AT(2), INT(3));
    case SYS_epoll_ctl:
        return epoll_ctl(INT(0), INT(1), INT(2), AT(3));
    case SYS_prctl:
        return prctl(INT(0), a[1], a[2], a[3], a[4]);
    case SYS_seccomp:
        return confined(number, a);
    default:
        return waited(number, a);
    }
}

static void restore(void *state)
{
    tdi_cancel_restore(*(int *)state);
}

TDI_WRAPPER long syscall(long number, ...)
{
    long a[6], result;
    int fd;
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    uint32_t what = tdi_rules() != NULL && tdi_inside.house == 0 ? kinds(number, a, &fd) : 0;
    if (what == EXECUTED) /* cancellation stays: disabled by a child of vfork, it would be so in its parent */
        return number == SYS_execve ? execve(AT(0), AT(1), AT(2))
                                    : execveat(INT(0), AT(1), AT(2), AT(3), INT(4));
    if (what == 0 || (what != NOTED && !tdi_gate_concerns(what, fd)))
        return forward(number, a);
    int state = tdi_cancel_disable();
    tdi_cleanup_push(restore, &state);
    result = what == NOTED ? noted(number, a) : charged(number, a);
    tdi_cleanup_pop();
    tdi_cancel_restore(state);
    return result;
}
