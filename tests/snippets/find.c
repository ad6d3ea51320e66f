/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "snippets.h"

const struct snippet *const snippets[] = {
    &snippet_connect,
    &snippet_write,
    &snippet_writev,
    &snippet_send,
    &snippet_sendto,
    &snippet_sendmsg,
    &snippet_pwrite,
    &snippet_pwrite64,
    &snippet_pwritev,
    &snippet_pwritev64,
    &snippet_pwritev2,
    &snippet_pwritev64v2,
    &snippet_sendmmsg,
    &snippet_sendfile,
    &snippet_sendfile64,
    &snippet_splice,
    &snippet_vmsplice,
    &snippet_tee,
    &snippet_copy_file_range,
    &snippet_syscall,
    &snippet_read,
    &snippet_read_chk,
    &snippet_readv,
    &snippet_pread,
    &snippet_pread64,
    &snippet_pread_chk,
    &snippet_pread64_chk,
    &snippet_preadv,
    &snippet_preadv64,
    &snippet_preadv2,
    &snippet_preadv64v2,
    &snippet_recv,
    &snippet_recv_chk,
    &snippet_recvfrom,
    &snippet_recvfrom_chk,
    &snippet_recvmsg,
    &snippet_recvmmsg,
    &snippet_execve,
    &snippet_execv,
    &snippet_execvp,
    &snippet_execvpe,
    &snippet_execl,
    &snippet_execlp,
    &snippet_execle,
    &snippet_fexecve,
    &snippet_execveat,
    &snippet_posix_spawn,
    &snippet_posix_spawnp,
    &snippet_epoll_wait,
    &snippet_epoll_pwait,
    &snippet_epoll_pwait2,
    &snippet_poll,
    &snippet_ppoll,
    &snippet_select,
    &snippet_pselect,
    &snippet_close,
    &snippet_close_range,
    &snippet_dup,
    &snippet_dup2,
    &snippet_dup3,
    &snippet_fcntl,
    &snippet_accept,
    &snippet_accept4,
    &snippet_socketpair,
    NULL,
};

const struct snippet *snippet_find(const char *name)
{
    for (size_t i = 0; snippets[i] != NULL; i++)
        if (strcmp(snippets[i]->name, name) == 0)
            return snippets[i];
    return NULL;
}
