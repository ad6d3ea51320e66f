/* SPDX-License-Identifier: MIT */
/* A blocking socket behaves as one of the kernel's does: everything is sent, and it is interrupted likewise.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "snippets.h"

static char bytes[1000000];

static void handler(int number)
{
    (void)number;
}

/* SIGALRM after `first_ms` and then every 30 ms: one that comes just before the thread sleeps is missed. */
static void alarms_from(uint64_t first_ms, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval timer = {.it_value.tv_usec = (suseconds_t)first_ms * 1000, .it_interval.tv_usec = 30000};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    EXPECT(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
}

static void write_of_more_than_the_capacity_is_complete(void)
{
    int fd = guest_upload();
    uint64_t start = guest_ms();
    errno = EDOM;
    ssize_t n = write(fd, bytes, sizeof bytes);
    EXPECT(n == (ssize_t)sizeof bytes, "%zd", n);
    EXPECT(errno == EDOM, "%d", errno);
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 180, "936 kB at 5 MB/s took %d ms", (int)took);
}

static void writev_of_many_parts_arrives_in_order(void)
{
    int ends[2];
    struct iovec parts[40];
    char sent[40 * 1000];
    static char arrived[sizeof sent];
    EXPECT(peer_pair(ends) == 0, "no pair");
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 7 / 3);
    for (size_t i = 0; i < 40; i++)
        parts[i] = (struct iovec){sent + i * 1000, 1000};
    ssize_t n = writev(ends[0], parts, 40);
    EXPECT(n == (ssize_t)sizeof sent, "%zd", n);
    EXPECT(recv(ends[1], arrived, sizeof arrived, MSG_WAITALL) == (ssize_t)sizeof arrived, "recv");
    EXPECT(memcmp(sent, arrived, sizeof sent) == 0, "other bytes");
}

static void handler_interrupts_a_write_that_sent_nothing(void)
{
    int fd = guest_upload();
    EXPECT(write(fd, bytes, 1000) == 1000, "the burst");
    alarms_from(100, 0);
    uint64_t start = guest_ms();
    ssize_t n = write(fd, bytes, 500);
    EXPECT(n == -1 && errno == EINTR, "%zd, errno %d", n, errno);
    EXPECT(guest_ms() - start < 5000, "interrupted late");
    EXPECT(guest_charged() == 1000, "%u", guest_charged());
}

static void handler_makes_a_begun_write_short(void)
{
    int fd = guest_upload();
    alarms_from(147, 0); /* not when a piece is due: a signal that comes just then ends no sleep */
    ssize_t n = write(fd, bytes, 500000);
    EXPECT(n >= 1000 && n < 500000, "%zd", n);
}

/* The time-stamps of what was sent lie in the error queue, and POLLERR says so; that is no broken connection. */
static void error_queue_does_not_cut_a_write(void)
{
    int fd = guest_upload();
    int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID;
    EXPECT(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps) == 0, "SO_TIMESTAMPING");
    ssize_t n = write(fd, bytes, 30000);
    EXPECT(n == 30000, "%zd", n);
}

/* What the kernel answers to without looking at tokens. */
static void hopeless_calls_fail_as_the_kernel_says(void)
{
    int fd = guest_upload();
    uintptr_t one = getpid() > 0; /* the compiler need not know */
    struct msghdr *nowhere = (struct msghdr *)(8 * one);
    EXPECT(sendmsg(fd, nowhere, 0) == -1 && errno == EFAULT, "sendmsg, errno %d", errno);
    EXPECT(writev(fd, (struct iovec *)(8 * one), 3) == -1 && errno == EFAULT, "writev, errno %d", errno);
    EXPECT(sendmsg(-1, nowhere, 0) == -1 && errno == EBADF, "no descriptor, errno %d", errno);
    struct iovec all = {bytes, SIZE_MAX};
    EXPECT(writev(fd, &all, 1) == -1 && errno == EINVAL, "all of memory, errno %d", errno);
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint64_t start = guest_ms();
    ssize_t n = sendto(datagrams, bytes, 200000, 0, (struct sockaddr *)&to, sizeof to);
    EXPECT(n == -1 && errno == EMSGSIZE, "%zd, errno %d", n, errno);
    EXPECT(guest_ms() - start < 2000, "it waited for its tokens");
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

/* Who forbids itself system calls is left alone from then on. */
static void seccomp_is_survived(void)
{
    int fd = guest_upload();
    pid_t child = fork();
    EXPECT(child >= 0, "fork");
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0 && write(fd, bytes, 5000) == 5000)
            syscall(SYS_exit, 0);
        syscall(SYS_exit, 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "status %x", (unsigned)status);
}

static void handler_with_sa_restart_does_not_interrupt(void)
{
    int fd = guest_upload();
    struct sigaction fault = {.sa_handler = handler}; /* as many runtimes have it */
    EXPECT(sigaction(SIGSEGV, &fault, NULL) == 0, "sigaction");
    alarms_from(30, SA_RESTART);
    ssize_t n = write(fd, bytes, 30000);
    EXPECT(n == 30000, "%zd", n);
}

static void send_timeout_ends_a_write(void)
{
    int fd = guest_upload();
    struct timeval timeout = {.tv_usec = 100000};
    EXPECT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0, "setsockopt");
    ssize_t n = write(fd, bytes, 1500);
    EXPECT(n == 1000, "%zd", n);
    uint64_t start = guest_ms();
    n = write(fd, bytes, 500);
    uint64_t took = guest_ms() - start;
    EXPECT(n == -1 && errno == EAGAIN, "%zd, errno %d", n, errno);
    EXPECT(took >= 95 && took < 5000, "%d ms", (int)took);
}

struct datagram {
    int fd;
    struct sockaddr_in to;
};

static void *send_datagram(void *argument)
{
    struct datagram *d = argument;
    sendto(d->fd, bytes, 900, 0, (struct sockaddr *)&d->to, sizeof d->to);
    return NULL;
}

static void cancelled_thread_gives_back_what_it_gathered(void)
{
#ifdef __SANITIZE_ADDRESS__
    guest_skip("AddressSanitizer takes the unwinding of a cancelled thread for an error");
#endif
    struct datagram d = {.fd = socket(AF_INET, SOCK_DGRAM, 0)};
    socklen_t len = sizeof d.to;
    pthread_t thread;
    void *result;
    EXPECT(getsockname(peer_listen(SOCK_DGRAM), (struct sockaddr *)&d.to, &len) == 0, "no receiver");
    EXPECT(sendto(d.fd, bytes, 400, 0, (struct sockaddr *)&d.to, len) == 400, "the first");
    EXPECT(pthread_create(&thread, NULL, send_datagram, &d) == 0, "no thread");
    for (int i = 0; i < 500 && guest_charged() != 1000; i++)
        guest_sleep_ms(10);
    EXPECT(guest_charged() == 1000, "it does not gather: %u", guest_charged());
    EXPECT(pthread_cancel(thread) == 0, "cancel");
    EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "it was not cancelled");
    EXPECT(guest_charged() == 400, "%u", guest_charged());
}

static void *reset_soon(void *argument)
{
    int fd = (int)(intptr_t)argument;
    struct linger at_once = {1, 0};
    guest_sleep_ms(
        93); /* not when a piece is due: between the look at the socket and the send it is the send's */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    return NULL;
}

static void reset_by_the_peer_is_reported(void)
{
    int ends[2];
    pthread_t thread;
    EXPECT(peer_pair(ends) == 0, "no pair");
    EXPECT(pthread_create(&thread, NULL, reset_soon, (void *)(intptr_t)ends[1]) == 0, "no thread");
    uint64_t start = guest_ms();
    ssize_t n = send(ends[0], bytes, 50000, MSG_NOSIGNAL);
    EXPECT(n > 0 && n < 50000, "%zd", n);
    EXPECT(guest_ms() - start < 2000, "seen late");
    n = send(ends[0], bytes, 50000, MSG_NOSIGNAL);
    EXPECT(n == -1 && errno == ECONNRESET, "%zd, errno %d", n, errno);
}

static void *reuse_number(void *argument)
{
    int *fds = argument;
    guest_sleep_ms(100);
    dup2(fds[1], fds[0]);
    return NULL;
}

static void number_reused_during_the_wait_gets_nothing(void)
{
    char path[] = "reused-XXXXXX";
    int fds[2] = {guest_upload(), mkstemp(path)};
    pthread_t thread;
    EXPECT(fds[1] >= 0, "no file");
    unlink(path);
    EXPECT(pthread_create(&thread, NULL, reuse_number, fds) == 0, "no thread");
    ssize_t n = write(fds[0], bytes, 30000);
    EXPECT(n > 0 && n < 30000, "%zd", n);
    EXPECT(lseek(fds[1], 0, SEEK_END) == 0, "the file was written to");
}

static void bytes_the_kernel_did_not_take_are_given_back(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    EXPECT(shutdown(ends[0], SHUT_WR) == 0, "shutdown");
    ssize_t n = send(ends[0], bytes, 700, MSG_NOSIGNAL);
    EXPECT(n == -1 && errno == EPIPE, "%zd, errno %d", n, errno);
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

static sigjmp_buf jump;

static void jumper(int number)
{
    (void)number;
    siglongjmp(jump, 1);
}

static void *jump_and_exit(void *unused)
{
    int fd = guest_upload();
    EXPECT(signal(SIGALRM, jumper) != SIG_ERR, "signal");
    if (sigsetjmp(jump, 1) == 0) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGALRM);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        (void)!write(fd, bytes, 1500);
    }
    char overwrites_the_stack[20000];
    memset(overwrites_the_stack, 'x', sizeof overwrites_the_stack);
    EXPECT(write(-1, overwrites_the_stack, sizeof overwrites_the_stack) == -1, "written nowhere");
    pthread_exit(unused);
}

/* As timeouts are made with alarm(): out of the handler and on, and the thread may still end by itself. */
static void jump_out_of_a_wait_leaves_nothing_behind(void)
{
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "sigmask");
    struct itimerval timer = {.it_value.tv_usec = 200000, .it_interval.tv_usec = 200000};
    EXPECT(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
    EXPECT(pthread_create(&thread, NULL, jump_and_exit, NULL) == 0, "no thread");
    EXPECT(pthread_join(thread, NULL) == 0, "join");
    EXPECT(guest_charged() == 1000, "%u", guest_charged());
}

static void refused_is_only_what_has_not_begun(void)
{
    int fd = guest_upload();
    ssize_t n = write(fd, bytes, 50000);
    EXPECT(n == 50000, "%zd, errno %d", n, errno);
    n = write(fd, bytes, 10000);
    EXPECT(n == -1 && errno == EAGAIN, "%zd, errno %d", n, errno);
}

#define RATE(rate, burst) "TUNDISH_RATE=" rate, "TUNDISH_BURST=" burst

static const struct guest_case cases[] = {
    GUEST_CASE(write_of_more_than_the_capacity_is_complete, RATE("5MB/s", "64kB")),
    GUEST_CASE(writev_of_many_parts_arrives_in_order, RATE("500kB/s", "5kB")),
    GUEST_CASE(handler_interrupts_a_write_that_sent_nothing, GUEST_SLOW),
    GUEST_CASE(handler_makes_a_begun_write_short, RATE("100kB/s", "1kB")),
    GUEST_CASE(handler_with_sa_restart_does_not_interrupt, RATE("100kB/s", "1kB")),
    GUEST_CASE(error_queue_does_not_cut_a_write, RATE("100kB/s", "5kB")),
    GUEST_CASE(hopeless_calls_fail_as_the_kernel_says, GUEST_SLOW),
    GUEST_CASE(seccomp_is_survived, GUEST_SLOW),
    GUEST_CASE(send_timeout_ends_a_write, GUEST_SLOW),
    GUEST_CASE(cancelled_thread_gives_back_what_it_gathered, GUEST_SLOW),
    GUEST_CASE(reset_by_the_peer_is_reported, RATE("20kB/s", "1kB")),
    GUEST_CASE(number_reused_during_the_wait_gets_nothing, RATE("20kB/s", "1kB")),
    GUEST_CASE(bytes_the_kernel_did_not_take_are_given_back, GUEST_SLOW),
    GUEST_CASE(jump_out_of_a_wait_leaves_nothing_behind, GUEST_SLOW),
    GUEST_CASE(refused_is_only_what_has_not_begun, RATE("100kB/s", "10kB"), "TUNDISH_WHEN_EMPTY=refuse"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
