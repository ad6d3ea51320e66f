/* SPDX-License-Identifier: MIT */
/* Calls by number: charged like the functions of their names, and otherwise exactly the kernel's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest.h"
#include "snippets.h"

static char bytes[5000];

static void other_numbers_are_untouched(void)
{
    static unsigned word = 7;
    struct statx status;
    errno = EDOM;
    EXPECT(syscall(SYS_getpid) == getpid(), "getpid");
    EXPECT(syscall(SYS_statx, AT_FDCWD, "/", 0, STATX_INO, &status) == 0 && status.stx_ino != 0, "statx");
    EXPECT(syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) >= 0, "membarrier");
    EXPECT(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0, "futex");
    EXPECT(errno == EDOM, "errno %d", errno);
    EXPECT(syscall(100000) == -1 && errno == ENOSYS, "no such call, errno %d", errno);
    EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT, 8, NULL, NULL, 0) == -1 && errno == EAGAIN, "errno %d",
           errno);
    long page = sysconf(_SC_PAGESIZE);
    int fd = peer_file(bytes, sizeof bytes);
    long at = syscall(SYS_mmap, NULL, page, PROT_READ, MAP_PRIVATE, fd, 0L);
    EXPECT(at != -1 && syscall(SYS_munmap, at, page) == 0, "six words, errno %d", errno);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct timespec left = {1, 0};
    EXPECT(syscall(SYS_ppoll, &p, 1, &left, NULL, 8L) == 1, "ppoll, errno %d", errno);
    EXPECT(left.tv_sec == 0 && left.tv_nsec > 0, "what is left of the time was not written");
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

static void sends_by_number_are_charged(void)
{
    int ends[2], pipes[2], file = peer_file(bytes, 50);
    struct iovec part = {bytes, 20};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    EXPECT(peer_pair(ends) == 0 && pipe(pipes) == 0, "no pair or pipe");
    errno = EDOM;
    EXPECT(syscall(SYS_write, ends[0], bytes, 10L) == 10, "write");
    EXPECT(syscall(SYS_writev, ends[0], &part, 1L) == 20, "writev");
    EXPECT(syscall(SYS_sendto, ends[0], bytes, 30L, 0L, NULL, 0L) == 30, "sendto");
    EXPECT(syscall(SYS_sendmsg, ends[0], &message, 0L) == 20, "sendmsg");
    EXPECT(syscall(SYS_sendfile, ends[0], file, NULL, 40L) == 40, "sendfile");
    EXPECT(syscall(SYS_pwritev2, ends[0], &part, 1L, -1L, -1L, 0L) == 20, "pwritev2");
    EXPECT(write(pipes[1], bytes, 60) == 60, "pipe");
    EXPECT(syscall(SYS_splice, pipes[0], NULL, ends[0], NULL, 60L, 0L) == 60, "splice");
    EXPECT(errno == EDOM, "errno %d", errno);
    EXPECT(guest_charged() == 200, "%u", guest_charged());
    EXPECT(peer_expect(ends[1], bytes, 200) == 0, "other bytes");
    EXPECT(syscall(SYS_write, -1, bytes, 10L) == -1 && errno == EBADF, "errno %d", errno);
    EXPECT(syscall(SYS_write, pipes[1], bytes, 10L) == 10, "pipe");
    EXPECT(guest_charged() == 200, "%u", guest_charged());
}

/* As dig asks its questions: one datagram, to an address. */
static void datagrams_by_number_are_charged(void)
{
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    int receiver = peer_listen(SOCK_DGRAM), fd = socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT(getsockname(receiver, (struct sockaddr *)&to, &len) == 0, "no receiver");
    struct iovec part = {bytes, 40};
    struct mmsghdr message = {
        .msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = &to, .msg_namelen = len}};
    EXPECT(syscall(SYS_sendmmsg, fd, &message, 1L, 0L) == 1 && message.msg_len == 40, "errno %d", errno);
    EXPECT(peer_expect(receiver, bytes, 40) == 0, "nothing came");
    EXPECT(guest_charged() == 40, "%u", guest_charged());
}

static void connects_by_number_are_charged(void)
{
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    int listener = peer_listen(SOCK_STREAM), fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0L);
    EXPECT(getsockname(listener, (struct sockaddr *)&to, &len) == 0, "no listener");
    EXPECT(syscall(SYS_connect, fd, &to, len) == 0, "errno %d", errno);
    EXPECT(guest_charged() == 1, "%u", guest_charged());
}

/* Born, copied, closed and replaced without a function of libc. */
static void descriptors_by_number_are_known(void)
{
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    int listener = peer_listen(SOCK_STREAM), client = socket(AF_INET, SOCK_STREAM, 0), pipes[2];
    EXPECT(getsockname(listener, (struct sockaddr *)&to, &len) == 0 && pipe(pipes) == 0, "no listener");
    EXPECT(connect(client, (struct sockaddr *)&to, len) == 0, "connect");
    int fd = (int)syscall(SYS_accept4, listener, NULL, NULL, (long)SOCK_CLOEXEC);
    EXPECT(fd >= 0, "accept4, errno %d", errno);
    EXPECT(write(fd, bytes, 10) == 10 && guest_charged() == 10, "%u", guest_charged());
    int copy = (int)syscall(SYS_dup, fd), high = (int)syscall(SYS_fcntl, fd, F_DUPFD, 100L);
    EXPECT(copy >= 0 && high >= 100, "dup, errno %d", errno);
    EXPECT(write(copy, bytes, 10) == 10 && write(high, bytes, 10) == 10, "write");
    EXPECT(guest_charged() == 30, "%u", guest_charged());
    EXPECT(syscall(SYS_close, copy) == 0, "close");
    EXPECT(fcntl(pipes[1], F_DUPFD, (long)copy) == copy, "the number was not free");
    EXPECT(write(copy, bytes, 10) == 10 && guest_charged() == 30, "%u, a pipe", guest_charged());
    EXPECT(syscall(SYS_dup3, high, copy, 0L) == copy, "dup3, errno %d", errno);
    EXPECT(write(copy, bytes, 10) == 10 && guest_charged() == 40, "%u, a socket", guest_charged());
    EXPECT(syscall(SYS_dup3, pipes[1], high, 0L) == high, "dup3, errno %d", errno);
    EXPECT(write(high, bytes, 10) == 10 && guest_charged() == 40, "%u, a pipe", guest_charged());
}

static void *cancelled(void *fd)
{
    pthread_cancel(pthread_self());
    for (int i = 0; i < 3; i++)
        EXPECT(syscall(SYS_write, *(int *)fd, bytes, 400L) == 400, "errno %d", errno);
    *(int *)fd = -1;
    pthread_testcancel();
    return NULL;
}

/* syscall() is no cancellation point, even where the call it makes has to wait. */
static void cancellation_waits_for_its_points(void)
{
    int fd = guest_upload();
    void *result;
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, cancelled, &fd) == 0, "no thread");
    EXPECT(pthread_join(thread, &result) == 0, "join");
    EXPECT(fd == -1 && result == PTHREAD_CANCELED, "cancelled in a call");
}

static const struct guest_case cases[] = {
    GUEST_CASE(other_numbers_are_untouched, GUEST_SLOW, "TUNDISH_CALLS=up,down"),
    GUEST_CASE(sends_by_number_are_charged, GUEST_SLOW),
    GUEST_CASE(datagrams_by_number_are_charged, GUEST_SLOW),
    GUEST_CASE(connects_by_number_are_charged, GUEST_SLOW, "TUNDISH_COUNT=calls"),
    GUEST_CASE(descriptors_by_number_are_known, GUEST_SLOW),
    GUEST_CASE(cancellation_waits_for_its_points, "TUNDISH_RATE=20kB/s", "TUNDISH_BURST=500"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
