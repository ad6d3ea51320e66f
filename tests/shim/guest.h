/* SPDX-License-Identifier: MIT */
/*
 * Cases that run inside a limited process. A program of cases is started without the library; for each case
 * it starts itself again with LD_PRELOAD (KIT_PRELOAD_LIB) and the case's own TUNDISH_ words, and reports
 * what the exit status says. With names as arguments it runs only these.
 */
#ifndef TUNDISH_TESTS_SHIM_GUEST_H
#define TUNDISH_TESTS_SHIM_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "tundish/tundish.h"

struct guest_case {
    const char *name;           /* a sentence */
    const char *environment[6]; /* NAME=VALUE up to a NULL */
    void (*run)(void);
};

#define GUEST_CASE(function, ...)                                                                            \
    {                                                                                                        \
#function, {__VA_ARGS__ }, function                                                                  \
    }

/* main() of a program of cases, an array that ends with a case without a name. */
int guest_main(int argc, char **argv, const struct guest_case *cases);

/* Ends the case as failed unless the condition holds. */
#define EXPECT(condition, ...)                                                                               \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            guest_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                         \
    } while (0)

_Noreturn void guest_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Ends the case as one that this machine cannot run. */
_Noreturn void guest_skip(const char *why);

/* The buckets "slow" and "other", made anew for each case: GUEST_SLOW_CAPACITY tokens, one more a day. */
#define GUEST_SLOW_CAPACITY 1000
#define GUEST_SLOW "TUNDISH_BUCKET=slow"
uint32_t guest_charged(void); /* to "slow" */
uint32_t guest_charged_of(const char *name);

/* Milliseconds on the steady clock. */
uint64_t guest_ms(void);
void guest_sleep_ms(uint64_t ms);

/* A thread that reads and drops all that comes from fd until its end; it closes fd and takes no signals. */
void guest_drain(int fd);

/* A connected TCP pair whose peer is drained; returns our end. */
int guest_upload(void);

/* Our end of a TCP pair, to which another process sends n bytes of zero and ends. */
int guest_download(size_t n);

#endif
