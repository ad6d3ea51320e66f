/* SPDX-License-Identifier: MIT */
/*
 * Straight to the kernel: what we say is neither limited nor seen by another preloaded library. And only to
 * what was standard error at the start: a program may have closed it and opened a file of its own under that
 * number.
 */
#include "say.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/quiet.h"
#include "policy/env.h"

static struct stat standard_error;
static bool known;

void tdi_say_to(void)
{
    int saved_errno = errno;
    known = fstat(STDERR_FILENO, &standard_error) == 0;
    errno = saved_errno;
}

static bool is_still_there(void)
{
    struct stat now;
    return known && fstat(STDERR_FILENO, &now) == 0 && now.st_dev == standard_error.st_dev &&
           now.st_ino == standard_error.st_ino;
}

void tdi_say(const char *const *parts)
{
    int saved_errno = errno;
    char buf[1024];
    struct tdi_text line;
    tdi_text_start(&line, buf, sizeof buf - 1); /* one byte less: room for the newline */
    tdi_text_add(&line, "tundish: ");
    while (*parts != NULL)
        tdi_text_add(&line, *parts++);
    *line.at++ = '\n';
    if (is_still_there()) {
        struct tdi_quiet pipe, size;
        tdi_quiet_begin(&pipe, SIGPIPE);
        tdi_quiet_begin(&size, SIGXFSZ);
        (void)syscall(SYS_write, STDERR_FILENO, buf, (size_t)(line.at - buf));
        tdi_quiet_end(&size, SIGXFSZ);
        tdi_quiet_end(&pipe, SIGPIPE);
    }
    errno = saved_errno;
}

const char *tdi_decimal(char *buf, uint64_t value)
{
    char reversed[TDI_DECIMAL];
    size_t n = 0;
    do
        reversed[n++] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    for (size_t i = 0; i < n; i++)
        buf[i] = reversed[n - 1 - i];
    buf[n] = '\0';
    return buf;
}
