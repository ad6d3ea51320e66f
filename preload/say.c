/* SPDX-License-Identifier: MIT */
/* Straight to the kernel: what we say is neither limited nor seen by another preloaded library. */
#include "say.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy/env.h"

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
    (void)syscall(SYS_write, STDERR_FILENO, buf, (size_t)(line.at - buf));
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
