/* SPDX-License-Identifier: MIT */
/*
 * fcntl: only for the numbers it makes. As libc does, one argument is passed on, whether there is one or not.
 */
#include <fcntl.h>
#include <stdarg.h>

#include "calls/gone.h"
#include "gate.h"
#include "real.h"

static int made(int fd, int command, int result)
{
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? tdi_born_of(fd, result) : result;
}

TDI_WRAPPER int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return made(fd, command, tdi_real()->fcntl(fd, command, argument));
}

/* libc's name for the same where files may be large. */
int fcntl64(int fd, int command, ...);

TDI_WRAPPER int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return made(fd, command, tdi_real()->fcntl64(fd, command, argument));
}
