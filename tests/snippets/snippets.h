/* SPDX-License-Identifier: MIT */
/*
 * One short function per wrapped call. Each makes a loopback peer of its own (by raw system calls, which no
 * preloaded library sees), makes the call once, and looks at its result, at errno and at what arrived. Only
 * system calls: a snippet may run in a signal handler, in a vfork child or before any constructor.
 */
#ifndef TUNDISH_TESTS_SNIPPETS_H
#define TUNDISH_TESTS_SNIPPETS_H

struct snippet {
    const char *name; /* of the call */
    unsigned bytes;   /* what the call should cost when bytes are counted */
    int (*run)(void); /* 0, or the line where it went wrong */
};

/* By name, NULL if there is none; and all of them up to a NULL. */
typedef const struct snippet *snippet_find_fn(const char *name);
snippet_find_fn snippet_find;
extern const struct snippet *const snippets[];

extern const struct snippet snippet_connect, snippet_write, snippet_writev, snippet_send, snippet_sendto,
    snippet_sendmsg;

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

/* 0 if exactly these bytes arrive at fd. */
int peer_expect(int fd, const void *bytes, unsigned long n);

#endif
