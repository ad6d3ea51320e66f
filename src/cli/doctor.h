/* SPDX-License-Identifier: MIT */
/*
 * `tundish doctor`: what the preload library can reach of a program, told before it is relied on.
 *
 * The program and its libraries become a list of objects: found as the dynamic linker would find them, or
 * taken from what a process has mapped. Each is examined once, for the names it imports and the ways it has
 * around them. Findings are printed as they are made, one a line; the verdict is the worst of them.
 */
#ifndef TUNDISH_CLI_DOCTOR_H
#define TUNDISH_CLI_DOCTOR_H

#include <sys/types.h>

#include "cli/cli.h"
#include "cli/elf.h"

enum {
    DOCTOR_NOT_AT_ALL = 3, /* exit status */
    DOCTOR_PARTLY = 4,
    DOCTOR_PATH = 4096,
    DOCTOR_LINE = 8192,
};

/* What names are to us. */
enum doctor_name {
    DOCTOR_NAME_NONE,
    DOCTOR_NAME_LIMITED,  /* wrapped, and takes tokens */
    DOCTOR_NAME_ATTENDED, /* wrapped, to keep the books or to say when a descriptor is ready */
    DOCTOR_NAME_HOOKABLE, /* worth a [hook] */
    DOCTOR_NAMES,
};

/* What an object can do beside or around the wrapped names. */
enum doctor_trait {
    DOCTOR_TRAIT_STDIO,
    DOCTOR_TRAIT_FDOPEN,
    DOCTOR_TRAIT_DNS,
    DOCTOR_TRAIT_SYSLOG,
    DOCTOR_TRAIT_AIO,
    DOCTOR_TRAIT_DLOPEN,
    DOCTOR_TRAIT_DEEPBIND,
    DOCTOR_TRAIT_DLMOPEN,
    DOCTOR_TRAIT_SYSCALL,
    DOCTOR_TRAIT_RAW_WRITE,
    DOCTOR_TRAIT_IO_URING,
    DOCTOR_TRAIT_GO,
    DOCTOR_TRAIT_SYMBOLIC,
    DOCTOR_TRAIT_OWN_NAME,
    DOCTOR_TRAITS,
};

struct doctor_object {
    char *name;   /* for the reader */
    char *path;   /* to be opened */
    char *soname; /* these three may be NULL */
    char *rpath;
    char *runpath;
    bool no_default; /* DF_1_NODEFLIB */
    size_t parent;   /* who needs it first; the program is its own */
    char **needed;
    size_t needed_count;
    char *names[DOCTOR_NAMES]; /* what it imports, with a space before each; NULL if nothing */
    unsigned traits;           /* a bit for each */
};

struct doctor {
    int status;                    /* the worst so far */
    unsigned gaps;                 /* how many are behind the status */
    char reason[DOCTOR_LINE];      /* the first of them */
    struct doctor_object *objects; /* the program is the first */
    size_t object_count;
    bool blind;        /* some objects could not be examined */
    char *interpreter; /* of the program */
    char *cache;       /* /etc/ld.so.cache, once needed */
    size_t cache_len;
};

/* doctor_say.c */

/* One finding: a label, and what it is about. Works on, whatever it is. */
void doctor_say(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same as a reason for the limit to hold partly, or not at all. */
void doctor_gap(struct doctor *doctor, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_obstacle(struct doctor *doctor, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The last line. Returns the exit status. */
int doctor_verdict(const struct doctor *doctor);

/* doctor_names.c */

/* What a name is to us. */
enum doctor_name doctor_name(const char *name);

/* Whether this version wraps it. Made from preload.map. */
bool doctor_is_wrapped(const char *name);
extern const char *const doctor_wrapped_names[];
extern const size_t doctor_wrapped_count;

/* The trait that importing a name gives; DOCTOR_TRAITS if none. */
enum doctor_trait doctor_trait(const char *name);

/* doctor_reach.c: what keeps a preloaded library out of a program. `run` warns of the same. */

/* Of its owner and its permissions: "is set-user-ID"; NULL if nothing does. */
const char *doctor_privilege(const char *path);

/* Of what it is made for and how it is linked. */
const char *doctor_format(const struct elf *elf);

/*
 * Says what of these is so, and of its dynamic linker. Whether the library can get into it. Without a path it
 * is about a process, whose privileges and files are not those of a program started here.
 */
bool doctor_reach(struct doctor *doctor, const struct elf *elf, const char *path);

/* doctor_script.c */

/*
 * Follows #! lines to a program that is none: `path` becomes its. CLI_OK, CLI_NOT_FOUND or CLI_NOT_EXECUTABLE
 * with a line said.
 */
int doctor_script(char path[DOCTOR_PATH]);

/* doctor_search.c */

/* Finds a library that an object needs. */
bool doctor_search(struct doctor *doctor, size_t wanting, const char *name, char path[DOCTOR_PATH]);

/* Whether a file is a library for processes like this one. */
bool doctor_is_library(const char *path);

/* doctor_cache.c */

/* Finds a library in the cache of ldconfig(8). */
bool doctor_cache_find(struct doctor *doctor, const char *name, char path[DOCTOR_PATH]);
void doctor_cache_load(struct doctor *doctor);

/* doctor_objects.c */

/* What stands behind the last slash. */
const char *doctor_base(const char *path);

/* Appends an object. The index of it, or of the one with this path that is there. */
size_t doctor_object_add(struct doctor *doctor, const char *name, const char *path, size_t parent);

/* Examines all objects and, if `follow`, appends what they need. */
void doctor_objects_examine(struct doctor *doctor, bool follow);
void doctor_objects_free(struct doctor *doctor);

/* doctor_examine.c */

/* Fills the object with what its file tells. A negative errno, as those of elf.h. */
int doctor_examine(struct doctor_object *object, bool is_program);

/* doctor_report.c */

/* Says what the objects import and which ways around they have. */
void doctor_report(struct doctor *doctor);

/* doctor_process.c */

/* All about a running process. Returns the exit status. */
int doctor_process(struct doctor *doctor, pid_t pid);

#endif
