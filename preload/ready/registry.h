/* SPDX-License-Identifier: MIT */
/*
 * The table behind watch.h: registrations by their socket's key. Static memory that is touched as it is used.
 * All with the lock of ready/lock.h held, but for tdi_registry_any_armed. errno kept.
 */
#ifndef TUNDISH_PRELOAD_READY_REGISTRY_H
#define TUNDISH_PRELOAD_READY_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tdi_registration {
    uint64_t key;  /* of the socket; 0: free */
    uint64_t data; /* the program's */
    int epfd;
    int fd;
    uint32_t events; /* as the program wants them */
    uint32_t hidden; /* those of them that the kernel has not been told of */
    uint32_t left;   /* those that are left to a parent to show, which hid them, and may be hidden still */
    pid_t hider;     /* the process that hid them: a forked child shares the epoll, not the debt */
    uint16_t next;   /* of its chain, or of the free ones */
    uint16_t next_armed;
    bool armed; /* one-shot, armed without some of its events, and not fired since as far as we know */
};

/* How many are armed. */
extern _Atomic(uint32_t) tdi_registry_armed;

struct tdi_registration *tdi_registry_find(uint64_t key, int epfd, int fd);

/*
 * A new one, without events. If there is no room, some that are over give theirs (their number has another
 * key now); else NULL, and tdi_registry_is_whole is false for this key from then on.
 */
struct tdi_registration *tdi_registry_take(uint64_t key, int epfd, int fd);
void tdi_registry_drop(struct tdi_registration *one);

/* Whether all of this socket's registrations are here. */
bool tdi_registry_is_whole(uint64_t key);

/* Those of a socket: the first, NULL for `after`, or the next; NULL at the end. */
struct tdi_registration *tdi_registry_next(uint64_t key, const struct tdi_registration *after);

/* Those in an epoll, or in all, likewise; slow. */
#define TDI_REGISTRY_ALL (-1)
struct tdi_registration *tdi_registry_next_in(int epfd, const struct tdi_registration *after);

/* Armed ones are found by what an event says of them. Both may be called in any state. */
void tdi_registry_arm(struct tdi_registration *one);
void tdi_registry_disarm(struct tdi_registration *one);

/* The only armed one with these data; NULL if there is none, or several. */
struct tdi_registration *tdi_registry_find_armed(int epfd, uint64_t data);

#endif
