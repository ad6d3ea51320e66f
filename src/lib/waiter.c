/* SPDX-License-Identifier: MIT */
/* An acquire in line that no thread sleeps for: whoever owns it polls it when its time has come. */
#include <errno.h>
#include <stdlib.h>

#include "lib/acquire.h"
#include "lib/line.h"
#include "plat/timer.h"

struct tundish_waiter {
    struct tdi_line line;
    uint64_t deadline_ns;
    int state; /* -EINPROGRESS, or the final answer */
    int fd;    /* -1 until asked for */
};

int tundish_waiter_start(struct tundish *bucket, uint32_t n, uint64_t deadline_ns,
                         struct tundish_waiter **out)
{
    *out = NULL;
    int error = tdi_acquire_try(bucket, n, TDI_KIND_WAITER);
    if (error == 0)
        return 0;
    struct tundish_waiter *waiter = malloc(sizeof *waiter);
    if (!waiter)
        return -ENOMEM;
    *waiter = (struct tundish_waiter){.deadline_ns = deadline_ns, .fd = -1};
    tdi_line_begin(&waiter->line, bucket, n, true, TDI_KIND_WAITER);
    waiter->state = tdi_line_poll(&waiter->line, deadline_ns);
    if (waiter->state == -EINPROGRESS) {
        *out = waiter;
        return -EINPROGRESS;
    }
    error = waiter->state;
    tdi_line_count(&waiter->line, error);
    free(waiter);
    return error;
}

static void drop_fd(struct tundish_waiter *waiter)
{
    if (waiter->fd >= 0)
        tdi_timer_close(waiter->fd);
    waiter->fd = -1;
}

int tundish_waiter_poll(struct tundish_waiter *waiter)
{
    if (waiter->state != -EINPROGRESS)
        return waiter->state;
    waiter->state = tdi_line_poll(&waiter->line, waiter->deadline_ns);
    if (waiter->line.forked)
        drop_fd(waiter); /* the timer behind it is the parent's */
    waiter->line.forked = false;
    if (waiter->state != -EINPROGRESS)
        tdi_line_count(&waiter->line, waiter->state);
    if (waiter->fd >= 0)
        tdi_timer_set(waiter->fd, waiter->state == -EINPROGRESS ? waiter->line.wake_ns : 0);
    return waiter->state;
}

uint64_t tundish_waiter_next_ns(const struct tundish_waiter *waiter)
{
    return waiter->state == -EINPROGRESS ? waiter->line.wake_ns : 0;
}

int tundish_waiter_fd(struct tundish_waiter *waiter)
{
    if (waiter->fd >= 0)
        return waiter->fd;
    int fd = tdi_timer_open();
    if (fd < 0)
        return fd;
    int error = tdi_timer_set(fd, tundish_waiter_next_ns(waiter));
    if (error) {
        tdi_timer_close(fd);
        return error;
    }
    waiter->fd = fd;
    return fd;
}

void tundish_waiter_free(struct tundish_waiter *waiter)
{
    if (!waiter)
        return;
    if (waiter->state == -EINPROGRESS) {
        tdi_line_end(&waiter->line);
        tdi_line_count(&waiter->line, -ECANCELED);
    }
    drop_fd(waiter);
    free(waiter);
}
