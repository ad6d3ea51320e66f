/* SPDX-License-Identifier: MIT */
/*
 * The file into sections. libinih takes keys, values, comments and blanks apart, but cuts a section's name at
 * 49 bytes and a line where its buffer ends, tells nobody of a section without values, and says no line. So
 * it is fed through a reader that counts lines, refuses what would be cut and keeps the headings for itself.
 * Indentation means nothing: a value is one line.
 */
#include <ini.h>
#include <string.h>

#include "policy/conf_draft.h"
#include "policy/env.h"
#include "policy/value.h"

#define FILE_MOST ((size_t)1024 * 1024)
#define BLANKS " \t\r\v\f"
#define HEADINGS "[bucket \"NAME\"], [rule \"NAME\"] or [hook \"FUNCTION\"]"

struct reader {
    struct tdi_conf_draft *draft;
    FILE *file;
    unsigned line;
    size_t bytes;                     /* of the file so far */
    bool pending;                     /* the last line says something, and nothing has come of it yet */
    bool mute;                        /* what stands here belongs to nothing, which was complained about */
    struct tdi_conf_section *section; /* NULL: none, or none that counts */
    char text[TDI_CONF_LINE + 1];
};

/* Files: bytes into lines. */

static int get_byte(struct reader *r)
{
    if (r->bytes == FILE_MOST)
        return EOF;
    r->bytes++;
    return getc(r->file);
}

/* A line without its end; false at the file's end. What has no room counts in *len but is not kept. */
static bool get_line(struct reader *r, size_t *len, bool *has_nul)
{
    int c;
    *len = 0;
    *has_nul = false;
    while ((c = get_byte(r)) != EOF && c != '\n') {
        if (*len < TDI_CONF_LINE)
            r->text[*len] = (char)c;
        *has_nul = *has_nul || c == '\0';
        ++*len;
    }
    r->text[*len < TDI_CONF_LINE ? *len : TDI_CONF_LINE] = '\0';
    return c != EOF || *len > 0;
}

/* What a line would have said is not missed: a value of its section, or as a heading all up to the next. */
static void give_up_line(struct reader *r)
{
    if (r->text[strspn(r->text, BLANKS)] == '[') {
        r->section = NULL;
        r->mute = r->draft->lost_hook = true;
    }
    if (r->section != NULL)
        r->section->unread = true;
}

/* The next line that can be read; false at the end. */
static bool next_line(struct reader *r)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors begin a file with a byte order mark */
    size_t len;
    bool has_nul;
    while (get_line(r, &len, &has_nul)) {
        r->line++;
        if (r->line == 1 && strncmp(r->text, mark, sizeof mark - 1) == 0)
            memset(r->text, ' ', sizeof mark - 1);
        if (len < TDI_CONF_LINE && !has_nul)
            return true;
        tdi_conf_say(r->draft, r->line,
                     has_nul ? "a NUL byte: this is no text file" : "a line is at most 4095 bytes long");
        give_up_line(r);
    }
    return false;
}

/* Headings. */

/* Moves behind the len bytes, and the blanks behind them. */
static const char *skip(const char *at, size_t len)
{
    at += len;
    return at + strspn(at, BLANKS);
}

static bool find_kind(const char *word, size_t len, enum tdi_conf_kind *kind)
{
    for (unsigned i = 0; i < TDI_CONF_KINDS; i++)
        if (tdi_item_is(word, len, tdi_conf_kinds[i])) {
            *kind = (enum tdi_conf_kind)i;
            return true;
        }
    return false;
}

static bool complain_of_quotes(struct reader *r, const char *kind, const char *at)
{
    const int len = (int)strcspn(at, "]\"" BLANKS);
    tdi_conf_say(r->draft, r->line, "a section has its name in quotes: [%s \"%.*s\"]", kind,
                 len > 0 ? len : 4, len > 0 ? at : "NAME");
    return false;
}

/* The parts of a heading: its kind, and its name, which points into the line. */
static bool take_apart(struct reader *r, const char *at, enum tdi_conf_kind *kind, const char **name,
                       size_t *len)
{
    at = skip(at, 1);
    const size_t word = strcspn(at, "\"]" BLANKS);
    if (!find_kind(at, word, kind)) {
        tdi_conf_say(r->draft, r->line, "no section is called '%.*s': there are " HEADINGS,
                     (int)(word < 80 ? word : 80), at);
        return false;
    }
    at = skip(at, word);
    *name = at + 1;
    *len = *at == '"' ? strcspn(at + 1, "\"") : 0;
    if (*at != '"' || (*name)[*len] != '"')
        return complain_of_quotes(r, tdi_conf_kinds[*kind], at + (*at == '"'));
    at = skip(*name, *len + 1);
    if (*at != ']') {
        tdi_conf_say(r->draft, r->line, "a section's name is followed by ], as in [%s \"%.*s\"]",
                     tdi_conf_kinds[*kind], (int)*len, *name);
        return false;
    }
    at = skip(at, 1);
    if (*at != '\0' && *at != ';' && *at != '#')
        tdi_conf_say(r->draft, r->line, "nothing but a comment stands behind a section's name");
    return true;
}

/* NULL, or what is wrong with a section's name. */
static const char *fault_of_name(enum tdi_conf_kind kind, const char *name, size_t len)
{
    const char *why = NULL;
    if (len == 0)
        return "the name is empty";
    if (len >= TDI_CONF_NAME)
        return "the name is longer than 255 bytes";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127)
            return "the name holds a control character";
    if (name[0] == ' ' || name[len - 1] == ' ')
        return "the name begins or ends with a blank";
    if (kind != TDI_CONF_BUCKET)
        return NULL;
    if (memchr(name, ',', len) != NULL)
        return "the name holds a comma, which parts the names in a rule";
    (void)tdi_value_bucket(name, len, &why);
    return why;
}

static struct tdi_conf_section *add_section(struct reader *r, enum tdi_conf_kind kind, const char *name,
                                            size_t len)
{
    const char *fault = fault_of_name(kind, name, len);
    if (fault != NULL) {
        tdi_conf_say(r->draft, r->line, "[%s \"%.*s\"]: %s", tdi_conf_kinds[kind], (int)(len < 80 ? len : 80),
                     name, fault);
        return NULL;
    }
    const struct tdi_conf_section *first = tdi_conf_find(r->draft, kind, name, len);
    if (first != NULL) {
        tdi_conf_say(r->draft, r->line, "[%s \"%s\"] stands in line %u already", tdi_conf_kinds[kind],
                     first->name, first->line);
        return NULL;
    }
    name = tdi_conf_note(r->draft, r->line, name, len);
    return name != NULL ? tdi_conf_add(r->draft, kind, r->line, name) : NULL;
}

static struct tdi_conf_section *begin_section(struct reader *r, const char *heading)
{
    enum tdi_conf_kind kind = TDI_CONF_HOOK; /* stays if the word is none */
    const char *name;
    size_t len;
    const bool sound = take_apart(r, heading, &kind, &name, &len);
    struct tdi_conf_section *section = sound ? add_section(r, kind, name, len) : NULL;
    r->draft->lost_hook |= section == NULL && kind == TDI_CONF_HOOK;
    return section;
}

/* Values. */

#define KEY_MOST 24

/* How many letters must be changed, left out or put in to make one word of the other. */
static unsigned distance(const char *from, const char *to)
{
    unsigned row[KEY_MOST + 1];
    const size_t len = strlen(to);
    for (unsigned k = 0; k <= len; k++)
        row[k] = k;
    for (; *from != '\0'; from++) {
        unsigned corner = row[0]++;
        for (size_t k = 1; k <= len; k++) {
            unsigned best = corner + (*from != to[k - 1]);
            corner = row[k];
            best = best < row[k] + 1 ? best : row[k] + 1;
            row[k] = best < row[k - 1] + 1 ? best : row[k - 1] + 1;
        }
    }
    return row[len];
}

/* The key that was probably meant, or NULL. */
static const char *nearest_key(enum tdi_conf_kind kind, const char *word)
{
    const char *nearest = NULL;
    unsigned least = 3;
    for (unsigned i = 0; i < TDI_KEYS; i++) {
        if (!tdi_conf_takes(kind, (enum tdi_conf_key)i))
            continue;
        unsigned far = distance(word, tdi_conf_keys[i]);
        if (far < least && 2 * far < strlen(tdi_conf_keys[i]) + 1) {
            least = far;
            nearest = tdi_conf_keys[i];
        }
    }
    return nearest;
}

static void list_keys(enum tdi_conf_kind kind, char *buf, size_t len)
{
    struct tdi_text list;
    const char *before = "";
    tdi_text_start(&list, buf, len);
    for (unsigned i = 0; i < TDI_KEYS; i++)
        if (tdi_conf_takes(kind, (enum tdi_conf_key)i)) {
            tdi_text_add(&list, before);
            tdi_text_add(&list, tdi_conf_keys[i]);
            before = ", ";
        }
}

/* TDI_KEYS if it is no key of this section. */
static enum tdi_conf_key find_key(enum tdi_conf_kind kind, const char *word)
{
    unsigned i = 0;
    while (i < TDI_KEYS &&
           (strcmp(word, tdi_conf_keys[i]) != 0 || !tdi_conf_takes(kind, (enum tdi_conf_key)i)))
        i++;
    return (enum tdi_conf_key)i;
}

/* A kind of section that has this key, or NULL. */
static const char *find_taker(const char *word)
{
    for (unsigned kind = 0; kind < TDI_CONF_KINDS; kind++)
        if (find_key((enum tdi_conf_kind)kind, word) != TDI_KEYS)
            return tdi_conf_kinds[kind];
    return NULL;
}

static void complain_of_key(const struct reader *r, const char *word)
{
    const enum tdi_conf_kind kind = r->section->kind;
    const char *nearest = nearest_key(kind, word), *taker = find_taker(word);
    char keys[256];
    list_keys(kind, keys, sizeof keys);
    if (taker != NULL)
        tdi_conf_say(r->draft, r->line, "a [%s] section has no key %s, but a [%s] section has one",
                     tdi_conf_kinds[kind], word, taker);
    else if (nearest != NULL)
        tdi_conf_say(r->draft, r->line, "a [%s] section has no key %.80s; probably %s is meant",
                     tdi_conf_kinds[kind], word, nearest);
    else
        tdi_conf_say(r->draft, r->line, "a [%s] section has no key %.80s; it has %s", tdi_conf_kinds[kind],
                     word, keys);
}

static void take_value(struct reader *r, const char *word, const char *text)
{
    const enum tdi_conf_key key = find_key(r->section->kind, word);
    if (key == TDI_KEYS) {
        complain_of_key(r, word);
        return;
    }
    struct tdi_conf_value *value = &r->section->value[key];
    if (value->line != 0) {
        tdi_conf_say(r->draft, r->line, "%s stands in line %u already", word, value->line);
        return;
    }
    value->line = r->line;
    if (*text == '\0')
        tdi_conf_say(r->draft, r->line, "%s has no value; leave the line out if none is wanted", word);
    else if (*text == '"')
        tdi_conf_say(r->draft, r->line, "%s = %.80s: a value stands without quotes", word, text);
    else
        value->text = tdi_conf_note(r->draft, r->line, text, strlen(text));
}

/* libinih's handler of a key and its value; it tells us nothing of where they stand, but the reader knows. */
static int handle(void *context, const char *section, const char *word, const char *text)
{
    struct reader *r = context;
    (void)section;
    if (*word == '\0')
        return 1; /* stays pending: no key */
    r->pending = false;
    if (r->section != NULL) {
        take_value(r, word, text);
    } else if (!r->mute) {
        tdi_conf_say(r->draft, r->line, "stands in no section: first comes " HEADINGS);
        r->mute = true;
    }
    return 1;
}

/* Complains of the last line if the handler made nothing of it. */
static void settle(struct reader *r)
{
    if (r->pending && (r->section != NULL || !r->mute))
        tdi_conf_say(
            r->draft, r->line,
            "is neither [SECTION \"NAME\"] nor KEY = VALUE; a value is one line, and no line goes on "
            "in the next");
    r->pending = false;
}

/* libinih's source of lines, which are all for it but the headings. */
static char *feed(char *out, int room, void *context)
{
    struct reader *r = context;
    settle(r);
    while (next_line(r)) {
        const char *text = skip(r->text, 0);
        const size_t len = strlen(text);
        if (*text == '[') {
            r->section = begin_section(r, text);
            r->mute = r->section == NULL;
        } else if (len + 2 > (size_t)room) {
            tdi_conf_say(r->draft, r->line, "is longer than this libinih can read: %d bytes", room - 2);
            give_up_line(r);
        } else {
            r->pending = *text != '\0' && *text != ';' && *text != '#';
            memcpy(out, text, len);
            memcpy(out + len, "\n", 2);
            return out;
        }
    }
    return NULL;
}

void tdi_conf_read_sections(struct tdi_conf_draft *draft, FILE *file)
{
    struct reader reader = {.draft = draft, .file = file};
    ini_use_stack = false; /* its stack has room for 200 bytes */
    ini_allow_realloc = false;
    ini_max_line = ini_initial_alloc = TDI_CONF_LINE + 2;
    ini_allow_multiline = false;
    ini_allow_no_value = false;
    ini_stop_on_first_error = false;
    int result = ini_parse_stream(feed, &reader, handle, &reader);
    settle(&reader);
    if (result == -2)
        tdi_conf_say(draft, 0, "no memory to read it");
    else if (ferror(file))
        tdi_conf_say(draft, reader.line, "cannot be read on from here");
    else if (reader.bytes == FILE_MOST && getc(file) != EOF)
        tdi_conf_say(draft, reader.line, "a file is at most 1 MiB long");
}
