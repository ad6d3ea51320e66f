/* SPDX-License-Identifier: MIT */
/* What is special about each of the sending calls: how it is cut, and what else it says than a number. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest.h"
#include "raw_call.h"
#include "snippets.h"

#define LENGTH 30000
#define HUGE 0x7ffff000

static char bytes[LENGTH];

static void fill_bytes(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 / 3);
}

/* Ends the case unless exactly these bytes come next. */
static void expect_next(int fd, const char *expected, size_t n)
{
    static char arrived[LENGTH];
    for (size_t got = 0; got < n;) {
        long part = raw_call(SYS_read, fd, RAW(arrived + got), (long)(n - got), 0, 0, 0);
        EXPECT(part > 0, "%ld after %zu", part, got);
        got += (size_t)part;
    }
    EXPECT(memcmp(arrived, expected, n) == 0, "other bytes");
}

static void expect_nothing_more(int fd)
{
    char byte;
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    long n = raw_call(SYS_read, fd, RAW(&byte), 1, 0, 0, 0);
    EXPECT(n == -EAGAIN, "%ld", n);
}

static void sendfile_moves_its_offset_by_what_it_sent(void)
{
    int ends[2], fd = peer_file(bytes, sizeof bytes);
    off_t at = 100;
    EXPECT(peer_pair(ends) == 0 && fd >= 0, "no pair or file");
    ssize_t n = sendfile(ends[0], fd, &at, HUGE);
    EXPECT(n == LENGTH - 100 && at == LENGTH, "%zd, offset %jd", n, (intmax_t)at);
    EXPECT(lseek(fd, 0, SEEK_CUR) == 0, "the position moved");
    expect_next(ends[1], bytes + 100, LENGTH - 100);
    n = sendfile(ends[0], fd, NULL, 20000);
    EXPECT(n == 20000 && lseek(fd, 0, SEEK_CUR) == 20000, "%zd", n);
    expect_next(ends[1], bytes, 20000);
    EXPECT(sendfile(ends[0], fd, &at, HUGE) == 0, "nothing is left");
    expect_nothing_more(ends[1]);
}

static void what_the_input_did_not_have_is_free(void)
{
    int ends[2], pipes[2], fd = peer_file(bytes, 300);
    EXPECT(peer_pair(ends) == 0 && pipe(pipes) == 0, "no pair or pipe");
    EXPECT(sendfile(ends[0], fd, NULL, HUGE) == 300, "errno %d", errno);
    EXPECT(sendfile(ends[0], fd, NULL, HUGE) == 0, "errno %d", errno);
    EXPECT(guest_charged() == 300, "%u", guest_charged());
    ssize_t n = splice(pipes[0], NULL, ends[0], NULL, HUGE, SPLICE_F_NONBLOCK);
    EXPECT(n == -1 && errno == EAGAIN, "%zd, errno %d", n, errno);
    close(pipes[1]);
    EXPECT(splice(pipes[0], NULL, ends[0], NULL, HUGE, 0) == 0, "errno %d", errno);
    EXPECT(sendfile(ends[0], ends[1], NULL, 10) == -1, "from a socket");
    EXPECT(guest_charged() == 300, "%u", guest_charged());
}

/* As the kernel's: all that the pipe holds, and no waiting for more of it. */
static void splice_ends_with_its_input(void)
{
    int ends[2], pipes[2];
    EXPECT(peer_pair(ends) == 0 && pipe(pipes) == 0, "no pair or pipe");
    EXPECT(peer_put(pipes[1], bytes, LENGTH) == 0, "pipe");
    ssize_t n = splice(pipes[0], NULL, ends[0], NULL, HUGE, SPLICE_F_MORE);
    EXPECT(n == LENGTH, "%zd, errno %d", n, errno);
    EXPECT(peer_put(pipes[1], bytes, 100) == 0, "pipe");
    EXPECT(splice(pipes[0], NULL, ends[0], NULL, HUGE, 0) == 100, "errno %d", errno);
    expect_next(ends[1], bytes, LENGTH);
    expect_next(ends[1], bytes, 100);
}

static void *put_later(void *fd)
{
    guest_sleep_ms(100);
    return (void *)(intptr_t)peer_put(*(int *)fd, bytes, 2000);
}

static void splice_waits_for_its_first_bytes(void)
{
    int ends[2], pipes[2];
    pthread_t thread;
    EXPECT(peer_pair(ends) == 0 && pipe(pipes) == 0, "no pair or pipe");
    EXPECT(pthread_create(&thread, NULL, put_later, &pipes[1]) == 0, "no thread");
    ssize_t n = splice(pipes[0], NULL, ends[0], NULL, HUGE, 0);
    EXPECT(n > 0 && n <= 2000, "%zd, errno %d", n, errno);
    expect_next(ends[1], bytes, (size_t)n);
    pthread_join(thread, NULL);
}

static void tee_copies_once(void)
{
    int from[2], to[2];
    EXPECT(pipe(from) == 0 && pipe(to) == 0, "no pipes");
    EXPECT(peer_put(from[1], bytes, 5000) == 0, "pipe");
    EXPECT(tee(from[0], to[1], HUGE, 0) == 5000, "errno %d", errno);
    expect_next(to[0], bytes, 5000);
    expect_nothing_more(to[0]);
    expect_next(from[0], bytes, 5000);
}

static void *collect(void *fd)
{
    expect_next(*(int *)fd, bytes, LENGTH);
    return NULL;
}

static void writes_to_pipes_are_complete_and_small_ones_whole(void)
{
    int pipes[2];
    static char arrived[PIPE_BUF];
    pthread_t thread;
    EXPECT(pipe2(pipes, O_DIRECT) == 0, "no pipe");
    EXPECT(write(pipes[1], bytes, PIPE_BUF) == PIPE_BUF, "errno %d", errno);
    long n = raw_call(SYS_read, pipes[0], RAW(arrived), sizeof arrived, 0, 0, 0);
    EXPECT(n == PIPE_BUF, "a packet of %ld", n);
    EXPECT(pipe(pipes) == 0, "no pipe");
    EXPECT(pthread_create(&thread, NULL, collect, &pipes[0]) == 0, "no thread");
    EXPECT(write(pipes[1], bytes, 10000) == 10000, "errno %d", errno);
    struct iovec parts[2] = {{bytes + 10000, 7000}, {bytes + 17000, 13000}};
    EXPECT(writev(pipes[1], parts, 1) == 7000, "errno %d", errno);
    EXPECT(vmsplice(pipes[1], parts + 1, 1, 0) == 13000, "errno %d", errno);
    pthread_join(thread, NULL);
}

static void expect_in_file(int fd, off_t at)
{
    EXPECT(lseek(fd, at, SEEK_SET) == at, "lseek");
    expect_next(fd, bytes, LENGTH);
}

static void pieces_of_a_file_go_to_their_places(void)
{
    struct iovec parts[2] = {{bytes, 4321}, {bytes + 4321, LENGTH - 4321}};
    int fd = peer_file("", 0), other = peer_file("", 0);
    EXPECT(pwrite(fd, bytes, LENGTH, 5) == LENGTH, "errno %d", errno);
    expect_in_file(fd, 5);
    EXPECT(pwritev(fd, parts, 2, 9) == LENGTH, "errno %d", errno);
    expect_in_file(fd, 9);
    EXPECT(lseek(fd, 17, SEEK_SET) == 17, "lseek");
    EXPECT(pwritev2(fd, parts, 2, -1, 0) == LENGTH, "errno %d", errno);
    EXPECT(lseek(fd, 0, SEEK_CUR) == LENGTH + 17, "the position did not move");
    expect_in_file(fd, 17);
    off_t from = 17, to = 3;
    EXPECT(copy_file_range(fd, &from, other, &to, HUGE, 0) == LENGTH, "errno %d", errno);
    EXPECT(from == LENGTH + 17 && to == LENGTH + 3, "%jd, %jd", (intmax_t)from, (intmax_t)to);
    expect_in_file(other, 3);
}

static void pwritev2_at_the_position_is_a_send(void)
{
    int ends[2];
    struct iovec part = {bytes, LENGTH};
    EXPECT(peer_pair(ends) == 0, "no pair");
    uint64_t start = guest_ms();
    EXPECT(pwritev2(ends[0], &part, 1, -1, 0) == LENGTH, "errno %d", errno);
    EXPECT(guest_ms() - start >= 90, "29 kB at 300 kB/s took %d ms", (int)(guest_ms() - start));
    expect_next(ends[1], bytes, LENGTH);
    EXPECT(pwrite(ends[0], bytes, 10, 0) == -1 && errno == ESPIPE, "errno %d", errno);
}

/* A datagram socket connected to a receiver. */
static int sender_to(int *receiver)
{
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    *receiver = peer_listen(SOCK_DGRAM);
    EXPECT(getsockname(*receiver, (struct sockaddr *)&to, &len) == 0, "no receiver");
    EXPECT(connect(fd, (struct sockaddr *)&to, len) == 0, "connect");
    return fd;
}

static void sendmmsg_stops_at_what_is_refused(void)
{
    int receiver, fd = sender_to(&receiver);
    struct iovec parts[3] = {{bytes, 400}, {bytes + 400, 500}, {bytes + 900, 200}};
    struct mmsghdr messages[3];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 3; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    errno = EDOM;
    int n = sendmmsg(fd, messages, 3, 0);
    EXPECT(n == 2 && errno == EDOM, "%d, errno %d", n, errno);
    EXPECT(messages[0].msg_len == 400 && messages[1].msg_len == 500, "lengths");
    EXPECT(guest_charged() == 900, "%u", guest_charged());
    n = sendmmsg(fd, messages + 2, 1, 0);
    EXPECT(n == -1 && errno == EAGAIN, "%d, errno %d", n, errno);
    expect_next(receiver, bytes, 400);
    expect_next(receiver, bytes + 400, 500);
    expect_nothing_more(receiver);
}

static void sendmmsg_fails_as_the_kernel_says(void)
{
    int receiver, fd = sender_to(&receiver);
    uintptr_t one = getpid() > 0; /* the compiler need not know */
    struct mmsghdr *nowhere = (struct mmsghdr *)(8 * one);
    struct mmsghdr message = {.msg_hdr = {.msg_iov = (struct iovec *)(8 * one), .msg_iovlen = 1}};
    EXPECT(sendmmsg(fd, nowhere, 2, 0) == -1 && errno == EFAULT, "errno %d", errno);
    EXPECT(sendmmsg(fd, &message, 1, 0) == -1 && errno == EFAULT, "errno %d", errno);
    EXPECT(sendmmsg(-1, nowhere, 2, 0) == -1 && errno == EBADF, "errno %d", errno);
    EXPECT(sendmmsg(fd, nowhere, 0, 0) == 0, "errno %d", errno);
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

/* More than the capacity in one message of a stream. */
static void sendmmsg_of_a_stream_is_complete(void)
{
    int ends[2];
    struct iovec part = {bytes, LENGTH};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    EXPECT(peer_pair(ends) == 0, "no pair");
    EXPECT(sendmmsg(ends[0], &message, 1, 0) == 1, "errno %d", errno);
    EXPECT(message.msg_len == LENGTH, "%u", message.msg_len);
    expect_next(ends[1], bytes, LENGTH);
}

#define RATE "TUNDISH_RATE=300kB/s", "TUNDISH_BURST=1kB"

static const struct guest_case cases[] = {
    GUEST_CASE(sendfile_moves_its_offset_by_what_it_sent, RATE),
    GUEST_CASE(what_the_input_did_not_have_is_free, GUEST_SLOW),
    GUEST_CASE(splice_ends_with_its_input, RATE),
    GUEST_CASE(splice_waits_for_its_first_bytes, RATE),
    GUEST_CASE(tee_copies_once, RATE, "TUNDISH_DEST=pipe"),
    GUEST_CASE(writes_to_pipes_are_complete_and_small_ones_whole, RATE, "TUNDISH_DEST=pipe"),
    GUEST_CASE(pieces_of_a_file_go_to_their_places, RATE, "TUNDISH_DEST=file"),
    GUEST_CASE(pwritev2_at_the_position_is_a_send, RATE),
    GUEST_CASE(sendmmsg_stops_at_what_is_refused, GUEST_SLOW, "TUNDISH_WHEN_EMPTY=refuse"),
    GUEST_CASE(sendmmsg_fails_as_the_kernel_says, GUEST_SLOW),
    GUEST_CASE(sendmmsg_of_a_stream_is_complete, RATE),
    {0},
};

int main(int argc, char **argv)
{
    fill_bytes();
    return guest_main(argc, argv, cases);
}
