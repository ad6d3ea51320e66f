/* SPDX-License-Identifier: MIT */
/* What a connect costs, and what is free. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"
#include "snippets.h"

static struct sockaddr_in listening(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int fd = peer_listen(SOCK_STREAM);
    EXPECT(fd >= 0 && getsockname(fd, (struct sockaddr *)&address, &len) == 0, "no listener");
    return address;
}

static int knock(int fd, const struct sockaddr_in *address)
{
    return connect(fd, (const struct sockaddr *)address, sizeof *address);
}

static int tcp(int flags)
{
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    EXPECT(fd >= 0, "no socket");
    return fd;
}

static void connects_keep_to_their_rate(void)
{
    struct sockaddr_in address = listening();
    uint64_t start = guest_ms();
    for (int i = 0; i < 5; i++)
        EXPECT(knock(tcp(i % 2 ? SOCK_NONBLOCK : 0), &address) == 0 || errno == EINPROGRESS, "errno %d",
               errno);
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 145 && took < 5000, "four more at 20/s took %d ms",
           (int)took); /* the first within 50 ms */
}

static void going_on_with_a_connection_is_free(void)
{
    struct sockaddr_in address = listening();
    int fd = tcp(SOCK_NONBLOCK);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int result = knock(fd, &address);
    EXPECT(result == 0 || errno == EINPROGRESS, "errno %d", errno);
    EXPECT(poll(&p, 1, 5000) == 1, "not connected");
    result = knock(fd, &address);
    EXPECT(result == 0 || errno == EISCONN || errno == EALREADY, "errno %d", errno);
    EXPECT(knock(fd, &address) == -1 && errno == EISCONN, "errno %d", errno);
    EXPECT(guest_charged() == 1, "%u", guest_charged());
}

static void error_of_an_earlier_connect_is_free(void)
{
    struct sockaddr_in address = listening();
    int fd = tcp(SOCK_NONBLOCK);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    address.sin_port = htons(1);
    int result = knock(fd, &address);
    EXPECT(result == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED), "errno %d", errno);
    if (errno == EINPROGRESS) {
        EXPECT(poll(&p, 1, 5000) == 1, "no answer");
        EXPECT(knock(fd, &address) == -1 && errno == ECONNREFUSED, "errno %d", errno);
    }
    EXPECT(guest_charged() == 1, "%u", guest_charged());
}

static void what_sends_nothing_is_free(void)
{
    struct sockaddr_in address = listening();
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT(knock(fd, &address) == 0, "UDP: errno %d", errno);
    EXPECT(connect(fd, &none, sizeof none) == 0, "AF_UNSPEC: errno %d", errno);
    EXPECT(connect(tcp(0), &none, sizeof none) == 0, "AF_UNSPEC: errno %d", errno);
    address.sin_family = AF_INET6;
    EXPECT(knock(tcp(0), &address) == -1 && errno == EAFNOSUPPORT, "errno %d", errno);
    EXPECT(connect(tcp(0), NULL, 0) == -1, "no address");
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

static void refused_connect_costs_one(void)
{
    struct sockaddr_in address = listening();
    address.sin_port = htons(1);
    EXPECT(knock(tcp(0), &address) == -1 && errno == ECONNREFUSED, "errno %d", errno);
    EXPECT(guest_charged() == 1, "%u", guest_charged());
}

static void empty_bucket_refuses_with_econnrefused(void)
{
    struct sockaddr_in address = listening();
    EXPECT(knock(tcp(0), &address) == 0, "errno %d", errno);
    EXPECT(knock(tcp(0), &address) == -1 && errno == ECONNREFUSED, "errno %d", errno);
    EXPECT(knock(tcp(SOCK_NONBLOCK), &address) == -1 && errno == ECONNREFUSED, "errno %d", errno);
}

static void fast_open_is_a_connect(void)
{
    struct sockaddr_in address = listening();
    ssize_t n = sendto(tcp(0), "x", 1, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof address);
    if (n == -1 && errno == EOPNOTSUPP)
        guest_skip("no TCP fast open");
    EXPECT(n == 1, "%zd, errno %d", n, errno);
    EXPECT(guest_charged() == 1, "%u", guest_charged());
}

static void broken_rule_fails_its_calls(void)
{
    struct sockaddr_in address = listening();
    EXPECT(knock(tcp(0), &address) == -1 && errno == EACCES, "errno %d", errno);
    EXPECT(write(guest_upload(), "x", 1) == -1 && errno == EACCES, "errno %d", errno);
    EXPECT(write(STDERR_FILENO, "", 0) == 0, "errno %d", errno);
}

#define CALLS GUEST_SLOW, "TUNDISH_COUNT=calls"

static const struct guest_case cases[] = {
    GUEST_CASE(connects_keep_to_their_rate, "TUNDISH_RATE=20/s", "TUNDISH_BURST=1"),
    GUEST_CASE(going_on_with_a_connection_is_free, CALLS),
    GUEST_CASE(error_of_an_earlier_connect_is_free, CALLS),
    GUEST_CASE(what_sends_nothing_is_free, CALLS),
    GUEST_CASE(refused_connect_costs_one, CALLS),
    GUEST_CASE(empty_bucket_refuses_with_econnrefused, "TUNDISH_RATE=1/d", "TUNDISH_WHEN_EMPTY=refuse"),
    GUEST_CASE(fast_open_is_a_connect, CALLS, "TUNDISH_CALLS=connect"),
    GUEST_CASE(broken_rule_fails_its_calls, "TUNDISH_BUCKET=missing", "TUNDISH_ON_ERROR=fail"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
