/* SPDX-License-Identifier: MIT */
/*
 * The environment is made in two passes over the program's, by the same code: the first only counts, the
 * second writes into room of that size. Strings are shared with the program's; only an LD_PRELOAD that
 * changes is written anew.
 *
 * always: TUNDISH_ words that are missing are added, those that are there keep the program's value. But a
 * rule is one thing: if the program brings the TUNDISH_BUCKET or TUNDISH_RATE of one, the rest of ours is not
 * mixed into it. Our LD_PRELOAD entry is appended if it is missing. never: all these words go but
 * TUNDISH_DIR, which programs that use the library themselves need.
 *
 * Where the room lies: up to a few kilobytes on the stack, which may be a small thread's or a signal
 * handler's. Larger ones in a mapping, which goes when the call returns, or with the process when it does
 * not. Only a vfork child that succeeds would leave it to its parent for ever: so such a child uses what
 * there is of its stack first.
 */
#include "heritage.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fd.h"
#include "say.h"
#include "words.h"

#define ON_STACK 2048                 /* a word takes 8 bytes */
#define STACK_RESERVE ((size_t)16384) /* for the real call, whose search along PATH uses the stack as well */

static _Atomic(enum tdi_inherit) how_to;

atomic_bool tdi_heritage_started;

static _Atomic(pid_t) this_process; /* but in a vfork child, who reads its parent's */

/* An environment in the making. */
struct making {
    const char **table; /* NULL while counting */
    char *text;
    size_t words, words_most; /* in the table */
    size_t used, used_most;   /* of the text */
    bool changed;
};

/* Whether the list names this library, and a hook library if we were given one. */
static bool lists_us(const char *list)
{
    bool us = false, hooks = false;
    for (size_t len; (len = tdi_words_next(&list)) > 0; list += len) {
        hooks = hooks || tdi_words_is_hooks(list, len);
        us = us || tdi_words_is_us(list, len);
    }
    return us && (hooks || !tdi_words.hooks);
}

static bool lists_any_of_us(const char *list)
{
    for (size_t len; (len = tdi_words_next(&list)) > 0; list += len)
        if (tdi_words_is_us(list, len) || tdi_words_is_hooks(list, len))
            return true;
    return false;
}

/* 0 for a word that is of no rule, else the rule's number; 31 for all that are too large to be one. */
static unsigned rule_of(const char *word, const char **name)
{
    static const char *const of_no_rule[] = {
        "DIR=", "CONFIG=", "RUN=", "ON_ERROR=", "INHERIT=", "VERBOSE=", "OFF="};
    unsigned number = 0;
    *name = word + strlen(PREFIX);
    for (size_t i = 0; i < sizeof of_no_rule / sizeof *of_no_rule; i++)
        if (tdi_words_start(*name, of_no_rule[i]))
            return 0;
    size_t digits = strspn(*name, "0123456789");
    if (digits == 0 || (*name)[digits] != '_')
        return 1;
    for (size_t i = 0; i < digits && number < 31; i++)
        number = number * 10 + (unsigned)((*name)[i] - '0');
    *name += digits + 1;
    return number < 31 ? number : 31;
}

/* The words that make a rule one. */
static bool makes_a_rule(const char *name)
{
    return tdi_words_start(name, "BUCKET=") || tdi_words_start(name, "RATE=");
}

static void add_word(struct making *making, const char *word)
{
    if (making->table != NULL && making->words < making->words_most)
        making->table[making->words] = word;
    making->words++;
}

static void add_text(struct making *making, const char *from, size_t len)
{
    if (making->text != NULL && len > making->used_most - making->used)
        len = making->used_most - making->used;
    if (making->text != NULL)
        memcpy(making->text + making->used, from, len);
    making->used += len;
}

static void add_string(struct making *making, const char *string)
{
    add_text(making, string, strlen(string));
}

/* The LD_PRELOAD whose text begins at `from`. */
static void add_preload(struct making *making, size_t from)
{
    add_text(making, "", 1);
    if (making->text == NULL)
        add_word(making, PRELOAD);
    else if (from < making->used_most)
        add_word(making, making->text + from);
    making->changed = true;
}

static void append_us(struct making *making, const char *list)
{
    size_t from = making->used;
    add_string(making, PRELOAD);
    add_string(making, list);
    if (*list != '\0')
        add_string(making, ":");
    add_string(making, tdi_words.entry);
    add_preload(making, from);
}

static void remove_us(struct making *making, const char *list)
{
    size_t from = making->used, len;
    bool any = false;
    for (; (len = tdi_words_next(&list)) > 0; list += len) {
        if (tdi_words_is_us(list, len) || tdi_words_is_hooks(list, len))
            continue;
        add_string(making, any ? ":" : PRELOAD);
        add_text(making, list, len);
        any = true;
    }
    making->changed = true;
    if (any)
        add_preload(making, from);
}

static void make_without(struct making *making, char *const *envp)
{
    for (; envp != NULL && *envp != NULL; envp++) {
        const char *word = *envp;
        if (tdi_words_start(word, PREFIX) && !tdi_words_start(word, DIRECTORY))
            making->changed = true;
        else if (tdi_words_start(word, PRELOAD) && lists_any_of_us(word + strlen(PRELOAD)))
            remove_us(making, word + strlen(PRELOAD));
        else
            add_word(making, word);
    }
}

/* What a program's environment has of tdi_words. */
struct found {
    bool word[TDI_WORDS];
    uint32_t own_rules; /* bits: the program brings a rule of that number itself */
    bool preload;
    bool runtime; /* any XDG_RUNTIME_DIR */
    bool same_runtime;
};

static void look_at(struct found *found, const char *word)
{
    const char *name;
    if (tdi_words_start(word, RUNTIME)) {
        found->runtime = true;
        found->same_runtime = tdi_words.runtime != NULL && strcmp(word, tdi_words.runtime) == 0;
    }
    if (!tdi_words_start(word, PREFIX))
        return;
    unsigned rule = rule_of(word, &name);
    if (makes_a_rule(name))
        found->own_rules |= UINT32_C(1) << rule;
    for (uint32_t i = 0; i < tdi_words.words; i++)
        if (tdi_words_same(word, tdi_words.word[i]))
            found->word[i] = true;
}

static bool is_missing(const struct found *found, uint32_t i)
{
    const char *name;
    if (found->word[i])
        return false;
    if (i == tdi_words.directory) /* the same default is found without being told */
        return tdi_words.runtime != NULL ? !found->same_runtime : found->runtime;
    unsigned rule = rule_of(tdi_words.word[i], &name);
    return rule == 0 || (found->own_rules & UINT32_C(1) << rule) == 0;
}

static void make_complete(struct making *making, char *const *envp)
{
    struct found found = {.preload = false};
    for (; envp != NULL && *envp != NULL; envp++) {
        const char *word = *envp;
        look_at(&found, word);
        bool preload = tdi_words_start(word, PRELOAD);
        if (preload && tdi_words.entry != NULL && !lists_us(word + strlen(PRELOAD)))
            append_us(making, word + strlen(PRELOAD));
        else
            add_word(making, word);
        found.preload = found.preload || preload;
    }
    if (!found.preload && tdi_words.entry != NULL)
        append_us(making, "");
    for (uint32_t i = 0; i < tdi_words.words; i++) {
        if (!is_missing(&found, i))
            continue;
        add_word(making, tdi_words.word[i]);
        making->changed = true;
    }
}

static void make(struct making *making, enum tdi_inherit how, char *const *envp)
{
    if (how == TDI_INHERIT_NEVER)
        make_without(making, envp);
    else
        make_complete(making, envp);
}

static size_t room_for(const struct making *counted)
{
    return (counted->words + 1) * sizeof(char *) + counted->used;
}

/* Another thread may have changed the program's words meanwhile: what does not fit any more stays out. */
static char *const *make_in(void *room, const struct making *counted, enum tdi_inherit how, char *const *envp)
{
    struct making making = {.table = room,
                            .text = (char *)room + (counted->words + 1) * sizeof(char *),
                            .words_most = counted->words,
                            .used_most = counted->used};
    make(&making, how, envp);
    making.table[making.words < counted->words ? making.words : counted->words] = NULL;
    if (counted->used > 0)
        making.text[counted->used - 1] = '\0';
    return room;
}

static bool shares_its_parents_memory(void)
{
    return getpid() != atomic_load_explicit(&this_process, memory_order_relaxed);
}

/* Whether so much more of the stack is there. A thread's ends in a page that cannot be read. */
static bool has_stack(size_t size)
{
    stack_t signals;
    size_t depth = size + STACK_RESERVE;
    if (sigaltstack(NULL, &signals) != 0 || (signals.ss_flags & SS_ONSTACK) != 0)
        return false; /* there is no such page */
    return tdi_fd_readable((const char *)__builtin_frame_address(0) - depth, depth);
}

static int in_mapping(const struct making *counted, enum tdi_inherit how, char *const *envp,
                      tdi_heritage_fn *go, const void *arguments)
{
    size_t size = room_for(counted);
    void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return go(arguments, envp);
    int result = go(arguments, make_in(room, counted, how, envp));
    int saved_errno = errno;
    munmap(room, size);
    errno = saved_errno;
    return result;
}

int tdi_heritage_hand_on(char *const *envp, tdi_heritage_fn *go, const void *arguments)
{
    atomic_store_explicit(&tdi_heritage_started, true, memory_order_relaxed); /* also by a vfork child */
    /* Pairs with the release in tdi_heritage_note: the words must be there before anybody looks for them. */
    enum tdi_inherit how = atomic_load_explicit(&how_to, memory_order_acquire);
    if (how == TDI_INHERIT_ENV || (envp != NULL && !tdi_fd_readable(envp, sizeof *envp)))
        return go(arguments, envp);
    int saved_errno = errno;
    struct making counted = {.table = NULL};
    make(&counted, how, envp);
    if (!counted.changed)
        return go(arguments, envp);
    size_t size = room_for(&counted);
    bool on_stack = size <= ON_STACK || (shares_its_parents_memory() && has_stack(size));
    errno = saved_errno;
    if (!on_stack)
        return in_mapping(&counted, how, envp, go, arguments);
    return go(arguments, make_in(alloca(size), &counted, how, envp));
}

static void after_fork_in_child(void)
{
    atomic_store_explicit(&this_process, getpid(), memory_order_relaxed);
}

void tdi_heritage_note(enum tdi_inherit how, char *const *environ_words)
{
    Dl_info here = {.dli_fname = NULL};
    if (how == TDI_INHERIT_ENV)
        return;
    if (dladdr(&tdi_words, &here) == 0 || here.dli_fname == NULL)
        return;
    tdi_words.file = tdi_policy_program(here.dli_fname);
    if (how == TDI_INHERIT_ALWAYS && !tdi_words_keep(environ_words)) {
        tdi_say_line("TUNDISH_INHERIT=always: ", "the TUNDISH_ words and LD_PRELOAD are too long",
                     ": programs that are given another environment are not limited");
        return;
    }
    /* Brought in another way, by ld.so's command line, say. */
    if (tdi_words.entry == NULL && here.dli_fname[0] == '/' && strpbrk(here.dli_fname, " :") == NULL)
        tdi_words.entry = here.dli_fname;
    after_fork_in_child();
    (void)pthread_atfork(NULL, NULL, after_fork_in_child);
    atomic_store_explicit(&how_to, how, memory_order_release); /* pairs with tdi_heritage_hand_on */
}
