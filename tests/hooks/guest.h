/* SPDX-License-Identifier: MIT */
/*
 * What the guests share: the functions of libhooks_guest.so, which are hooked in all the tests, and the
 * cases of the program that calls them. Every function is called from another object than its own, but for
 * those that say otherwise, so that a hook counts each call.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct guest_pair {
    int i;
    double d;
};

struct guest_large {
    int64_t words[5];
};

struct guest_floats {
    float x, y;
};

struct guest_small {
    char c;
    short s;
};

struct guest_nested {
    struct guest_floats floats;
    int64_t i;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Costs: each returns what was asked for, and guest_take as much as it is told. */
size_t guest_send(const void *data, size_t len);
long guest_take(long result);
size_t guest_puts(const char *text);
long guest_writev(const struct iovec *iov, int count);
size_t guest_fwrite(const void *data, size_t size, size_t count);
int guest_count(int n);

/* rmdir, and writev to standard output: whether their pointers lead to anything, the kernel says. */
int guest_remove(const char *path);
long guest_write(const struct iovec *iov, int count);

/* Arguments: the n-th one is worth n times its value, so that any two in each other's place are noticed. */
int64_t guest_ten(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f, long g,
                  unsigned long h, long long i, const char *j);
double guest_doubles(double a, int b, double c, long d, float e, short f, double g, int h, double i,
                     int64_t j, double k, int l, double m, int n, double o, int p, double q, int r, double s,
                     int t);
struct guest_pair guest_swap_pair(int factor, struct guest_pair pair);
struct guest_large guest_turn_large(struct guest_large large, long double factor, int by);
struct guest_floats guest_swap_floats(struct guest_floats floats);
struct guest_small guest_swap_small(struct guest_small small);
struct guest_nested guest_turn_nested(struct guest_nested nested, double more);
long double guest_long_double(long double value, int power);
__attribute__((format(printf, 1, 2))) int guest_printf(const char *format, ...);

/* Results that do not fill a register, and none at all. */
bool guest_bool(int value);
unsigned char guest_uchar(int value);
signed char guest_schar(int value);
short guest_short(int value);
unsigned short guest_ushort(int value);
int guest_int(int value);
float guest_float(int value);
void *guest_pointer(int value);
void guest_nothing(int *value);
unsigned guest_alignment(void); /* of the stack: 0 as the processor's ABI has it */

/* errno: the one it finds; and the one it leaves, which is EDOM. */
int guest_errno_found(void);
int guest_errno_left(void);

/* Calls `inner` of its own library, as an exported function, which is not the program's call. */
int guest_outer(int value);
int guest_inner(int value);

/* Calls back, and adds 1. */
int guest_call(int (*function)(void *), void *argument);
/* The same without anything on its stack, which a longjmp would not undo. */
int guest_call_plainly(int (*function)(void *), void *argument);
/* How many calls of guest_call were left, by an exception or otherwise, so that what it had on its stack was undone. */
int guest_calls_undone(void);

#ifdef __cplusplus
}

/* Cases of the program: each prints what it sees. */
void exits_by_exception(void);
void exits_by_longjmp(void);
void exits_by_pthread_exit(void);
void exits_by_cancellation(void);
void exits_by_exit(void);
void calls_by_threads(void);
void calls_in_children(void);
void calls_in_handlers(void);
void calls_by_recursion(void);
void calls_on_a_small_stack(void);
void calls_in_a_vfork_child(void);
void calls_of_a_daemon(void);
void loads_by_dlsym(void);
void loads_two_of_one_name(void);
void loads_again_and_again(void);
void loads_a_constructor(void);
void loads_by_all_ways(void);
void loads_unknown_names(void);
#endif

#endif
