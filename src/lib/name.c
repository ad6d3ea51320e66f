/* SPDX-License-Identifier: MIT */
/* Names to paths, without allocation or stdio: this also runs before main. */
#include "lib/name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tundish/tundish.h>

#include "plat/file.h"
#include "plat/proc.h"

/* A string being built; once something did not fit, it stays cut and says so. */
struct text {
    char *at;
    size_t left; /* including the terminator */
    bool cut;
};

static void append_bytes(struct text *text, const char *bytes, size_t n)
{
    if (n >= text->left) {
        text->cut = true;
        return;
    }
    memcpy(text->at, bytes, n);
    text->at += n;
    text->left -= n;
    *text->at = '\0';
}

static void append(struct text *text, const char *string)
{
    append_bytes(text, string, strlen(string));
}

static void append_number(struct text *text, uint32_t number)
{
    char digits[10];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + number % 10);
    while (number /= 10);
    append_bytes(text, digits + n, sizeof digits - n);
}

static int append_expanded(struct text *text, const char *name)
{
    for (; *name; name++) {
        if (*name != '%') {
            append_bytes(text, name, 1);
            continue;
        }
        switch (*++name) {
        case 'p':
            append_number(text, tdi_proc_pid());
            break;
        case 'u':
            append_number(text, tdi_proc_uid());
            break;
        case 'n':
            append(text, tdi_proc_program());
            break;
        case '%':
            append(text, "%");
            break;
        default:
            return -EINVAL;
        }
    }
    return text->cut ? -ENAMETOOLONG : 0;
}

int tdi_name_directory(enum tdi_name_care care, char *buf, size_t len)
{
    struct text text = {buf, len, len == 0};
    if (len == 0)
        return -ENAMETOOLONG;
    *buf = '\0';
    const char *chosen = tdi_proc_env("TUNDISH_DIR");
    if (chosen && *chosen) {
        append(&text, chosen);
        return text.cut ? -ENAMETOOLONG : 0;
    }
    const char *runtime = tdi_proc_env("XDG_RUNTIME_DIR");
    if (runtime && *runtime == '/') {
        append(&text, runtime);
        append(&text, "/tundish");
    } else {
        append(&text, "/dev/shm/tundish-");
        append_number(&text, tdi_proc_uid());
    }
    if (text.cut)
        return -ENAMETOOLONG;
    return care == TDI_NAME_ONLY ? 0 : tdi_file_own_directory(buf, care == TDI_NAME_MAKE);
}

int tdi_name_resolve(const char *name, enum tdi_name_care care, char *buf, size_t len)
{
    struct text text = {buf, len, len == 0};
    if (len > 0)
        *buf = '\0';
    if (!name || name[0] == '\0')
        return -EINVAL;
    if (strchr(name, '/'))
        return append_expanded(&text, name);
    if (name[0] == '.')
        return -EINVAL;
    int error = tdi_name_directory(care, buf, len);
    if (error)
        return error;
    size_t used = strlen(buf);
    text = (struct text){buf + used, len - used, false};
    append(&text, "/");
    const char *last = text.at;
    error = append_expanded(&text, name);
    bool stays = *last != '\0' && *last != '.' && !strchr(last, '/'); /* a program's name may be anything */
    return error || stays ? error : -EINVAL;
}

int tundish_path(const char *name, char *buf, size_t len)
{
    return tdi_name_resolve(name, TDI_NAME_ONLY, buf, len);
}
