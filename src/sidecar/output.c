/* SPDX-License-Identifier: MIT */
/*
 * See output.h. Asked whether it may be written to, a pipe says yes if PIPE_BUF bytes have room: such a write does not
 * block, and comes out in one piece also where others write to the same pipe.
 */
#include "sidecar/output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GATHERED 65536 /* bytes; a system call for each line would cost more than the line */
#define NS_PER_MS UINT64_C(1000000)
#define LAST_NS (50 * NS_PER_MS) /* for the last lines, after we are told to stop */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec;
}

/* Whole lines, as many as a pipe takes in one piece; of a longer one, a part. */
static size_t piece_of(const char *text, size_t size)
{
    if (size <= PIPE_BUF)
        return size;
    const char *end = memrchr(text, '\n', PIPE_BUF);
    return end ? (size_t)(end - text) + 1 : PIPE_BUF;
}

/* Sleeps until there is room: false if there is none yet, and somebody wants something of us. */
static bool await_room(struct tdi_output *output)
{
    struct pollfd events[] = {{.fd = output->fd, .events = POLLOUT},
                              {.fd = output->give_up_ns ? -1 : output->stop, .events = POLLIN}};
    poll(events, 2, output->give_up_ns ? (int)(LAST_NS / NS_PER_MS / 10) : -1);
    if (events[1].revents != 0)
        output->give_up_ns = now_ns() + LAST_NS;
    return events[0].revents != 0;
}

/* How many bytes, or a negative errno. */
static ssize_t write_piece(struct tdi_output *output, const char *text, size_t size)
{
    bool room = await_room(output);
    if (output->give_up_ns && now_ns() >= output->give_up_ns)
        return -EINTR;
    if (!room)
        return 0;
    ssize_t written = write(output->fd, text, piece_of(text, size));
    if (written >= 0)
        return written;
    return errno == EINTR || errno == EAGAIN ? 0 : -errno;
}

static int write_all(struct tdi_output *output)
{
    for (size_t at = 0; at < output->size;) {
        ssize_t written = write_piece(output, output->text + at, output->size - at);
        if (written < 0)
            return (int)written;
        at += (size_t)written;
    }
    return 0;
}

static int begin(struct tdi_output *output)
{
    output->text = NULL;
    output->file = open_memstream(&output->text, &output->size);
    return output->file ? 0 : -ENOMEM;
}

int tdi_output_open(struct tdi_output *output, int fd, int stop)
{
    *output = (struct tdi_output){.fd = fd, .stop = stop};
    return begin(output);
}

void tdi_output_close(struct tdi_output *output)
{
    if (output->file)
        fclose(output->file);
    free(output->text);
}

void tdi_output_end_line(struct tdi_output *output)
{
    if (ftell(output->file) >= GATHERED)
        tdi_output_flush(output);
}

int tdi_output_flush(struct tdi_output *output)
{
    if (fflush(output->file) != 0 && !output->error)
        output->error = -ENOMEM;
    if (!output->error)
        output->error = write_all(output);
    rewind(output->file);
    return output->error;
}
