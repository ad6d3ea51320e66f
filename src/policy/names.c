/* SPDX-License-Identifier: MIT */
/* Names of calls and of errors. */
#include "policy/names.h"

#include <errno.h>
#include <string.h>

#include "policy/policy.h"

static const struct {
    const char *name;
    uint32_t calls;
} call_names[] = {
    {"up", TDI_CALLS_UP},
    {"down", TDI_CALLS_DOWN},
    {"connect", TDI_CALL_CONNECT},
    {"write", TDI_CALL_WRITE},
    {"writev", TDI_CALL_WRITEV},
    {"pwrite", TDI_CALL_PWRITE},
    {"pwritev", TDI_CALL_PWRITEV},
    {"send", TDI_CALL_SEND},
    {"sendto", TDI_CALL_SENDTO},
    {"sendmsg", TDI_CALL_SENDMSG},
    {"sendmmsg", TDI_CALL_SENDMMSG},
    {"sendfile", TDI_CALL_SENDFILE},
    {"splice", TDI_CALL_SPLICE},
    {"copy_file_range", TDI_CALL_COPY_FILE_RANGE},
    {"read", TDI_CALL_READ},
    {"readv", TDI_CALL_READV},
    {"pread", TDI_CALL_PREAD},
    {"preadv", TDI_CALL_PREADV},
    {"recv", TDI_CALL_RECV},
    {"recvfrom", TDI_CALL_RECVFROM},
    {"recvmsg", TDI_CALL_RECVMSG},
    {"recvmmsg", TDI_CALL_RECVMMSG},
};

static const struct {
    const char *name;
    int error;
} errno_names[] = {
    {"EAGAIN", EAGAIN},
    {"EWOULDBLOCK", EWOULDBLOCK},
    {"EACCES", EACCES},
    {"EPERM", EPERM},
    {"ECONNREFUSED", ECONNREFUSED},
    {"ECONNRESET", ECONNRESET},
    {"ECONNABORTED", ECONNABORTED},
    {"ETIMEDOUT", ETIMEDOUT},
    {"EHOSTUNREACH", EHOSTUNREACH},
    {"ENETUNREACH", ENETUNREACH},
    {"ENETDOWN", ENETDOWN},
    {"EPIPE", EPIPE},
    {"ENOBUFS", ENOBUFS},
    {"ENOMEM", ENOMEM},
    {"EBUSY", EBUSY},
    {"EIO", EIO},
    {"ENOSPC", ENOSPC},
    {"EDQUOT", EDQUOT},
    {"EMFILE", EMFILE},
    {"ENFILE", ENFILE},
    {"EROFS", EROFS},
    {"ENOENT", ENOENT},
    {"EINVAL", EINVAL},
    {"ECANCELED", ECANCELED},
    {"ENOTSUP", ENOTSUP},
    {"ENOSYS", ENOSYS},
};

uint32_t tdi_names_call(const char *item, size_t len)
{
    for (size_t i = 0; i < sizeof call_names / sizeof *call_names; i++)
        if (tdi_item_is(item, len, call_names[i].name))
            return call_names[i].calls;
    return 0;
}

void tdi_names_add_calls(struct tdi_text *line)
{
    for (size_t i = 0; i < sizeof call_names / sizeof *call_names; i++) {
        tdi_text_add(line, i > 0 ? ", " : "");
        tdi_text_add(line, call_names[i].name);
    }
}

int tdi_names_errno(const char *name)
{
    for (size_t i = 0; i < sizeof errno_names / sizeof *errno_names; i++)
        if (strcmp(name, errno_names[i].name) == 0)
            return errno_names[i].error;
    return 0;
}

const char *tdi_names_errno_name(int error)
{
    for (size_t i = 0; i < sizeof errno_names / sizeof *errno_names; i++)
        if (errno_names[i].error == error)
            return errno_names[i].name;
    return NULL;
}
