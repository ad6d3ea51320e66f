/* SPDX-License-Identifier: MIT */
/*
 * What is known of functions by their names alone. The signatures are those of OpenSSL 3, GnuTLS 3.7, NSPR,
 * libcurl, nghttp2, libpq, the MySQL and MariaDB clients, SQLite, hiredis and the C library. Functions with a
 * variable argument list are here only if what is passed in it is known: the mode of open(2) is, what follows
 * the format of redisCommand() is not.
 *
 * The natural cost is the number of bytes where an argument or, if data comes in, the result says it, and
 * else a call. A family is one function of the C library in its variants: for large files, checked, with a
 * directory to start from. What has a meaning of its own stands alone, as fdatasync does beside fsync.
 */
#include "policy/hooks.h"

#include <stdbool.h>
#include <string.h>

/*
 * By the bytes of their names, as strcmp sorts them. An int for mysql_send_query() also carries the bool that
 * it returns in MySQL 8.
 */
const struct tdi_known_hook tdi_known_hooks[] = {
    {"PQconnectStart", "pointer (pointer)", "calls", NULL},
    {"PQconnectStartParams", "pointer (pointer, pointer, int)", "calls", NULL},
    {"PQconnectdb", "pointer (pointer)", "calls", NULL},
    {"PQconnectdbParams", "pointer (pointer, pointer, int)", "calls", NULL},
    {"PQexec", "pointer (pointer, pointer)", "calls", NULL},
    {"PQexecParams", "pointer (pointer, pointer, int, pointer, pointer, pointer, pointer, int)", "calls",
     NULL},
    {"PQexecPrepared", "pointer (pointer, pointer, int, pointer, pointer, pointer, int)", "calls", NULL},
    {"PQprepare", "pointer (pointer, pointer, pointer, int, pointer)", "calls", NULL},
    {"PQputCopyData", "int (pointer, pointer, int)", "arg3", NULL},
    {"PQsendPrepare", "int (pointer, pointer, pointer, int, pointer)", "calls", NULL},
    {"PQsendQuery", "int (pointer, pointer)", "calls", NULL},
    {"PQsendQueryParams", "int (pointer, pointer, int, pointer, pointer, pointer, pointer, int)", "calls",
     NULL},
    {"PQsendQueryPrepared", "int (pointer, pointer, int, pointer, pointer, pointer, int)", "calls", NULL},
    {"PR_Read", "int (pointer, pointer, int)", "result", NULL},
    {"PR_Recv", "int (pointer, pointer, int, int, unsigned)", "result", NULL},
    {"PR_Send", "int (pointer, pointer, int, int, unsigned)", "arg3", NULL},
    {"PR_Write", "int (pointer, pointer, int)", "arg3", NULL},
    {"SSL_connect", "int (pointer)", "calls", NULL},
    {"SSL_do_handshake", "int (pointer)", "calls", NULL},
    {"SSL_read", "int (pointer, pointer, int)", "result", NULL},
    {"SSL_read_ex", "int (pointer, pointer, size_t, pointer)", "calls", NULL},
    {"SSL_sendfile", "ssize_t (pointer, int, off_t, size_t, int)", "arg4", NULL},
    {"SSL_write", "int (pointer, pointer, int)", "arg3", NULL},
    {"SSL_write_early_data", "int (pointer, pointer, size_t, pointer)", "arg3", NULL},
    {"SSL_write_ex", "int (pointer, pointer, size_t, pointer)", "arg3", NULL},
    {"SSL_write_ex2", "int (pointer, pointer, size_t, uint64_t, pointer)", "arg3", NULL},
    {"__open64_2", "int (pointer, int)", "calls", "open"},
    {"__open_2", "int (pointer, int)", "calls", "open"},
    {"__openat64_2", "int (int, pointer, int)", "calls", "open"},
    {"__openat_2", "int (int, pointer, int)", "calls", "open"},
    {"creat", "int (pointer, mode_t)", "calls", "open"},
    {"creat64", "int (pointer, mode_t)", "calls", "open"},
    {"curl_easy_perform", "int (pointer)", "calls", NULL},
    {"curl_multi_perform", "int (pointer, pointer)", "calls", NULL},
    {"fallocate", "int (int, int, off_t, off_t)", "calls", "fallocate"},
    {"fallocate64", "int (int, int, off64_t, off64_t)", "calls", "fallocate"},
    {"fdatasync", "int (int)", "calls", NULL},
    {"fopen", "pointer (pointer, pointer)", "calls", "fopen"},
    {"fopen64", "pointer (pointer, pointer)", "calls", "fopen"},
    {"fsync", "int (int)", "calls", NULL},
    {"ftruncate", "int (int, off_t)", "calls", "ftruncate"},
    {"ftruncate64", "int (int, off64_t)", "calls", "ftruncate"},
    {"gnutls_handshake", "int (pointer)", "calls", NULL},
    {"gnutls_record_recv", "ssize_t (pointer, pointer, size_t)", "result", NULL},
    {"gnutls_record_send", "ssize_t (pointer, pointer, size_t)", "arg3", NULL},
    {"gnutls_record_send2", "ssize_t (pointer, pointer, size_t, size_t, unsigned)", "arg3", NULL},
    {"gnutls_record_send_early_data", "ssize_t (pointer, pointer, size_t)", "arg3", NULL},
    {"gnutls_record_send_file", "ssize_t (pointer, int, pointer, size_t)", "arg4", NULL},
    {"gnutls_record_send_range", "ssize_t (pointer, pointer, size_t, pointer)", "arg3", NULL},
    {"link", "int (pointer, pointer)", "calls", "link"},
    {"linkat", "int (int, pointer, int, pointer, int)", "calls", "link"},
    {"mkdir", "int (pointer, mode_t)", "calls", "mkdir"},
    {"mkdirat", "int (int, pointer, mode_t)", "calls", "mkdir"},
    {"msync", "int (pointer, size_t, int)", "calls", NULL},
    {"mysql_query", "int (pointer, pointer)", "calls", NULL},
    {"mysql_real_connect",
     "pointer (pointer, pointer, pointer, pointer, pointer, unsigned, pointer, unsigned long)", "calls",
     NULL},
    {"mysql_real_query", "int (pointer, pointer, unsigned long)", "calls", NULL},
    {"mysql_send_query", "int (pointer, pointer, unsigned long)", "calls", NULL},
    {"mysql_stmt_execute", "int (pointer)", "calls", NULL},
    {"nghttp2_session_mem_send", "ssize_t (pointer, pointer)", "result", NULL},
    {"nghttp2_session_send", "int (pointer)", "calls", NULL},
    {"open", "int (pointer, int, ...unsigned)", "calls", "open"},
    {"open64", "int (pointer, int, ...unsigned)", "calls", "open"},
    {"openat", "int (int, pointer, int, ...unsigned)", "calls", "open"},
    {"openat64", "int (int, pointer, int, ...unsigned)", "calls", "open"},
    {"posix_fallocate", "int (int, off_t, off_t)", "calls", "posix_fallocate"},
    {"posix_fallocate64", "int (int, off64_t, off64_t)", "calls", "posix_fallocate"},
    {"redisCommandArgv", "pointer (pointer, int, pointer, pointer)", "calls", NULL},
    {"redisConnect", "pointer (pointer, int)", "calls", NULL},
    {"remove", "int (pointer)", "calls", NULL},
    {"rename", "int (pointer, pointer)", "calls", "rename"},
    {"renameat", "int (int, pointer, int, pointer)", "calls", "rename"},
    {"renameat2", "int (int, pointer, int, pointer, unsigned)", "calls", "rename"},
    {"rmdir", "int (pointer)", "calls", NULL},
    {"sqlite3_exec", "int (pointer, pointer, pointer, pointer, pointer)", "calls", NULL},
    {"sqlite3_step", "int (pointer)", "calls", NULL},
    {"symlink", "int (pointer, pointer)", "calls", "symlink"},
    {"symlinkat", "int (pointer, int, pointer)", "calls", "symlink"},
    {"sync_file_range", "int (int, off64_t, off64_t, unsigned)", "calls", NULL},
    {"syncfs", "int (int)", "calls", NULL},
    {"truncate", "int (pointer, off_t)", "calls", "truncate"},
    {"truncate64", "int (pointer, off64_t)", "calls", "truncate"},
    {"unlink", "int (pointer)", "calls", "unlink"},
    {"unlinkat", "int (int, pointer, int)", "calls", "unlink"},
};

const size_t tdi_known_hook_count = sizeof tdi_known_hooks / sizeof *tdi_known_hooks;

static const char TWICE[] = "returns twice, the second time into a hook that is gone";
static const char LOOKUP[] =
    "looks at who calls it, which would be the hook, and is needed to find what is hooked";
static const char LOADER[] = "belongs to the dynamic linker, which binds the hooks themselves";
static const char START[] = "is where a program or library begins or ends, and not called by its name";
static const char UNWIND[] = "unwinds the stack from its caller on, which would be the hook";
static const char OWN[] = "is what hooks are made with";
static const char PROFILE[] = "is called by the compiler's rules, not by those of C";

/* A '*' at the end stands for anything that follows. */
static const struct {
    const char *name;
    const char *why;
} obstacles[] = {
    {"setjmp", TWICE},         {"_setjmp", TWICE},      {"sigsetjmp", TWICE},
    {"__sigsetjmp", TWICE},    {"vfork", TWICE},        {"__vfork", TWICE},
    {"getcontext", TWICE},     {"swapcontext", TWICE},  {"dlsym", LOOKUP},
    {"dlvsym", LOOKUP},        {"dlopen", LOOKUP},      {"dlmopen", LOOKUP},
    {"dlclose", OWN},          {"_dl_*", LOADER},       {"__tls_get_addr", LOADER},
    {"main", START},           {"_start", START},       {"_init", START},
    {"_fini", START},          {"__cxa_throw", UNWIND}, {"__cxa_rethrow", UNWIND},
    {"_Unwind_*", UNWIND},     {"mcount", PROFILE},     {"_mcount", PROFILE},
    {"__fentry__", PROFILE},   {"ffi_*", OWN},          {"tundish_preload_*", OWN},
    {"__errno_location", OWN}, {"abort", OWN},          {"__stack_chk_fail", OWN},
    {"dl_iterate_phdr", OWN},  {"getauxval", OWN},      {"strcmp", OWN},
    {"strncmp", OWN},          {"strlen", OWN},         {"strrchr", OWN},
    {"memcmp", OWN},           {"memcpy", OWN},         {"memmove", OWN},
    {"memset", OWN},
};

const struct tdi_known_hook *tdi_known_hook(const char *name)
{
    size_t low = 0, high = tdi_known_hook_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, tdi_known_hooks[middle].name);
        if (order == 0)
            return &tdi_known_hooks[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static bool is_identifier(const char *name)
{
    if (*name >= '0' && *name <= '9')
        return false;
    const size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return len > 0 && name[len] == '\0';
}

static bool matches(const char *pattern, const char *name)
{
    const size_t len = strcspn(pattern, "*");
    return strncmp(pattern, name, len) == 0 && (pattern[len] == '*' || name[len] == '\0');
}

const char *tdi_hook_obstacle(const char *name)
{
    if (!is_identifier(name))
        return "is no name of a C function: letters, digits and '_', with no digit in front";
    for (size_t i = 0; i < sizeof obstacles / sizeof *obstacles; i++)
        if (matches(obstacles[i].name, name))
            return obstacles[i].why;
    return NULL;
}
