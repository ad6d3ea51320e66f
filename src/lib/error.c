/* SPDX-License-Identifier: MIT */
/*
 * Errors in words. Not strerror's: its texts are translated, allocated for unknown numbers, and not for
 * signal handlers.
 */
#include <errno.h>
#include <stddef.h>
#include <tundish/tundish.h>

static const struct {
    int error;
    const char *text;
} texts[] = {
    {0, "success"},
    {EAGAIN, "not enough tokens now"},
    {E2BIG, "more tokens than the bucket can hold"},
    {ETIMEDOUT, "not enough tokens in time"},
    {EINPROGRESS, "waiting in line"},
    {ECANCELED, "the wait was cancelled or given up"},
    {EPROTO, "not a bucket, or of another version, or damaged"},
    {EEXIST, "the bucket exists already"},
    {ENOENT, "no such bucket"},
    {EINVAL, "invalid name or options"},
    {ENOTSUP, "the time namespace of this process cannot be told"},
    {EACCES, "permission denied"},
    {EPERM, "operation not permitted"},
    {ENAMETOOLONG, "name too long"},
    {ENOTDIR, "not a directory"},
    {EISDIR, "is a directory"},
    {ELOOP, "a symbolic link"},
    {EROFS, "read-only file system"},
    {ENOSPC, "no space left"},
    {EDQUOT, "disk quota exceeded"},
    {EFBIG, "file too large"},
    {EIO, "input/output error"},
    {ENOMEM, "out of memory"},
    {EMFILE, "too many open files"},
    {ENFILE, "too many open files in the system"},
    {EINTR, "interrupted by a signal"},
    {EBUSY, "busy"},
    {EALREADY, "registered already"},
    {EDEADLK, "not allowed in a callback of the sidecar"},
    {ENOSYS, "not allowed by the kernel or a sandbox"},
    {ENXIO, "no such device"},
    {EBADF, "bad file descriptor"},
};

const char *tundish_strerror(int error)
{
    unsigned number = error < 0 ? 0u - (unsigned)error : (unsigned)error;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((unsigned)texts[i].error == number)
            return texts[i].text;
    return "unknown error";
}

const char *tundish_version(void)
{
    return TUNDISH_VERSION;
}
