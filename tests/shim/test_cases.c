/* SPDX-License-Identifier: MIT */
/* Sockets as they come about and are passed on, and rates at both ends of the scale. */
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "raw_call.h"
#include "snippets.h"

static char bytes[65536];

static void wait_for(pid_t child)
{
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "status %x", (unsigned)status);
}

static void write_all(int fd, size_t n)
{
    EXPECT(write(fd, bytes, n) == (ssize_t)n, "errno %d", errno);
}

static void copied_and_inherited_sockets_are_charged_alike(void)
{
    int fd = guest_upload(), copy = dup(fd), high = fcntl(fd, F_DUPFD, 200);
    for (int i = 0; i < 3; i++) {
        write_all(fd, 50);
        write_all(copy, 50);
        write_all(high, 50);
        pid_t child = fork();
        if (child == 0) {
            write_all(copy, 50);
            _exit(0);
        }
        wait_for(child);
    }
    EXPECT(guest_charged() == 600, "%u", guest_charged());
}

static void copied_and_inherited_sockets_share_one_rate(void)
{
    int fd = guest_upload(), copy = dup(fd);
    uint64_t start = guest_ms();
    pid_t child = fork();
    for (int i = 0; i < 10; i++)
        write_all(i % 2 ? fd : copy, 2000);
    if (child == 0)
        _exit(0);
    wait_for(child);
    (void)tundish_unlink("shared");
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 185, "39 kB at 200 kB/s took %d ms", (int)took);
}

/* The copy is what the epoll knows; the number that the debt began on is closed. */
static void debt_of_a_closed_copy_does_not_stall_the_other(void)
{
    int fd = guest_upload(), copy = dup(fd), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.fd = copy};
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, copy, &event) == 0, "errno %d", errno);
    EXPECT(epoll_wait(epfd, &event, 1, 5000) == 1, "not writable");
    while (write(fd, bytes, 5000) > 0)
        ;
    EXPECT(errno == EAGAIN, "errno %d", errno);
    EXPECT(write(copy, bytes, 5000) == -1 && errno == EAGAIN, "the copy is no way round: errno %d", errno);
    close(fd);
    uint64_t start = guest_ms();
    for (size_t done = 0; done < 10000;) {
        EXPECT(epoll_wait(epfd, &event, 1, 5000) == 1, "stalled after %zu", done);
        ssize_t n = write(copy, bytes, 10000 - done);
        EXPECT(n > 0 || errno == EAGAIN, "errno %d", errno);
        done += n > 0 ? (size_t)n : 0;
    }
    EXPECT(guest_ms() - start >= 60, "10 kB at 100 kB/s took %d ms", (int)(guest_ms() - start));
}

static int knock(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(raw_call(SYS_connect, fd, RAW(address), sizeof *address, 0, 0, 0) == 0, "connect");
    return fd;
}

static void answer(int fd)
{
    char parts[2][150] = {"", ""};
    struct iovec iov[2] = {{parts[0], 150}, {parts[1], 150}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    EXPECT(fd >= 0, "not accepted");
    EXPECT(sendmsg(fd, &message, 0) == 300, "errno %d", errno);
}

static void answers_of_a_server_are_charged(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener = peer_listen(SOCK_STREAM);
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &len) == 0, "getsockname");
    for (int i = 0; i < 3; i++)
        guest_drain(knock(&address));
    answer(accept(listener, NULL, NULL));
    EXPECT(guest_charged() == 300, "accept: %u", guest_charged());
    answer(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    EXPECT(guest_charged() == 600, "accept4: %u", guest_charged());
    answer((int)syscall(SYS_accept4, listener, NULL, NULL, 0));
    EXPECT(guest_charged() == 900, "system call: %u", guest_charged());
}

/* A minute of it, as in the report that this comes from: GUEST_IDLE_MS=60000. */
static void after_idleness_no_more_than_the_capacity_is_had(void)
{
    const char *idle = getenv("GUEST_IDLE_MS");
    int fd = guest_upload();
    write_all(fd, 20000);
    guest_sleep_ms(idle != NULL ? strtoul(idle, NULL, 10) : 1500); /* a fifth of a second fills it */
    uint64_t start = guest_ms();
    size_t sent = 0;
    for (ssize_t n; (n = write(fd, bytes, 500)) > 0;)
        sent += (size_t)n;
    EXPECT(errno == EAGAIN, "errno %d", errno);
    size_t most = 20000 + (guest_ms() - start + 2) * 100;
    EXPECT(sent >= 20000 && sent <= most, "%zu of %zu", sent, most);
}

static void one_byte_a_second_gets_through(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    uint64_t start = guest_ms();
    EXPECT(write(ends[0], "sixteen bytes it", 16) == 16, "errno %d", errno);
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 2900 && took < 10000, "3 of 16 at 1 B/s took %d ms", (int)took);
    EXPECT(peer_expect(ends[1], "sixteen bytes it", 16) == 0, "other bytes");
}

static void rate_above_all_that_can_be_had_does_not_hold(void)
{
    int fd = guest_upload();
    uint64_t start = guest_ms();
    for (int i = 0; i < 1000; i++)
        write_all(fd, sizeof bytes);
    EXPECT(guest_ms() - start < 10000, "64 MB took %d ms", (int)(guest_ms() - start));
}

static void sixty_four_kilobytes_a_second_are_units_that_fit(void)
{
    int fd = guest_upload();
    write_all(fd, 65536);
    uint64_t start = guest_ms();
    write_all(fd, 16384);
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 245 && took < 5000, "16 KiB at 64 KiB/s took %d ms", (int)took);
}

/* What libc writes from inside is out of reach: not held, but never damaged either. */
static void stdio_on_a_socket_arrives_whole(void)
{
    int ends[2];
    static char line[5000];
    memset(line, 'x', sizeof line - 1);
    EXPECT(peer_pair(ends) == 0, "no pair");
    FILE *stream = fdopen(ends[0], "w");
    EXPECT(stream != NULL, "fdopen");
    for (int i = 0; i < 4; i++)
        EXPECT(fprintf(stream, "%s\n", line) == 5000, "errno %d", errno);
    EXPECT(fclose(stream) == 0, "errno %d", errno);
    line[4999] = '\n';
    for (int i = 0; i < 20; i++)
        EXPECT(peer_expect(ends[1], line + i % 5 * 1000, 1000) == 0, "part %d", i);
}

static void number_of_a_closed_stream_is_a_files_now(void)
{
    char path[] = "reused-XXXXXX";
    int spare = mkstemp(path), fd = guest_upload();
    unlink(path);
    EXPECT(write(fd, bytes, 1000) == 1000, "the burst"); /* and the number is known for a socket */
    FILE *stream = fdopen(fd, "w");
    EXPECT(stream != NULL && fclose(stream) == 0, "errno %d", errno);
    EXPECT(dup2(spare, fd) == fd, "dup2");
    write_all(fd, 20000);
    close(fd);
    stream = fdopen(guest_upload(), "w");
    int number = fileno(stream);
    EXPECT(send(number, bytes, 1, 0) == -1 && errno == EAGAIN, "errno %d", errno);
    EXPECT(fclose(stream) == 0, "errno %d", errno);
    int file = -1;
    while (file < number) /* the lowest that is free */
        file = (int)syscall(SYS_memfd_create, "reused", 0);
    EXPECT(file == number, "%d is not %d", file, number);
    write_all(file, 20000);
}

/* Which numbers of zero-copy sends the error queue says are complete. */
static uint32_t completed(int fd, uint32_t *highest)
{
    char control[128];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    struct sock_extended_err e;
    if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
        return 0;
    EXPECT(CMSG_FIRSTHDR(&message) != NULL, "a completion without a number");
    memcpy(&e, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof e);
    *highest = e.ee_data > *highest ? e.ee_data : *highest;
    return e.ee_data - e.ee_info + 1;
}

static void zero_copy_sends_of_an_event_loop_are_numbered_by_the_call(void)
{
    int one = 1, fd = guest_upload(), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT};
    uint32_t seen = 0, highest = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) != 0)
        guest_skip("no SO_ZEROCOPY");
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    EXPECT(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
    for (int sent = 0; sent < 4;) {
        EXPECT(epoll_wait(epfd, &event, 1, 5000) == 1, "stalled");
        ssize_t n = send(fd, bytes, 5000, MSG_ZEROCOPY);
        EXPECT(n == 5000 || (n == -1 && errno == EAGAIN), "%zd, errno %d", n, errno);
        sent += n == 5000;
        seen += completed(fd, &highest);
    }
    for (uint64_t start = guest_ms(); seen < 4 && guest_ms() - start < 5000;)
        seen += completed(fd, &highest);
    EXPECT(seen == 4 && highest == 3, "%u up to %u", seen, highest);
}

static const struct guest_case cases[] = {
    GUEST_CASE(copied_and_inherited_sockets_are_charged_alike, GUEST_SLOW),
    GUEST_CASE(copied_and_inherited_sockets_share_one_rate, "TUNDISH_BUCKET=shared", "TUNDISH_RATE=200kB/s",
               "TUNDISH_BURST=1kB"),
    GUEST_CASE(debt_of_a_closed_copy_does_not_stall_the_other, "TUNDISH_RATE=100kB/s", "TUNDISH_BURST=2kB"),
    GUEST_CASE(answers_of_a_server_are_charged, GUEST_SLOW),
    GUEST_CASE(after_idleness_no_more_than_the_capacity_is_had, "TUNDISH_RATE=100kB/s", "TUNDISH_BURST=20kB",
               "TUNDISH_WHEN_EMPTY=refuse"),
    GUEST_CASE(one_byte_a_second_gets_through, "TUNDISH_RATE=1B/s", "TUNDISH_BURST=13B"),
    GUEST_CASE(rate_above_all_that_can_be_had_does_not_hold, "TUNDISH_RATE=10GB/s"),
    GUEST_CASE(sixty_four_kilobytes_a_second_are_units_that_fit, "TUNDISH_RATE=64KiB/s",
               "TUNDISH_BURST=64KiB"),
    GUEST_CASE(zero_copy_sends_of_an_event_loop_are_numbered_by_the_call, "TUNDISH_RATE=100kB/s",
               "TUNDISH_BURST=2kB"),
    GUEST_CASE(stdio_on_a_socket_arrives_whole, GUEST_SLOW),
    GUEST_CASE(number_of_a_closed_stream_is_a_files_now, GUEST_SLOW, "TUNDISH_WHEN_EMPTY=refuse"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
