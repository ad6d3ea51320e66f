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
 * An epoll may have several numbers (ready/twins.h). One of its registrations is kept once, under the number
 * that was used last, and goes over to another one when that is closed: an older record of it that came back
 * would bring the program old data, a freed pointer perhaps.
 *
 * A forked child shares the epoll, and what was registered before the fork is recorded in both. What one of
 * them modifies then, or deletes and adds, the other does not know: the event owed to it restores what it
 * knows, old data included, and no cheap way to ask the kernel prevents that. A socket hidden by the parent
 * is the parent's to show while it lives, even if the child has been granted tokens before. A child that
 * executes something else meanwhile keeps no watch: should the parent be killed before it shows it, it stays
 * hidden.
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
#include "ready/ready.h"
#include "ready/registry.h"
#include "ready/twins.h"
#include "real.h"
#include "rule.h"

#define OUT_EVENTS ((uint32_t)(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND))
#define IN_EVENTS ((uint32_t)(EPOLLIN | EPOLLRDNORM | EPOLLRDBAND))
#define ET ((uint32_t)EPOLLET)
#define ONESHOT ((uint32_t)EPOLLONESHOT)
#define EXCLUSIVE ((uint32_t)EPOLLEXCLUSIVE)

/*
 * Whom a forked child has left something to show; 0: nobody. It counts as one debt more, so that whoever
 * waits for events looks after it.
 */
static pid_t left_to;

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
 * Tells the kernel, and no other library, what is wanted but what is hidden. A registration that is no more
 * is dropped: false.
 */
static bool tell_but(struct tdi_registration *one, uint32_t hidden)
{
    struct epoll_event event = {.events = one->events & ~hidden, .data.u64 = one->data};
    int saved_errno = errno;
    bool is_there = tdi_fd_key(one->fd) == one->key &&
                    (tdi_raw.epoll_ctl(one->epfd, EPOLL_CTL_MOD, one->fd, &event) == 0 || errno == ENOMEM);
    errno = saved_errno;
    if (is_there)
        one->left &= hidden;
    else
        tdi_registry_drop(one);
    return is_there;
}

static bool tell(struct tdi_registration *one)
{
    return tell_but(one, one->hidden);
}

/* One that has fired is the program's to arm. */
static bool is_spent(const struct tdi_registration *one)
{
    return (one->events & ONESHOT) != 0 && !one->armed;
}

/* It is known by another number of its epoll from now on. */
static void move(struct tdi_registration *one, int epfd)
{
    bool was_armed = one->armed;
    tdi_registry_disarm(one);
    one->epfd = epfd;
    if (was_armed)
        tdi_registry_arm(one);
}

/* The socket's registration in this epoll, whichever number of the epoll it was made by. */
static struct tdi_registration *find(uint64_t key, int epfd, int fd)
{
    struct tdi_registration *one = tdi_registry_find(key, epfd, fd);
    if (one != NULL)
        return one;
    while ((one = tdi_registry_next(key, one)) != NULL)
        if (one->fd == fd && tdi_twins_same(one->epfd, epfd))
            break;
    if (one != NULL)
        move(one, epfd);
    return one;
}

static void record(uint64_t key, int epfd, int fd, const struct epoll_event *wanted, uint32_t hidden)
{
    struct tdi_registration *one = find(key, epfd, fd);
    if (one == NULL)
        one = tdi_registry_take(key, epfd, fd);
    if (one == NULL)
        return;
    tdi_registry_disarm(one);
    one->events = wanted->events;
    one->data = wanted->data.u64;
    one->hidden = hidden;
    one->left = 0;
    one->hider = hidden != 0 ? getpid() : 0;
    if ((wanted->events & ONESHOT) != 0 && hidden != 0)
        tdi_registry_arm(one);
    tdi_known_mark_watched(fd);
    tdi_twins_mark(epfd);
}

static int ctl_del(uint64_t key, int epfd, int fd, struct epoll_event *event)
{
    int result = tdi_real()->epoll_ctl(epfd, EPOLL_CTL_DEL, fd, event);
    struct tdi_registration *one = result == 0 ? find(key, epfd, fd) : NULL;
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

/* By any number of the epoll. */
static struct tdi_registration *find_armed(int epfd, uint64_t data)
{
    struct tdi_registration *one = tdi_registry_find_armed(epfd, data);
    for (int twin = tdi_twins_next(epfd); one == NULL && twin != epfd; twin = tdi_twins_next(twin))
        if ((one = tdi_registry_find_armed(twin, data)) != NULL && !tdi_twins_same(twin, epfd))
            one = NULL;
    return one;
}

/* If several have these data, nobody knows whose event it was, and one too many is the harmless mistake. */
void tdi_watch_fired(int epfd, const struct epoll_event *events, int count)
{
    if (count <= 0 || atomic_load_explicit(&tdi_registry_armed, memory_order_relaxed) == 0 ||
        !tdi_known_is_ours())
        return;
    struct tdi_ready_lock lock;
    tdi_ready_lock(&lock);
    for (int i = 0; i < count; i++) {
        struct tdi_registration *one = find_armed(epfd, events[i].data.u64);
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

/* Should the parent end first, it is shown here. */
static void leave_to_parent(struct tdi_registration *one, uint32_t owed)
{
    one->left |= owed;
    if (left_to == 0)
        atomic_fetch_add_explicit(&tdi_ready_debts, 1, memory_order_relaxed);
    left_to = one->hider;
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
    if (was_hidden && is_parents(one))
        leave_to_parent(one, owed);
    if (was_hidden ? is_parents(one) : (one->events & ET) == 0)
        return;
    /* A one-shot that was armed before the debt is left alone. */
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

bool tdi_watch_adopt(void)
{
    bool orphaned = left_to != getppid(), any = false;
    if (left_to == 0)
        return false;
    for (struct tdi_registration *one = tdi_registry_next_in(TDI_REGISTRY_ALL, NULL), *next; one != NULL;
         one = next) {
        next = tdi_registry_next_in(TDI_REGISTRY_ALL, one);
        if (one->left != 0 && orphaned && !is_spent(one))
            (void)tell(one);
        any = any || (one->left != 0 && !orphaned);
    }
    if (!any) {
        left_to = 0;
        atomic_fetch_sub_explicit(&tdi_ready_debts, 1, memory_order_relaxed);
    }
    return any;
}

void tdi_watch_uncover(uint64_t key)
{
    for (struct tdi_registration *one = tdi_registry_next(key, NULL), *next; one != NULL; one = next) {
        next = tdi_registry_next(key, one);
        bool shown = one->hidden == 0 ? (one->events & ET) != 0 : !is_parents(one);
        if (shown && !is_spent(one) && (one->events & EXCLUSIVE) == 0)
            (void)tell_but(one, 0);
    }
}

void tdi_watch_cover(uint64_t key)
{
    for (struct tdi_registration *one = tdi_registry_next(key, NULL), *next; one != NULL; one = next) {
        next = tdi_registry_next(key, one);
        if (one->hidden != 0 && !is_parents(one) && !is_spent(one))
            (void)tell(one);
    }
}

/*
 * The kernel forgets a registration only when the last descriptor of the open file is closed; another one
 * that lives on must not find it without its events. In the process that hid them only.
 */
static void leave(struct tdi_registration *one)
{
    if (one->hidden != 0 && !is_spent(one) && one->hider == getpid()) {
        one->hidden = 0;
        if (!tell(one))
            return;
    }
    tdi_registry_drop(one);
}

void tdi_watch_forget(int fd)
{
    uint64_t key = tdi_fd_key(fd);
    int heir;
    if (fd < 0)
        return;
    for (struct tdi_registration *one = key == 0 ? NULL : tdi_registry_next(key, NULL), *next; one != NULL;
         one = next) {
        next = tdi_registry_next(key, one);
        if (one->fd == fd)
            leave(one);
    }
    if (!tdi_twins_leave(fd, &heir))
        return;
    for (struct tdi_registration *one = tdi_registry_next_in(fd, NULL), *next; one != NULL; one = next) {
        next = tdi_registry_next_in(fd, one);
        if (heir >= 0)
            move(one, heir);
        else
            leave(one);
    }
}

/* Whether a number of an epoll is one to remember here. */
static bool is_followed(int fd)
{
    return fd >= 0 && tdi_rules() != NULL && tdi_inside.house == 0 && tdi_known_is_ours();
}

void tdi_watch_made(int epfd)
{
    struct tdi_ready_lock lock;
    if (!is_followed(epfd))
        return;
    tdi_ready_lock(&lock);
    tdi_twins_made(epfd);
    tdi_ready_unlock(&lock);
}

void tdi_watch_duplicated(int from, int to)
{
    struct tdi_ready_lock lock;
    if (!is_followed(from) || !is_followed(to))
        return;
    tdi_ready_lock(&lock);
    tdi_twins_add(from, to);
    tdi_ready_unlock(&lock);
}
