/* SPDX-License-Identifier: MIT */
#include "abi.h"

#include <stdarg.h>

int64_t abi_ten(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g, uint64_t h,
                int64_t i, const char *j)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * (int64_t)f + 7 * g + 8 * (int64_t)h + 9 * i + 10 * *j;
}

double abi_mixed(double a, int b, double c, float d, double e, int64_t f, double g, double h, double i, int j,
                 double k, double l)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * (double)f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k +
           12 * l;
}

struct abi_pair abi_pair(int factor, struct abi_pair pair)
{
    return (struct abi_pair){factor * pair.i, factor * pair.d};
}

struct abi_large abi_large(struct abi_large large, long double factor, int by)
{
    struct abi_large turned;
    for (int i = 0; i < 5; i++)
        turned.words[i] = large.words[(i + by) % 5] * (int64_t)factor;
    return turned;
}

struct abi_floats abi_floats(struct abi_floats floats)
{
    return (struct abi_floats){floats.y, floats.x};
}

int abi_sum(int count, ...)
{
    va_list list;
    va_start(list, count);
    int sum = va_arg(list, int);
    sum += (int)va_arg(list, double);
    sum += *va_arg(list, int *);
    va_end(list);
    return count * sum;
}

signed char abi_small(int n)
{
    return (signed char)-n;
}

bool abi_odd(int n)
{
    return n % 2 != 0;
}

long double abi_long(long double value)
{
    return value / 3;
}

void abi_call(void (*callback)(void *), void *argument)
{
    callback(argument);
}
