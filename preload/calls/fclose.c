/* SPDX-License-Identifier: MIT */
/* fclose, freopen: libc closes the stream's descriptor by a road of its own, so it is forgotten here. */
#include <errno.h>
#include <stdio.h>

#include "calls/gone.h"
#include "gate.h"
#include "real.h"

static void stream_gone(FILE *stream)
{
    int saved_errno = errno;
    int fd = fileno(stream);
    errno = saved_errno;
    if (fd >= 0)
        tdi_gone(fd);
}

static FILE *reborn(FILE *stream)
{
    if (stream != NULL) {
        int saved_errno = errno;
        (void)tdi_born(fileno(stream));
        errno = saved_errno;
    }
    return stream;
}

TDI_WRAPPER int fclose(FILE *stream)
{
    stream_gone(stream);
    return tdi_real()->fclose(stream);
}

TDI_WRAPPER FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    stream_gone(stream);
    return reborn(tdi_real()->freopen(path, mode, stream));
}

/* libc's name for the same where files may be large. */
FILE *freopen64(const char *path, const char *mode, FILE *stream);

TDI_WRAPPER FILE *freopen64(const char *path, const char *mode, FILE *stream)
{
    stream_gone(stream);
    return reborn(tdi_real()->freopen64(path, mode, stream));
}
