// SPDX-License-Identifier: MIT
// A library whose functions are hooked: every kind of argument and result, and a frame that must be unwound.
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "guest.h"

// As a hooked library would be built by others: calls of its own exported functions can be interposed.
#define EXPORTED extern "C" __attribute__((visibility("default"), noinline))

namespace
{
std::atomic<int> undone;

struct Undone {
    ~Undone()
    {
        undone++;
    }
};
} // namespace

EXPORTED size_t guest_send(const void *, size_t len)
{
    return len;
}

EXPORTED long guest_take(long result)
{
    return result;
}

EXPORTED size_t guest_puts(const char *text)
{
    return text ? std::strlen(text) : 0;
}

EXPORTED long guest_writev(const struct iovec *iov, int count)
{
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += static_cast<long>(iov[i].iov_len);
    return sum;
}

EXPORTED size_t guest_fwrite(const void *, size_t, size_t count)
{
    return count;
}

EXPORTED int guest_count(int n)
{
    return n;
}

EXPORTED int guest_remove(const char *path)
{
    return rmdir(path);
}

EXPORTED long guest_write(const struct iovec *iov, int count)
{
    return writev(STDOUT_FILENO, iov, count);
}

EXPORTED int64_t guest_ten(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f,
                           long g, unsigned long h, long long i, const char *j)
{
    return a + 2 * b + 3 * c + 4 * d + 5LL * e + 6LL * f + 7 * g + 8 * static_cast<int64_t>(h) + 9 * i +
           10 * j[0];
}

EXPORTED double guest_doubles(double a, int b, double c, long d, float e, short f, double g, int h, double i,
                              int64_t j, double k, int l, double m, int n, double o, int p, double q, int r,
                              double s, int t)
{
    double doubles =
        a + 2 * c + 3 * static_cast<double>(e) + 4 * g + 5 * i + 6 * k + 7 * m + 8 * o + 9 * q + 10 * s;
    int64_t integers = b + 2 * d + 3 * f + 4 * h + 5 * j + 6 * l + 7 * n + 8 * p + 9 * r + 10 * t;
    return doubles + 1000 * static_cast<double>(integers);
}

EXPORTED struct guest_pair guest_swap_pair(int factor, struct guest_pair pair)
{
    return {factor * static_cast<int>(pair.d), factor * static_cast<double>(pair.i)};
}

EXPORTED struct guest_large guest_turn_large(struct guest_large large, long double factor, int by)
{
    struct guest_large result;
    for (int i = 0; i < 5; i++)
        result.words[i] = static_cast<int64_t>(factor * static_cast<long double>(large.words[(i + by) % 5]));
    return result;
}

EXPORTED struct guest_floats guest_swap_floats(struct guest_floats floats)
{
    return {floats.y, floats.x};
}

EXPORTED struct guest_small guest_swap_small(struct guest_small small)
{
    return {static_cast<char>(small.s), small.c};
}

EXPORTED struct guest_nested guest_turn_nested(struct guest_nested nested, double more)
{
    return {{nested.floats.y, nested.floats.x + static_cast<float>(more)}, -nested.i};
}

EXPORTED long double guest_long_double(long double value, int power)
{
    return std::ldexp(value, power);
}

EXPORTED int guest_printf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = std::vprintf(format, arguments);
    va_end(arguments);
    return result;
}

EXPORTED bool guest_bool(int value)
{
    return value != 0;
}

EXPORTED unsigned char guest_uchar(int value)
{
    return static_cast<unsigned char>(value);
}

EXPORTED signed char guest_schar(int value)
{
    return static_cast<signed char>(value);
}

EXPORTED short guest_short(int value)
{
    return static_cast<short>(value);
}

EXPORTED unsigned short guest_ushort(int value)
{
    return static_cast<unsigned short>(value);
}

EXPORTED int guest_int(int value)
{
    return value;
}

EXPORTED float guest_float(int value)
{
    return static_cast<float>(value) / 4;
}

EXPORTED void *guest_pointer(int value)
{
    return reinterpret_cast<void *>(static_cast<intptr_t>(value));
}

EXPORTED void guest_nothing(int *value)
{
    ++*value;
}

EXPORTED unsigned guest_alignment()
{
    return static_cast<unsigned>(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) & 15);
}

EXPORTED int guest_errno_found()
{
    return errno;
}

EXPORTED int guest_errno_left()
{
    errno = EDOM;
    return -1;
}

EXPORTED int guest_inner(int value)
{
    return 2 * value;
}

EXPORTED int guest_outer(int value)
{
    return guest_inner(value) + 1;
}

EXPORTED int guest_call(int (*function)(void *), void *argument)
{
    Undone undone_on_the_way_out;
    return function(argument) + 1;
}

EXPORTED int guest_call_plainly(int (*function)(void *), void *argument)
{
    return function(argument) + 1;
}

EXPORTED int guest_calls_undone()
{
    return undone.exchange(0);
}
