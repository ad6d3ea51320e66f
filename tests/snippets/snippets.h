/* SPDX-License-Identifier: MIT */
/*
 * One short function per wrapped call. Each makes a loopback peer of its own (by raw system calls, which no
 * preloaded library sees), makes the call once, and looks at its result, at errno and at what arrived. Only
 * system calls: a snippet may run in a signal handler, in a vfork child or before any constructor.
 */
#ifndef TUNDISH_TESTS_SNIPPETS_H
#define TUNDISH_TESTS_SNIPPETS_H

#define SNIPPET_FREE (~0U) /* charged nothing, however it is counted */

struct snippet {
    const char *name; /* of the call */
    unsigned bytes;   /* what the call should cost when bytes are counted, or SNIPPET_FREE */
    int (*run)(void); /* 0, or the line where it went wrong */
};

/* By name, NULL if there is none; and all of them up to a NULL. */
typedef const struct snippet *snippet_find_fn(const char *name);
snippet_find_fn snippet_find;
extern const struct snippet *const snippets[];

extern const struct snippet snippet_connect, snippet_write, snippet_writev, snippet_send, snippet_sendto,
    snippet_sendmsg;
extern const struct snippet snippet_pwrite, snippet_pwrite64, snippet_pwritev, snippet_pwritev64,
    snippet_pwritev2, snippet_pwritev64v2, snippet_sendmmsg, snippet_sendfile, snippet_sendfile64,
    snippet_splice, snippet_vmsplice, snippet_tee, snippet_copy_file_range, snippet_syscall, snippet_read,
    snippet_read_chk, snippet_readv, snippet_pread, snippet_pread64, snippet_pread_chk, snippet_pread64_chk,
    snippet_preadv, snippet_preadv64, snippet_preadv2, snippet_preadv64v2, snippet_recv, snippet_recv_chk,
    snippet_recvfrom, snippet_recvfrom_chk, snippet_recvmsg, snippet_recvmmsg;
extern const struct snippet snippet_execve, snippet_execv, snippet_execvp, snippet_execvpe, snippet_execl,
    snippet_execlp, snippet_execle, snippet_fexecve, snippet_execveat, snippet_posix_spawn,
    snippet_posix_spawnp;
extern const struct snippet snippet_epoll_wait, snippet_epoll_pwait, snippet_epoll_pwait2, snippet_poll,
    snippet_ppoll, snippet_select, snippet_pselect;
extern const struct snippet snippet_close, snippet_close_range, snippet_dup, snippet_dup2, snippet_dup3,
    snippet_fcntl, snippet_accept, snippet_accept4, snippet_socketpair;

/* Leaves the function with the number of this line unless the condition holds. */
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return __LINE__;                                                                                 \
    } while (0)

/* A listening TCP socket on a free port of 127.0.0.1, or a UDP one. Negative on failure. */
int peer_listen(int type);

/* A connected pair over TCP: ends[0] is to be used, ends[1] is the peer. 0, or negative. */
int peer_pair(int ends[2]);

/* Writes these bytes to fd. 0, or negative. */
int peer_put(int fd, const void *bytes, unsigned long n);

/* 0 if exactly these bytes arrive at fd. */
int peer_expect(int fd, const void *bytes, unsigned long n);

/* A file without a name that holds these bytes; its position is 0. Negative on failure. */
int peer_file(const void *bytes, unsigned long n);

/* 0 if a file holds these bytes at this offset. */
int peer_holds(int fd, unsigned long at, const void *bytes, unsigned long n);

#endif
