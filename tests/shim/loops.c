/* SPDX-License-Identifier: MIT */
#include "loops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "snippets.h"

#define CHUNK 16384
#define WARM 200000 /* uses the burst up, and some */
#define MUCH 3000000

static char bytes[CHUNK];

/* Has nothing else of the parent's, or that would live on when the parent closes it. */
_Noreturn static void be_peer(int fd)
{
    static char dropped[65536];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    syscall(SYS_dup3, fd, 0, 0);
    syscall(SYS_close_range, 3, ~0u, 0);
    syscall(SYS_write, 0, dropped, 1);
    while (syscall(SYS_read, 0, dropped, sizeof dropped) > 0)
        ;
    _exit(0);
}

int loops_upload(void)
{
    int ends[2];
    char ready;
    EXPECT(peer_pair(ends) == 0, "no pair");
    pid_t child = fork();
    EXPECT(child >= 0, "no process");
    if (child == 0)
        be_peer(ends[1]);
    close(ends[1]);
    EXPECT(read(ends[0], &ready, 1) == 1, "errno %d", errno);
    EXPECT(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
    return ends[0];
}

size_t loops_write(int fd, size_t n)
{
    ssize_t done = write(fd, bytes, n < sizeof bytes ? n : sizeof bytes);
    EXPECT(done > 0 || (done < 0 && errno == EAGAIN), "%zd, errno %d", done, errno);
    return done < 0 ? 0 : (size_t)done;
}

void loops_fill(int fd)
{
    while (loops_write(fd, sizeof bytes) > 0)
        ;
}

uint64_t loops_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t loops_cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int loops_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        guest_skip("no /proc");
    for (struct dirent *one = readdir(tasks); one != NULL; one = readdir(tasks))
        count += one->d_name[0] != '.';
    closedir(tasks);
    return count;
}

void loops_expect_rate(void (*loop)(int fd, size_t n))
{
    double found[LOOPS_TRIES];
    for (int i = 0; i < LOOPS_TRIES; i++) {
        int fd = loops_upload();
        loop(fd, WARM);
        uint64_t start_us = loops_now_us();
        loop(fd, MUCH);
        uint64_t took_us = loops_now_us() - start_us;
        found[i] = MUCH * 1e6 / (double)took_us / LOOPS_BYTES_PER_S;
        close(fd);
        if (found[i] >= 0.98 && found[i] <= 1.01)
            return;
        fprintf(stderr, "try %d: %.3f of the rate\n", i + 1, found[i]);
    }
    EXPECT(0, "never between 0.98 and 1.01 of the rate");
}
