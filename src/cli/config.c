/* SPDX-License-Identifier: MIT */
/*
 * A file is read at once and then looked at, so that it may also be a pipe. What an outer run has frozen begins
 * with bytes that no text does.
 */
#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor.h"

enum {
    MOST = 1024 * 1024 + 1, /* one more than the reader takes */
};

const char config_machine_path[] = "/etc/tundish/tundish.conf";

/* A file's bytes, malloc'ed, and those of an empty file are a newline; NULL and errno. */
static char *slurp(const char *path, size_t *size)
{
    char *bytes = malloc(MOST);
    ssize_t got = 1;
    *size = 0;
    int fd = bytes ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    while (fd >= 0 && got > 0 && *size < MOST) {
        got = read(fd, bytes + *size, MOST - *size);
        *size += got > 0 ? (size_t)got : 0;
    }
    int error = fd < 0 || got < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (error) {
        free(bytes);
        errno = error;
        return NULL;
    }
    if (*size == 0)
        bytes[(*size)++] = '\n'; /* fmemopen() takes no empty file */
    return bytes;
}

static bool begins_as_frozen(const void *bytes, size_t size)
{
    const uint64_t magic = TDI_FROZEN_MAGIC;
    return size >= sizeof(magic) && memcmp(bytes, &magic, sizeof(magic)) == 0;
}

bool config_is_frozen(const char *path)
{
    struct stat status;
    char start[sizeof(uint64_t)];
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) /* a pipe can be read once only */
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, start, sizeof(start)) : 0;
    if (fd >= 0)
        close(fd);
    return got > 0 && begins_as_frozen(start, (size_t)got);
}

static int fail(const char *subject, const char *why)
{
    cli_say(subject, "%s", why);
    return CLI_USAGE;
}

/* What is said about a line. */
static void complain(void *path, unsigned line, const char *message)
{
    char subject[CONFIG_PATH + 16];
    snprintf(subject, sizeof(subject), "%s:%u", (const char *)path, line);
    cli_say(line ? subject : path, "%s", message);
}

/* A hook before the library's own wrapper would take the call away from it. */
static unsigned refuse_wrapped(const struct tdi_conf *conf, char *path)
{
    const struct tdi_frozen *frozen = &conf->frozen;
    unsigned mistakes = 0;
    for (uint32_t i = 0; i < frozen->hooks; i++) {
        const char *name = tdi_frozen_text(frozen, frozen->hook[i].symbol);
        char message[TDI_CONF_NAME + 128];
        if (!doctor_is_wrapped(name))
            continue;
        snprintf(message, sizeof(message), "%s %s", name,
                 doctor_name(name) == DOCTOR_NAME_LIMITED
                     ? "needs no hook: it is one of the calls up, down or connect of a rule"
                     : "cannot be hooked: tundish needs it for itself");
        complain(path, conf->hook_line[frozen->hook[i].group], message);
        mistakes++;
    }
    return mistakes;
}

static int read_text(struct config *config, char *path, char *bytes, size_t size)
{
    FILE *file = fmemopen(bytes, size, "r");
    if (!file)
        return fail(path, strerror(errno));
    unsigned mistakes = tdi_conf_read(&config->conf, file, complain, path);
    fclose(file);
    if (mistakes == 0)
        mistakes = refuse_wrapped(&config->conf, path);
    if (mistakes > 0)
        return CLI_USAGE;
    config->kind = CONFIG_TEXT;
    return CLI_OK;
}

static int read_frozen(struct config *config, const char *path, const char *bytes, size_t size)
{
    struct tdi_frozen *frozen = &config->conf.frozen;
    const char *why;
    memset(frozen, 0, sizeof(*frozen));
    memcpy(frozen, bytes, size < sizeof(*frozen) ? size : sizeof(*frozen));
    if (tdi_frozen_check(frozen, size, &why) < 0)
        return fail(path, why);
    config->kind = CONFIG_FROZEN;
    return CLI_OK;
}

/* The path from the root on. */
static int make_absolute(const char *path, char absolute[CONFIG_PATH])
{
    char here[CONFIG_PATH] = "";
    if (path[0] != '/' && !getcwd(here, sizeof(here)))
        return -errno;
    return snprintf(absolute, CONFIG_PATH, "%s%s%s", here, here[0] && here[1] ? "/" : "", path) < CONFIG_PATH
               ? 0
               : -ENAMETOOLONG;
}

bool config_is_same(const char *path, const char *absolute)
{
    char own[CONFIG_PATH];
    struct stat a, b;
    if (make_absolute(path, own) == 0 && strcmp(own, absolute) == 0)
        return true;
    return stat(path, &a) == 0 && stat(absolute, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int config_read(struct config *config, const char *path)
{
    char said[CONFIG_PATH];
    size_t size;
    config->kind = CONFIG_NONE;
    int error = make_absolute(path, config->path);
    if (error)
        return fail(path, strerror(-error));
    char *bytes = slurp(path, &size);
    if (!bytes)
        return fail(path, strerror(errno));
    snprintf(said, sizeof(said), "%s", path);
    int status = begins_as_frozen(bytes, size) ? read_frozen(config, path, bytes, size)
                                               : read_text(config, said, bytes, size);
    free(bytes);
    return status;
}

const char *config_word(void)
{
    const char *word = getenv(CONFIG_WORD);
    return word && *word ? word : NULL;
}

void config_user_path(char path[CONFIG_PATH])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int len = 0;
    if (config && config[0] == '/') /* a relative one is to be ignored, says its specification */
        len = snprintf(path, CONFIG_PATH, "%s/tundish/tundish.conf", config);
    else if (home && home[0] == '/')
        len = snprintf(path, CONFIG_PATH, "%s/.config/tundish/tundish.conf", home);
    if (len <= 0 || len >= CONFIG_PATH)
        path[0] = '\0';
}

int config_read_default(struct config *config)
{
    char path[CONFIG_PATH];
    struct stat status;
    const char *word = config_word();
    config->kind = CONFIG_NONE;
    if (word && strcmp(word, CONFIG_SAID) != 0)
        return config_read(config, word);
    config_user_path(path);
    if (*path && stat(path, &status) == 0)
        return config_read(config, path);
    if (stat(config_machine_path, &status) == 0)
        return config_read(config, config_machine_path);
    return CLI_OK;
}

uint32_t config_hooks_in_use(const struct tdi_frozen *frozen)
{
    uint32_t hooks = 0;
    for (uint32_t i = 0; i < frozen->rules; i++)
        hooks |= frozen->rule[i].rule.hooks;
    return hooks;
}
