/* SPDX-License-Identifier: MIT */
/* A non-blocking socket gets something sent by every call, soon, and never an EAGAIN of our making. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest.h"
#include "raw_call.h"
#include "snippets.h"

#define TOTAL 30000
#define SLACK_MS 500 /* above the 20 ms that a call may take, for a busy machine */

static char bytes[TOTAL];

static void upload_in_short_calls(int fd, int flags)
{
    uint64_t start = guest_ms();
    int calls = 0;
    for (ssize_t done = 0; done < TOTAL; calls++) {
        uint64_t before = guest_ms();
        ssize_t n = send(fd, bytes, (size_t)(TOTAL - done), flags);
        EXPECT(n > 0, "%zd, errno %d", n, errno);
        EXPECT(guest_ms() - before < SLACK_MS, "a call took %d ms", (int)(guest_ms() - before));
        done += n;
    }
    uint64_t took = guest_ms() - start;
    EXPECT(took >= 270, "29 kB at 100 kB/s took %d ms", (int)took);
    EXPECT(calls < 60, "%d calls, the pieces are tiny", calls);
}

static void every_call_sends_something_soon(void)
{
    int fd = guest_upload();
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    upload_in_short_calls(fd, 0);
}

static void msg_dontwait_is_non_blocking(void)
{
    upload_in_short_calls(guest_upload(), MSG_DONTWAIT);
}

/* Fills the socket's buffer behind the library's back, then offers 500 bytes. */
static void what_a_full_socket_refuses_is_free(void)
{
    int ends[2];
    EXPECT(peer_pair(ends) == 0, "no pair");
    EXPECT(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
    while (raw_call(SYS_sendto, ends[0], RAW(bytes), sizeof bytes, 0, 0, 0) > 0)
        ;
    ssize_t n = write(ends[0], bytes, 500);
    EXPECT(n == -1 && errno == EAGAIN, "%zd, errno %d", n, errno);
    EXPECT(guest_charged() == 0, "%u", guest_charged());
}

/* One vector of 10 MB, of which the kernel takes what fits its buffers. */
static void what_the_kernel_took_is_what_is_charged(void)
{
    static char much[5000000];
    struct iovec parts[2] = {{much, sizeof much}, {much, sizeof much}};
    struct tundish *bucket;
    int ends[2];
    EXPECT(tundish_open(&bucket, "big") == 0, "no bucket");
    (void)tundish_unlink("big");
    EXPECT(peer_pair(ends) == 0, "no pair");
    EXPECT(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
    ssize_t n = writev(ends[0], parts, 2);
    EXPECT(n > 0 && n < 10000000, "%zd, errno %d", n, errno);
    EXPECT(tundish_available(bucket) == 20000000 - (uint32_t)n, "%u after %zd", tundish_available(bucket), n);
}

static void refuse_is_eagain_at_once(void)
{
    int fd = guest_upload();
    EXPECT(send(fd, bytes, 900, 0) == 900, "the burst");
    ssize_t n = send(fd, bytes, 200, 0);
    EXPECT(n == -1 && errno == EAGAIN, "%zd, errno %d", n, errno);
    EXPECT(send(fd, bytes, 100, 0) == 100, "what is left");
    EXPECT(guest_charged() == 1000, "%u", guest_charged());
}

static void refuse_names_its_errno(void)
{
    int fd = guest_upload();
    EXPECT(send(fd, bytes, 1000, 0) == 1000, "the burst");
    ssize_t n = send(fd, bytes, 1, 0);
    EXPECT(n == -1 && errno == ENOBUFS, "%zd, errno %d", n, errno);
}

static void longest_wait_then_refuse(void)
{
    int fd = guest_upload();
    EXPECT(send(fd, bytes, 1000, 0) == 1000, "the burst");
    uint64_t start = guest_ms();
    ssize_t n = send(fd, bytes, 1, 0);
    uint64_t took = guest_ms() - start;
    EXPECT(n == -1 && errno == EAGAIN, "%zd, errno %d", n, errno);
    EXPECT(took >= 95 && took < 5000, "%d ms", (int)took);
}

static void observe_holds_nothing(void)
{
    int fd = guest_upload();
    uint64_t start = guest_ms();
    for (int i = 0; i < 10; i++)
        EXPECT(send(fd, bytes, TOTAL, 0) == TOTAL, "short");
    EXPECT(guest_ms() - start < 5000, "held");
    EXPECT(guest_charged() == 1000, "%u", guest_charged());
}

#define RATE "TUNDISH_RATE=100kB/s", "TUNDISH_BURST=1kB"

static const struct guest_case cases[] = {
    GUEST_CASE(every_call_sends_something_soon, RATE),
    GUEST_CASE(msg_dontwait_is_non_blocking, RATE),
    GUEST_CASE(what_a_full_socket_refuses_is_free, GUEST_SLOW),
    GUEST_CASE(what_the_kernel_took_is_what_is_charged, "TUNDISH_BUCKET=big", "TUNDISH_RATE=1/d",
               "TUNDISH_BURST=20000000", "TUNDISH_COUNT=bytes"),
    GUEST_CASE(refuse_is_eagain_at_once, GUEST_SLOW, "TUNDISH_WHEN_EMPTY=refuse"),
    GUEST_CASE(refuse_names_its_errno, GUEST_SLOW, "TUNDISH_WHEN_EMPTY=refuse:ENOBUFS"),
    GUEST_CASE(longest_wait_then_refuse, GUEST_SLOW, "TUNDISH_MAX_WAIT=100ms"),
    GUEST_CASE(observe_holds_nothing, GUEST_SLOW, "TUNDISH_WHEN_EMPTY=observe"),
    {0},
};

int main(int argc, char **argv)
{
    return guest_main(argc, argv, cases);
}
