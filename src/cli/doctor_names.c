/* SPDX-License-Identifier: MIT */
/*
 * Names that matter, each written down once. Which ones are wrapped comes from preload.map at build time;
 * which others are worth a hook, from the policy room; what is here says the rest: which of the wrapped never
 * take a token, and which show that work is done where no wrapper sees it.
 */
#include "cli/doctor.h"

#include <string.h>

#include "policy/hooks.h"

/* Wrapped, if at all, for what they tell the library; a program that imports only these is not limited. */
static const char *const attended[] = {
    "__close",       "__fcntl",   "__poll",      "__poll_chk",   "__ppoll_chk", "__select",    "_exit",
    "accept",        "accept4",   "clone",       "close",        "close_range", "closefrom",   "daemon",
    "dlclose",       "dlmopen",   "dlopen",      "dup",          "dup2",        "dup3",        "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",  "execl",       "execle",
    "execlp",        "execv",     "execve",      "execveat",     "execvp",      "execvpe",     "fcntl",
    "fcntl64",       "fexecve",   "fork",        "ioctl",        "poll",        "posix_spawn", "posix_spawnp",
    "ppoll",         "prctl",     "pselect",     "select",       "shutdown",    "fclose",      "fcloseall",
    "freopen",       "freopen64", "socket",      "socketpair",   "syscall",     "vfork",
};

/* What imports of unwrapped names show. */
static const struct {
    enum doctor_trait trait;
    const char *const *names;
} shows[] = {
    {DOCTOR_TRAIT_STDIO, (const char *const[]){"__fprintf_chk",
                                               "__printf_chk",
                                               "__vfprintf_chk",
                                               "__vprintf_chk",
                                               "fflush",
                                               "fputc",
                                               "fputs",
                                               "fprintf",
                                               "fwrite",
                                               "fwrite_unlocked",
                                               "fputs_unlocked",
                                               "_IO_putc",
                                               "__overflow",
                                               "dprintf",
                                               "__dprintf_chk",
                                               "vdprintf",
                                               "printf",
                                               "putc",
                                               "putchar",
                                               "puts",
                                               "vfprintf",
                                               "vprintf",
                                               NULL}},
    {DOCTOR_TRAIT_FDOPEN, (const char *const[]){"fdopen", "_IO_fdopen", "fopencookie", NULL}},
    {DOCTOR_TRAIT_DNS,
     (const char *const[]){"getaddrinfo", "getaddrinfo_a", "gethostbyaddr", "gethostbyname", "gethostbyname2",
                           "gethostbyname_r", "gethostbyname2_r", "getnameinfo", "res_nquery", "res_query",
                           "res_search", "res_send", "__res_query", "__res_search", "__res_nsearch", NULL}},
    {DOCTOR_TRAIT_SYSLOG, (const char *const[]){"__syslog_chk", "__vsyslog_chk", "syslog", "vsyslog", NULL}},
    {DOCTOR_TRAIT_AIO, (const char *const[]){"aio_write", "aio_write64", "lio_listio", "lio_listio64", NULL}},
    {DOCTOR_TRAIT_DLOPEN, (const char *const[]){"dlopen", NULL}},
    {DOCTOR_TRAIT_DLMOPEN, (const char *const[]){"dlmopen", NULL}},
    {DOCTOR_TRAIT_SYSCALL, (const char *const[]){"syscall", NULL}},
};

static bool is_listed(const char *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

bool doctor_is_wrapped(const char *name)
{
    return is_listed(doctor_wrapped_names, doctor_wrapped_count, name);
}

enum doctor_name doctor_name(const char *name)
{
    if (doctor_is_wrapped(name))
        return is_listed(attended, sizeof(attended) / sizeof(attended[0]), name) ? DOCTOR_NAME_ATTENDED
                                                                                 : DOCTOR_NAME_LIMITED;
    if (tdi_known_hook(name))
        return DOCTOR_NAME_HOOKABLE;
    return DOCTOR_NAME_NONE;
}

enum doctor_trait doctor_trait(const char *name)
{
    if (strncmp(name, "io_uring_", 9) == 0)
        return DOCTOR_TRAIT_IO_URING;
    for (size_t i = 0; i < sizeof(shows) / sizeof(shows[0]); i++)
        for (const char *const *at = shows[i].names; *at; at++)
            if (strcmp(*at, name) == 0)
                return shows[i].trait;
    return DOCTOR_TRAITS;
}
