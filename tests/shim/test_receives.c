/* SPDX-License-Identifier: MIT */
/* What is charged of what is received, and what is not. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "raw_call.h"
#include "snippets.h"

static char bytes[5000], arrived[100000];

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);

static void expect_charged(unsigned n)
{
    EXPECT(guest_charged() == n, "%u, not %u", guest_charged(), n);
}

/* Our end of a connection that this many bytes have come by. */
static int receive(unsigned n)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    EXPECT(peer_put(ends[1], bytes, n) == 0, "put");
    return ends[0];
}

static void looking_ahead_is_free(void)
{
    int fd = receive(100);
    struct iovec part = {arrived, sizeof arrived};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr messages = {.msg_hdr = message};
    EXPECT(recv(fd, arrived, sizeof arrived, MSG_PEEK) == 100, "errno %d", errno);
    EXPECT(recvmsg(fd, &message, MSG_PEEK) == 100, "errno %d", errno);
    EXPECT(recvmmsg(fd, &messages, 1, MSG_PEEK, NULL) == 1, "errno %d", errno);
    EXPECT(recvmsg(fd, &message, MSG_ERRQUEUE) == -1 && errno == EAGAIN, "errno %d", errno);
    expect_charged(0);
    EXPECT(recv(fd, arrived, 60, 0) == 60, "errno %d", errno);
    expect_charged(60);
    EXPECT(recv(fd, arrived, sizeof arrived, MSG_DONTWAIT) == 40, "errno %d", errno);
    expect_charged(100);
}

static void nothing_and_the_end_are_free_and_never_faked(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    EXPECT(recv(ends[0], arrived, 10, MSG_DONTWAIT) == -1 && errno == EAGAIN, "errno %d", errno);
    EXPECT(read(-1, arrived, 10) == -1 && errno == EBADF, "errno %d", errno);
    EXPECT(peer_put(ends[1], bytes, 10) == 0, "put");
    close(ends[1]);
    EXPECT(read(ends[0], arrived, 4) == 4, "errno %d", errno);
    EXPECT(read(ends[0], arrived, 100) == 6, "errno %d", errno);
    EXPECT(read(ends[0], arrived, 100) == 0, "errno %d", errno);
    expect_charged(10);
}

static void datagrams_cost_what_came(void)
{
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    int fd = peer_listen(SOCK_DGRAM), sender = peer_listen(SOCK_DGRAM);
    EXPECT(getsockname(fd, (struct sockaddr *)&to, &len) == 0, "no receiver");
    for (int i = 0; i < 4; i++)
        EXPECT(raw_call(SYS_sendto, sender, RAW(bytes), 50 + i, 0, RAW(&to), len) == 50 + i, "sendto");
    EXPECT(recv(fd, arrived, sizeof arrived, 0) == 50, "errno %d", errno);
    expect_charged(50);
    EXPECT(recv(fd, arrived, 10, MSG_TRUNC) == 51, "errno %d", errno);
    expect_charged(101);
    struct iovec parts[2] = {{arrived, 1000}, {arrived + 1000, 1000}};
    struct mmsghdr messages[2];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 2; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    errno = EDOM;
    EXPECT(recvmmsg(fd, messages, 2, MSG_WAITFORONE, NULL) == 2 && errno == EDOM, "errno %d", errno);
    EXPECT(messages[0].msg_len == 52 && messages[1].msg_len == 53, "lengths");
    expect_charged(206);
    EXPECT(recvmmsg(fd, messages, 2, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN, "errno %d", errno);
    expect_charged(206);
}

static void receives_by_number_are_charged(void)
{
    int fd = receive(100);
    struct iovec part = {arrived, 10};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    EXPECT(syscall(SYS_read, fd, arrived, 10L) == 10, "errno %d", errno);
    EXPECT(syscall(SYS_readv, fd, &part, 1L) == 10, "errno %d", errno);
    EXPECT(syscall(SYS_recvfrom, fd, arrived, 10L, 0L, NULL, NULL) == 10, "errno %d", errno);
    EXPECT(syscall(SYS_recvmsg, fd, &message, 0L) == 10, "errno %d", errno);
    EXPECT(syscall(SYS_preadv2, fd, &part, 1L, -1L, -1L, 0L) == 10, "errno %d", errno);
    expect_charged(50);
}

/* Two bursts and a half at 20 kB/s: the debt of each delays the next. */
static void what_came_delays_what_comes(void)
{
    int fd = receive(2500);
    uint64_t start = guest_ms();
    for (int i = 0; i < 5; i++)
        EXPECT(read(fd, arrived, 500) == 500, "errno %d", errno);
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 45 && took < 5000, "%d ms", (int)took);
}

static void overflow(int fd, int by_recv)
{
    close(STDERR_FILENO);
    if (by_recv)
        (void)__recv_chk(fd, arrived, 100, 99, 0);
    else
        (void)__read_chk(fd, arrived, 100, 99);
    _exit(0);
}

static void checked_variants_end_an_overflow(void)
{
    for (int by_recv = 0; by_recv < 2; by_recv++) {
        int status = 0, fd = receive(100);
        pid_t child = fork();
        if (child == 0)
            overflow(fd, by_recv);
        EXPECT(waitpid(child, &status, 0) == child, "waitpid");
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%#x", (unsigned)status);
    }
}

#define DOWN GUEST_SLOW, "TUNDISH_CALLS=down"

static const struct guest_case cases[] = {
    GUEST_CASE(looking_ahead_is_free, DOWN),
    GUEST_CASE(nothing_and_the_end_are_free_and_never_faked, DOWN),
    GUEST_CASE(datagrams_cost_what_came, DOWN),
    GUEST_CASE(receives_by_number_are_charged, DOWN),
    GUEST_CASE(what_came_delays_what_comes, "TUNDISH_RATE=20kB/s", "TUNDISH_BURST=1000",
               "TUNDISH_CALLS=down"),
    GUEST_CASE(checked_variants_end_an_overflow, DOWN),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
