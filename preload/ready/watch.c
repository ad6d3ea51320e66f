/* SPDX-License-Identifier: MIT */
/*
 * The kernel knows a registration by the epoll, the descriptor's number and the open file behind it. A number
 * may have been closed and reused behind our back, and modifying it would then change somebody else's: so
 * before each modification the number is asked for its key. An epoll has no key; where its number was reused,
 * the kernel knows no such registration and says so, and ours is forgotten.
 *
 * What a program asks for during a debt goes without the events in question, edge-triggered or not: adding or
 * modifying fires at once, and a program that does so after each EAGAIN would never sleep.
 *
 * Who is to find out that a one-shot registration has fired is the thread it fired for, a moment after. If
 * the helper thread shows an owed event in just that moment, the registration is armed again and another
 * thread may see the socket once too often. No way to ask the kernel closes that.
 */
#include "ready/watch.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "fd.h"
#include "inside.h"
#include "known.h"
#include "raw.h"
#include "ready/debt.h"
#include "ready/lock.h"
#include "ready/registry.h"
#include "real.h"
#include "rule.h"

#define EPOLLS 65536

#define OUT_EVENTS ((uint32_t)(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND))
#define IN_EVENTS ((uint32_t)(EPOLLIN | EPOLLRDNORM | EPOLLRDBAND))
#define ET ((uint32_t)EPOLLET)
#define ONESHOT ((uint32_t)EPOLLONESHOT)
#define EXCLUSIVE ((uint32_t)EPOLLEXCLUSIVE)

static uint8_t epolls[EPOLLS / 8]; /* numbers that were epolls when something was added to them */

static void mark_epoll(int epfd)
{
    tdi_known_mark_watched(epfd);
    if (epfd < EPOLLS)
        epolls[epfd / 8] |= (uint8_t)(1u << epfd % 8);
}

/* Takes the mark off, and says whether it may have been there. */
static bool was_epoll(int fd)
{
    if (fd >= EPOLLS)
        return true;
    uint8_t bit = (uint8_t)(1u << fd % 8);
    bool was = (epolls[fd / 8] & bit) != 0;
    epolls[fd / 8] &= (uint8_t)~bit;
    return was;
}

/*
 * Of `events`, those of a direction as a whole. The peer's end of sending comes after what it sent, so who
 * must not read yet need not be told of it.
 */
static uint32_t part(uint32_t events, enum tdi_direction direction)
{
    if (direction == TDI_OUT)
        return events & OUT_EVENTS;
    return (events & IN_EVENTS) == 0 ? 0 : events & (IN_EVENTS | (uint32_t)EPOLLRDHUP);
}

/* What the program must not be shown now, if it asks for these events. */
static uint32_t to_hide(uint64_t key, uint32_t events)
{
    uint32_t hidden = 0;
    if ((events & EXCLUSIVE) != 0)
        return 0;
    for (enum tdi_direction direction = TDI_OUT; direction <= TDI_IN; direction++)
        if (part(events, direction) != 0 && tdi_debt_is_hidden(key, direction))
            hidden |= part(events, direction);
    return hidden;
}

/*
 * Tells the kernel, and no other library, what is wanted and not hidden. A registration that is no more is
 * dropped: false.
 */
static bool tell(struct tdi_registration *one)
{
    struct epoll_event event = {.events = one->events & ~one->hidden, .data.u64 = one->data};
    int saved_errno = errno;
    bool is_there = tdi_fd_key(one->fd) == one->key &&
                    (tdi_raw.epoll_ctl(one->epfd, EPOLL_CTL_MOD, one->fd, &event) == 0 || errno == ENOMEM);
    errno = saved_errno;
    if (!is_there)
        tdi_registry_drop(one);
    return is_there;
}

static void record(uint64_t key, int epfd, int fd, const struct epoll_event *wanted, uint32_t hidden)
{
    struct tdi_registration *one = tdi_registry_find(key, epfd, fd);
    if (one == NULL)
        one = tdi_registry_take(key, epfd, fd);
    if (one == NULL)
        return;
    tdi_registry_disarm(one);
    one->events = wanted->events;
    one->data = wanted->data.u64;
    one->hidden = hidden;
    one->hider = hidden != 0 ? getpid() : 0;
    if ((wanted->events & ONESHOT) != 0 && hidden != 0)
        tdi_registry_arm(one);
    tdi_known_mark_watched(fd);
    mark_epoll(epfd);
}

static int ctl_del(uint64_t key, int epfd, int fd, struct epoll_event *event)
{
    int result = tdi_real()->epoll_ctl(epfd, EPOLL_CTL_DEL, fd, event);
    struct tdi_registration *one = result == 0 ? tdi_registry_find(key, epfd, fd) : NULL;
    if (one != NULL)
        tdi_registry_drop(one);
    return result;
}

static int ctl_set(uint64_t key, int epfd, int op, int fd, const struct epoll_event *wanted, uint32_t *hidden)
{
    struct epoll_event given = *wanted;
    *hidden = to_hide(key, wanted->events);
    given.events &= ~*hidden;
    int result = tdi_real()->epoll_ctl(epfd, op, fd, &given);
    if (result == 0)
        record(key, epfd, fd, wanted, *hidden);
    return result;
}

/* An event that cannot be read is the kernel's to refuse, and so is an operation that is none. */
static bool is_sound(int op, const struct epoll_event *event)
{
    return op == EPOLL_CTL_DEL ||
           ((op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD) && tdi_fd_readable(event, sizeof *event));
}

int tdi_watch_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    const struct tdi_rules *rules = tdi_rules();
    uint64_t key;
    if (rules == NULL || tdi_inside.house > 0 || tdi_known_reach(rules, fd) == 0 || !is_sound(op, event) ||
        !tdi_known_is_ours() || (key = tdi_fd_key(fd)) == 0)
        return tdi_real()->epoll_ctl(epfd, op, fd, event);
    struct tdi_ready_lock lock;
    uint32_t hidden = 0;
    tdi_ready_lock(&lock);
    int result =
        op == EPOLL_CTL_DEL ? ctl_del(key, epfd, fd, event) : ctl_set(key, epfd, op, fd, event, &hidden);
    int error = errno;
    tdi_ready_unlock(&lock);
    if (result == 0 && hidden != 0)
        tdi_debt_look_after();
    if (result != 0)
        errno = error;
    return result;
}

/* If several have these data, nobody knows whose event it was, and one too many is the harmless mistake. */
void tdi_watch_fired(int epfd, const struct epoll_event *events, int count)
{
    if (count <= 0 || atomic_load_explicit(&tdi_registry_armed, memory_order_relaxed) == 0)
        return;
    struct tdi_ready_lock lock;
    tdi_ready_lock(&lock);
    for (int i = 0; i < count; i++) {
        struct tdi_registration *one = tdi_registry_find_armed(epfd, events[i].data.u64);
        if (one != NULL)
            tdi_registry_disarm(one);
    }
    tdi_ready_unlock(&lock);
}

bool tdi_watch_any(uint64_t key)
{
    return tdi_registry_next(key, NULL) != NULL;
}

bool tdi_watch_can_owe(uint64_t key)
{
    struct tdi_registration *one = NULL;
    while ((one = tdi_registry_next(key, one)) != NULL)
        if ((one->events & EXCLUSIVE) != 0)
            return false;
    return tdi_registry_is_whole(key);
}

static void hide(struct tdi_registration *one, enum tdi_direction direction)
{
    uint32_t more = part(one->events, direction) & ~one->hidden;
    if (more == 0 || (one->events & (ET | ONESHOT | EXCLUSIVE)) != 0)
        return;
    one->hidden |= more;
    one->hider = getpid();
    (void)tell(one);
}

/* A parent that lives shows what it hid itself; its child may be about to execute something else. */
static bool is_parents(const struct tdi_registration *one)
{
    return one->hider != getpid() && one->hider == getppid();
}

static void show(struct tdi_registration *one, enum tdi_direction direction)
{
    uint32_t owed = part(one->events, direction);
    bool was_hidden = (one->hidden & owed) != 0, was_armed = one->armed;
    if (owed == 0 || (one->events & EXCLUSIVE) != 0)
        return;
    one->hidden &= ~owed;
    if (one->hidden == 0)
        tdi_registry_disarm(one);
    if (was_hidden ? is_parents(one) : (one->events & ET) == 0)
        return;
    /* A one-shot that was armed before the debt is left alone, and one that has fired is the program's to arm. */
    if ((one->events & ONESHOT) == 0 || was_armed)
        (void)tell(one);
}

void tdi_watch_hide(uint64_t key, enum tdi_direction direction)
{
    for (struct tdi_registration *one = tdi_registry_next(key, NULL), *next; one != NULL; one = next) {
        next = tdi_registry_next(key, one);
        hide(one, direction);
    }
}

void tdi_watch_show(uint64_t key, enum tdi_direction direction)
{
    for (struct tdi_registration *one = tdi_registry_next(key, NULL), *next; one != NULL; one = next) {
        next = tdi_registry_next(key, one);
        show(one, direction);
    }
}

/*
 * The kernel forgets a registration only when the last descriptor of the open file is closed; another one
 * that lives on must not find it without its events. In the process that hid them only.
 */
static void leave(struct tdi_registration *one)
{
    bool spent = (one->events & ONESHOT) != 0 && !one->armed;
    if (one->hidden != 0 && !spent && one->hider == getpid()) {
        one->hidden = 0;
        if (!tell(one))
            return;
    }
    tdi_registry_drop(one);
}

void tdi_watch_forget(int fd)
{
    uint64_t key = tdi_fd_key(fd);
    if (fd < 0)
        return;
    for (struct tdi_registration *one = key == 0 ? NULL : tdi_registry_next(key, NULL), *next; one != NULL;
         one = next) {
        next = tdi_registry_next(key, one);
        if (one->fd == fd)
            leave(one);
    }
    if (!was_epoll(fd))
        return;
    for (struct tdi_registration *one = tdi_registry_next_in(fd, NULL), *next; one != NULL; one = next) {
        next = tdi_registry_next_in(fd, one);
        leave(one);
    }
}
