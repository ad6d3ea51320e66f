/* SPDX-License-Identifier: MIT */
/* Reads buckets and lists the directory of names; see observed.h. */
#include "cli/observed.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_instances(struct cli_observed *out, const struct tundish *bucket)
{
    out->instance = calloc(TDI_LAYOUT_INSTANCES, sizeof(*out->instance));
    if (!out->instance)
        return -ENOMEM;
    for (uint32_t i = 0; i < TDI_LAYOUT_INSTANCES; i++)
        if (tdi_observe_instance(bucket, i, &out->instance[out->instances]))
            out->instances++;
    /* Most of the room was for nobody; who keeps many buckets need not keep that. */
    void *fitting = reallocarray(out->instance, out->instances + 1, sizeof(*out->instance));
    if (fitting)
        out->instance = fitting;
    return 0;
}

static int read_names(struct cli_observed *out, const char *name, const char *label)
{
    char path[PATH_MAX];
    int error = tundish_path(name, path, sizeof(path));
    if (error)
        return error;
    out->name = strdup(label);
    out->path = strdup(path);
    return out->name && out->path ? 0 : -ENOMEM;
}

int cli_observed_read(struct cli_observed *out, const struct tundish *bucket, const char *name,
                      const char *label)
{
    *out = (struct cli_observed){.info = TUNDISH_INFO_INIT};
    int error = tundish_info(bucket, &out->info);
    if (!error)
        error = read_names(out, name, label);
    if (!error)
        error = read_instances(out, bucket);
    if (error) {
        cli_observed_free(out);
        return error;
    }
    out->processes = tdi_observe_processes(bucket);
    tdi_observe_total(bucket, &out->total);
    return 0;
}

int cli_observed_open(struct cli_observed *out, const char *name, const char *label)
{
    struct tundish *bucket;
    *out = (struct cli_observed){.name = NULL};
    int error = tdi_observe_open(&bucket, name);
    if (error)
        return error;
    error = cli_observed_read(out, bucket, name, label);
    tundish_close(bucket);
    return error;
}

void cli_observed_free(struct cli_observed *observed)
{
    free(observed->name);
    free(observed->path);
    free(observed->instance);
    *observed = (struct cli_observed){.name = NULL};
}

double cli_observed_rate(const struct tundish_info *info)
{
    return info->interval_us ? (double)info->refill * 1e6 / (double)info->interval_us : 0;
}

int cli_directory(char *buf, size_t len)
{
    int error = tundish_path("x", buf, len);
    if (!error)
        *strrchr(buf, '/') = '\0';
    return error;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN);
}

static int take_names(struct cli_names *out, struct dirent **entries, size_t count)
{
    int error = 0;
    out->name = calloc(count + 1, sizeof(*out->name));
    if (!out->name)
        return -ENOMEM;
    for (; !error && out->count < count; out->count++)
        if (!(out->name[out->count] = strdup(entries[out->count]->d_name)))
            error = -ENOMEM;
    if (error)
        cli_names_free(out);
    return error;
}

int cli_names_read(struct cli_names *out, const char *directory)
{
    struct dirent **entries;
    *out = (struct cli_names){.name = NULL};
    int count = scandir(directory, &entries, is_visible, alphasort);
    if (count < 0)
        return errno == ENOENT ? 0 : -errno;
    int error = take_names(out, entries, (size_t)count);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return error;
}

void cli_names_free(struct cli_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct cli_names){.name = NULL};
}

void cli_entry_name(char buf[CLI_ENTRY_NAME], const char *entry)
{
    char *out = buf;
    for (const char *p = entry; *p && out < buf + CLI_ENTRY_NAME - 2; p++) {
        if (*p == '%')
            *out++ = '%';
        *out++ = *p;
    }
    *out = '\0';
}

void cli_entry_path(char buf[CLI_ENTRY_PATH], const char *directory, const char *entry)
{
    char *end = buf;
    for (const char *p = directory; *p && end < buf + 2 * PATH_MAX - 2; p++) {
        if (*p == '%')
            *end++ = '%';
        *end++ = *p;
    }
    *end++ = '/';
    cli_entry_name(end, entry);
}

int cli_observed_add(struct cli_observed_all *all, const char *name, const char *label)
{
    struct cli_observed *grown = reallocarray(all->bucket, all->count + 1, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    all->bucket = grown;
    int error = cli_observed_open(&grown[all->count], name, label);
    if (!error)
        all->count++;
    return error;
}

int cli_observed_open_all(struct cli_observed_all *out, const char *directory,
                          void (*failed)(const char *name, int error, void *context), void *context)
{
    struct cli_names names;
    char name[CLI_ENTRY_PATH];
    *out = (struct cli_observed_all){.bucket = NULL};
    int error = cli_names_read(&names, directory);
    if (error)
        return error;
    for (size_t i = 0; i < names.count; i++) {
        cli_entry_path(name, directory, names.name[i]);
        int problem = cli_observed_add(out, name, names.name[i]);
        if (problem && failed)
            failed(names.name[i], problem, context);
    }
    cli_names_free(&names);
    return 0;
}

void cli_observed_free_all(struct cli_observed_all *all)
{
    for (size_t i = 0; i < all->count; i++)
        cli_observed_free(&all->bucket[i]);
    free(all->bucket);
    *all = (struct cli_observed_all){.bucket = NULL};
}

size_t cli_utf8_length(const char *text)
{
    static const uint32_t least[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
    const unsigned char *byte = (const unsigned char *)text;
    if (byte[0] < 0x80)
        return 1;
    if (byte[0] < 0xc2 || byte[0] > 0xf4)
        return 0;
    size_t length = byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    uint32_t code = byte[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xc0) != 0x80) /* the end of the text too */
            return 0;
        code = code << 6 | (byte[i] & 0x3f);
    }
    bool good = code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return good ? length : 0;
}

/* The character's length, or 0 for one that a terminal might obey. C1 controls are 2 bytes long. */
static size_t harmless_length(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    if (byte[0] < ' ' || byte[0] == 127 || (byte[0] == 0xc2 && byte[1] < 0xa0))
        return 0;
    return cli_utf8_length(text);
}

void cli_escape(char *buf, size_t len, const char *text)
{
    char piece[8];
    size_t used = 0;
    while (*text) {
        size_t length = harmless_length(text);
        if (length == 0)
            snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)*text);
        else
            snprintf(piece, sizeof(piece), "%s%.*s", *text == '\\' ? "\\" : "", (int)length, text);
        if (used + strlen(piece) >= len)
            break;
        memcpy(buf + used, piece, strlen(piece));
        used += strlen(piece);
        text += length ? length : 1;
    }
    buf[used] = '\0';
}
