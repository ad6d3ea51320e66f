/* SPDX-License-Identifier: MIT */
/*
 * A library that makes wrapped calls where none are expected: whenever memory is allocated, dlsym's included,
 * and from its constructor.
 */
#include <netinet/in.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *malloc(size_t n);
void *calloc(size_t count, size_t n);

static _Thread_local int inside;

static void babble(void)
{
    struct iovec nothing = {NULL, 0};
    struct msghdr message = {.msg_iov = &nothing, .msg_iovlen = 1};
    struct epoll_event event;
    if (inside++ == 0) {
        (void)!write(-1, "x", 1);
        (void)!writev(-1, &nothing, 1);
        (void)send(-1, "x", 1, 0);
        (void)sendmsg(-1, &message, 0);
        (void)epoll_wait(-1, &event, 1, 0);
        close(dup(-1));
    }
    inside--;
}

void *malloc(size_t n)
{
    babble();
    return __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    babble();
    return __libc_calloc(count, n);
}

__attribute__((constructor)) static void early(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    (void)sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to);
    close(fd);
}
