/* SPDX-License-Identifier: MIT */
/* Functions of all the ways in which a C compiler passes arguments and results. */
#ifndef ABI_H
#define ABI_H

#include <stdbool.h>
#include <stdint.h>

struct abi_pair {
    int i;
    double d;
};

struct abi_large {
    int64_t words[5];
};

struct abi_floats {
    float x, y;
};

/* The n-th argument is worth n times its value. */
int64_t abi_ten(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g, uint64_t h,
                int64_t i, const char *j);
double abi_mixed(double a, int b, double c, float d, double e, int64_t f, double g, double h, double i, int j,
                 double k, double l);
struct abi_pair abi_pair(int factor, struct abi_pair pair);
struct abi_large abi_large(struct abi_large large, long double factor, int by);
struct abi_floats abi_floats(struct abi_floats floats);
int abi_sum(int count, ...);
signed char abi_small(int n);
bool abi_odd(int n);
long double abi_long(long double value);
void abi_call(void (*callback)(void *), void *argument);

#endif
