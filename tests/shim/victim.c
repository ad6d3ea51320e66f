/* SPDX-License-Identifier: MIT */
/*
 * An ordinary program of threads, to be built and started in unusual ways: blocking writers, an epoll loop,
 * and everybody allocates all the time. Exit status 0 if every byte arrived in its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS 4
#define TOTAL 50000
#define CHUNK 5000

struct stream {
    int ours, peers;
    pthread_t writer, reader;
    int arrived; /* in their places */
};

static atomic_int finished;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static char byte_at(int i)
{
    return (char)(i * 7 / 3);
}

static void allocate(void)
{
    void *some[50];
    for (size_t i = 0; i < 50; i++) {
        some[i] = malloc(i * i * 10 + 1);
        memset(some[i], 1, i + 1);
    }
    for (size_t i = 0; i < 50; i++)
        free(some[i]);
}

/* One write of a buffer made for it. */
static ssize_t send_some(int fd, int from)
{
    size_t n = TOTAL - from < CHUNK ? (size_t)(TOTAL - from) : CHUNK;
    char *copy = malloc(n);
    for (size_t i = 0; i < n; i++)
        copy[i] = byte_at(from + (int)i);
    ssize_t sent = write(fd, copy, n);
    free(copy);
    return sent;
}

static void *write_all(void *argument)
{
    struct stream *s = argument;
    for (int done = 0; done < TOTAL;) {
        ssize_t n = send_some(s->ours, done);
        if (n <= 0)
            die("write");
        done += (int)n;
        allocate();
    }
    close(s->ours);
    return NULL;
}

static void *loop(void *argument)
{
    struct stream *s = argument;
    int epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    if (fcntl(s->ours, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, s->ours, &event) != 0)
        die("epoll");
    for (int done = 0; done < TOTAL;) {
        ssize_t n = send_some(s->ours, done);
        if (n < 0 && errno == EAGAIN && epoll_wait(epfd, &event, 1, 10000) != 1)
            die("stalled");
        done += n > 0 ? (int)n : 0;
        allocate();
    }
    close(s->ours);
    close(epfd);
    return NULL;
}

static void *read_all(void *argument)
{
    struct stream *s = argument;
    char piece[1000];
    int total = 0;
    for (ssize_t n; (n = read(s->peers, piece, sizeof piece)) > 0; total += (int)n)
        for (int i = 0; i < n; i++)
            s->arrived += piece[i] == byte_at(total + i);
    close(s->peers);
    atomic_fetch_add(&finished, 1);
    return NULL;
}

static void connect_pair(struct stream *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    s->ours = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0 ||
        connect(s->ours, (struct sockaddr *)&address, len) != 0)
        die("connect");
    s->peers = accept(listener, NULL, NULL);
    close(listener);
}

int main(void)
{
    static struct stream streams[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        connect_pair(&streams[i]);
        if (pthread_create(&streams[i].reader, NULL, read_all, &streams[i]) != 0 ||
            pthread_create(&streams[i].writer, NULL, i % 2 ? loop : write_all, &streams[i]) != 0)
            die("thread");
    }
    while (atomic_load(&finished) < STREAMS) {
        allocate();
        usleep(100);
    }
    int arrived = 0;
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(streams[i].writer, NULL);
        pthread_join(streams[i].reader, NULL);
        arrived += streams[i].arrived;
    }
    return arrived == STREAMS * TOTAL ? 0 : 1;
}
