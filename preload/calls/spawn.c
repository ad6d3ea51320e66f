/* SPDX-License-Identifier: MIT */
/* posix_spawn and posix_spawnp. Their execution happens inside libc, in a child that none of our wrappers sees. */
#include <spawn.h>

#include "gate.h"
#include "heritage.h"
#include "real.h"

struct program {
    pid_t *pid;
    const char *path;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    char *const *argv;
};

static int real_posix_spawn(const void *arguments, char *const *envp)
{
    const struct program *p = arguments;
    return tdi_real()->posix_spawn(p->pid, p->path, p->actions, p->attributes, p->argv, envp);
}

static int real_posix_spawnp(const void *arguments, char *const *envp)
{
    const struct program *p = arguments;
    return tdi_real()->posix_spawnp(p->pid, p->path, p->actions, p->attributes, p->argv, envp);
}

TDI_WRAPPER int posix_spawn(pid_t *restrict pid, const char *restrict path,
                            const posix_spawn_file_actions_t *restrict actions,
                            const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                            char *const envp[restrict])
{
    struct program program = {pid, path, actions, attributes, argv};
    tdi_rules_forking();
    return tdi_heritage_hand_on(envp, real_posix_spawn, &program);
}

TDI_WRAPPER int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                             const posix_spawn_file_actions_t *restrict actions,
                             const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                             char *const envp[restrict])
{
    struct program program = {pid, file, actions, attributes, argv};
    tdi_rules_forking();
    return tdi_heritage_hand_on(envp, real_posix_spawnp, &program);
}
