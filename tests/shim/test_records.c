/* SPDX-License-Identifier: MIT */
/* What must not be cut, and what is out of reach. */
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "snippets.h"

static char bytes[20000];

static void datagram_larger_than_the_capacity_goes_whole(void)
{
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    static char arrived[sizeof bytes];
    int receiver = peer_listen(SOCK_DGRAM);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    EXPECT(getsockname(receiver, (struct sockaddr *)&to, &len) == 0, "no receiver");
    uint64_t start = guest_ms();
    ssize_t n = sendto(fd, bytes, 6000, 0, (struct sockaddr *)&to, len);
    EXPECT(n == 6000, "%zd, errno %d", n, errno);
    EXPECT(guest_ms() - start >= 95, "5 kB at 50 kB/s took %d ms", (int)(guest_ms() - start));
    EXPECT(recv(receiver, arrived, sizeof arrived, 0) == 6000, "cut");
}

static void zero_copy_completions_count_calls(void)
{
    int one = 1;
    int fd = guest_upload();
    if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) != 0)
        guest_skip("no SO_ZEROCOPY");
    for (int i = 0; i < 3; i++)
        EXPECT(send(fd, bytes, 5000, MSG_ZEROCOPY) == 5000, "errno %d", errno);
    uint32_t highest = 0;
    for (int seen = 0; seen < 3;) {
        char control[128];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        struct pollfd p = {.fd = fd};
        EXPECT(poll(&p, 1, 5000) == 1, "no completion");
        if (recvmsg(fd, &message, MSG_ERRQUEUE) < 0)
            continue;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        EXPECT(c != NULL, "a completion without a number");
        struct sock_extended_err e;
        memcpy(&e, CMSG_DATA(c), sizeof e);
        seen += (int)(e.ee_data - e.ee_info + 1);
        highest = e.ee_data > highest ? e.ee_data : highest;
    }
    EXPECT(highest == 2, "%u", highest);
}

static void passed_descriptor_arrives(int type)
{
    int ends[2];
    EXPECT(socketpair(AF_UNIX, type, 0, ends) == 0, "no pair");
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {bytes, 2000};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &ends[0], sizeof(int));
    EXPECT(sendmsg(ends[0], &message, 0) == 2000, "errno %d", errno);
    memset(&control, 0, sizeof control);
    EXPECT(recvmsg(ends[1], &message, 0) == 2000, "cut");
    EXPECT(message.msg_controllen == CMSG_LEN(sizeof(int)) || message.msg_controllen == sizeof control,
           "no descriptor");
}

static void local_sockets_are_out_of_reach(void)
{
    passed_descriptor_arrives(SOCK_STREAM);
    passed_descriptor_arrives(SOCK_SEQPACKET);
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

/* Twice what the bucket holds, once the rule names them. */
static void messages_with_descriptors_are_never_cut(void)
{
    uint64_t start = guest_ms();
    passed_descriptor_arrives(SOCK_STREAM);
    passed_descriptor_arrives(SOCK_SEQPACKET);
    EXPECT(guest_ms() - start >= 55, "3 kB at 50 kB/s took %d ms", (int)(guest_ms() - start));
}

static void eventfds_are_out_of_every_reach(void)
{
    uint64_t one = 1;
    EXPECT(write(eventfd(0, 0), &one, sizeof one) == sizeof one, "eventfd");
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

static void files_pipes_and_eventfds_are_out_of_reach(void)
{
    uint64_t one = 1;
    int pipes[2];
    EXPECT(write(eventfd(0, 0), &one, sizeof one) == sizeof one, "eventfd");
    EXPECT(pipe(pipes) == 0 && write(pipes[1], bytes, 3000) == 3000, "pipe");
    EXPECT(write(open("/dev/null", O_WRONLY), bytes, 3000) == 3000, "file");
    errno = 0;
    EXPECT(write(-1, bytes, 1) == -1 && errno == EBADF, "errno %d", errno);
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

/* The same numbers as socket, pipe and socket again. */
static void reused_numbers_are_what_they_are(void)
{
    int pipes[2];
    int ends[2];
    EXPECT(peer_pair(ends) == 0 && pipe(pipes) == 0, "no pair or pipe");
    int fd = fcntl(ends[0], F_DUPFD, 100), peer = fcntl(ends[1], F_DUPFD, 100);
    EXPECT(fd >= 100 && peer >= 100, "dup");
    int reader = fcntl(pipes[0], F_DUPFD, 100), writer = fcntl(pipes[1], F_DUPFD, 100);
    EXPECT(reader >= 100 && writer >= 100, "dup");
    for (int number = 3; number <= 20; number++) {
        uint32_t before = guest_charged();
        EXPECT(dup2(writer, number) == number && write(number, bytes, 10) == 10, "%d", number);
        EXPECT(guest_charged() == before, "%d charged as a pipe", number);
        EXPECT(dup2(fd, number) == number && write(number, bytes, 10) == 10, "%d", number);
        EXPECT(guest_charged() == before + 10, "%d not charged as a socket", number);
        EXPECT(dup2(writer, number) == number && write(number, bytes, 10) == 10, "%d", number);
        EXPECT(guest_charged() == before + 10, "%d charged as a pipe again", number);
        close(number);
    }
}

static void works_when_every_descriptor_was_closed(void)
{
    EXPECT(close_range(3, ~0U, 0) == 0, "close_range");
    EXPECT(write(guest_upload(), bytes, 100) == 100, "write");
    EXPECT(guest_charged() == 100, "%u", guest_charged());
}

static void works_without_the_environment(void)
{
    int fd = guest_upload();
    char directory[1000];
    EXPECT(tundish_path("slow", directory, sizeof directory) == 0, "path");
    clearenv();
    EXPECT(write(fd, bytes, 100) == 100, "write");
    struct tundish *bucket;
    EXPECT(tundish_open(&bucket, directory) == 0, "open");
    EXPECT(tundish_available(bucket) == GUEST_SLOW_CAPACITY - 100, "%u", tundish_available(bucket));
}

static void every_forked_child_has_a_quota_of_its_own(void)
{
    int fd = guest_upload();
    EXPECT(send(fd, bytes, 1000, 0) == 1000, "the burst");
    for (int depth = 0; depth < 3; depth++) {
        pid_t child = fork();
        if (child == 0) {
            EXPECT(send(fd, bytes, 1000, 0) == 1000, "the child's own burst");
            EXPECT(send(fd, bytes, 1, 0) == -1 && errno == EAGAIN, "more than a burst");
            continue;
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "child: %#x", (unsigned)status);
        EXPECT(send(fd, bytes, 1, 0) == -1 && errno == EAGAIN, "the child filled it");
        _exit(0);
    }
}

static void all_of_several_buckets_must_grant(void)
{
    int fd = guest_upload();
    EXPECT(send(fd, bytes, 600, 0) == 600, "errno %d", errno);
    EXPECT(guest_charged() == 600 && guest_charged_of("other") == 600, "not both");
    EXPECT(send(fd, bytes, 600, 0) == -1 && errno == EAGAIN, "errno %d", errno);
    EXPECT(guest_charged() == 600 && guest_charged_of("other") == 600, "charged for nothing");
}

static void bucket_named_twice_is_charged_once(void)
{
    int fd = guest_upload();
    EXPECT(send(fd, bytes, 1000, 0) == 1000, "errno %d", errno);
    EXPECT(guest_charged() == 1000, "%u", guest_charged());
}

static const struct guest_case cases[] = {
    GUEST_CASE(datagram_larger_than_the_capacity_goes_whole, "TUNDISH_RATE=50kB/s", "TUNDISH_BURST=1kB"),
    GUEST_CASE(zero_copy_completions_count_calls, "TUNDISH_RATE=100kB/s", "TUNDISH_BURST=1kB"),
    GUEST_CASE(local_sockets_are_out_of_reach, GUEST_SLOW),
    GUEST_CASE(messages_with_descriptors_are_never_cut, "TUNDISH_RATE=50kB/s", "TUNDISH_BURST=1kB",
               "TUNDISH_DEST=unix"),
    GUEST_CASE(eventfds_are_out_of_every_reach, GUEST_SLOW, "TUNDISH_DEST=unix,pipe,file,tty"),
    GUEST_CASE(files_pipes_and_eventfds_are_out_of_reach, GUEST_SLOW),
    GUEST_CASE(reused_numbers_are_what_they_are, GUEST_SLOW),
    GUEST_CASE(works_when_every_descriptor_was_closed, GUEST_SLOW),
    GUEST_CASE(works_without_the_environment, GUEST_SLOW),
    GUEST_CASE(every_forked_child_has_a_quota_of_its_own, "TUNDISH_RATE=1000/d", "TUNDISH_BURST=1000",
               "TUNDISH_COUNT=bytes", "TUNDISH_WHEN_EMPTY=refuse"),
    GUEST_CASE(all_of_several_buckets_must_grant, "TUNDISH_BUCKET=slow,other", "TUNDISH_WHEN_EMPTY=refuse"),
    GUEST_CASE(bucket_named_twice_is_charged_once, "TUNDISH_BUCKET=slow,slow", "TUNDISH_WHEN_EMPTY=refuse"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
