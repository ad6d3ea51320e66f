// SPDX-License-Identifier: MIT
// guest CASE [NUMBER...]: calls functions that are hooked, and says what it got. What it says must be the same
// without hooks. `guest FUNCTION NUMBER...` calls guest_take, guest_count or guest_send once with each number.
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/time.h>

#include "guest.h"

namespace
{
void integers()
{
    char ten[] = {10, 0};
    std::printf("%" PRId64 "\n", guest_ten(-1, 200, -300, 60000, -5, 4000000000u, -7000000000L, 8000000000UL,
                                           -9000000000LL, ten));
    std::printf("%" PRId64 "\n", guest_ten(1, 2, 3, 4, 5, 6, 7, 8, 9, ten));
}

void doubles()
{
    std::printf("%.9g\n", guest_doubles(1.5, -1, 2.5, 2, 3.25f, -3, 4.5, 4, 5.5, -5, 6.5, 6, 7.5, -7, 8.5, 8,
                                        9.5, -9, 10.5, 10));
}

void structs()
{
    struct guest_pair pair = guest_swap_pair(3, {4, 5.5});
    std::printf("pair %d %g\n", pair.i, pair.d);
    struct guest_large large = guest_turn_large({{10, 20, 30, 40, -50}}, 2.5L, 2);
    for (int64_t word : large.words)
        std::printf("large %" PRId64 "\n", word);
    struct guest_floats floats = guest_swap_floats({1.5f, -2.5f});
    std::printf("floats %g %g\n", static_cast<double>(floats.x), static_cast<double>(floats.y));
    struct guest_small small = guest_swap_small({-7, 65});
    std::printf("small %d %d\n", small.c, small.s);
    struct guest_nested nested = guest_turn_nested({{1, 2}, 3}, 0.25);
    std::printf("nested %g %g %" PRId64 "\n", static_cast<double>(nested.floats.x),
                static_cast<double>(nested.floats.y), nested.i);
}

void long_doubles()
{
    std::printf("%.21Lg %.21Lg\n", guest_long_double(1.0L / 3, 5), guest_long_double(-1e4000L, -3));
}

void variable_arguments()
{
    static int there;
    std::printf("length %d\n", guest_printf("%d %g %s\n", -42, 2.75, there ? nullptr : "text"));
}

void small_results()
{
    for (int value : {0, 1, 255, 256, 65535, -1, -2, 40000}) {
        std::printf("%d: %d %d %d %d %d", value, guest_bool(value), guest_uchar(value), guest_schar(value),
                    guest_short(value), guest_ushort(value));
        std::printf(" %d %g %p\n", guest_int(value), static_cast<double>(guest_float(value)),
                    guest_pointer(value));
    }
}

void no_result()
{
    int value = 41;
    guest_nothing(&value);
    std::printf("%d, alignment %u\n", value, guest_alignment());
}

void errors()
{
    errno = ERANGE;
    int found = guest_errno_found();
    bool kept = errno == ERANGE;
    int result = guest_errno_left();
    std::printf("found %d kept %d result %d left %d\n", found == ERANGE, kept, result, errno == EDOM);
}

void inside_and_outside()
{
    std::printf("outer %d, inner %d\n", guest_outer(1), guest_inner(2));
}

// Not by way of a symbol at the call: from a table that the loader has filled.
void addresses()
{
    static size_t (*const table[])(const void *, size_t) = {guest_send, guest_send};
    for (auto *function : table)
        std::printf("%zu\n", function("", 6));
}

void lengths()
{
    std::printf("%zu %zu %zu\n", guest_puts("twelve bytes"), guest_puts(""), guest_puts(nullptr));
}

void vectors()
{
    char data[300];
    struct iovec iov[] = {{data, 100}, {nullptr, 0}, {data, 200}};
    std::printf("%ld %ld %ld\n", guest_writev(iov, 3), guest_writev(iov, 0), guest_writev(iov, -1));
}

void products()
{
    std::printf("%zu %zu\n", guest_fwrite("", 30, 4), guest_fwrite("", 0, 7));
}

void ends_badly()
{
    guest_send("", 1);
    std::printf("before the end\n");
    std::exit(42);
}

// A signal while the program waits for tokens: its handler runs, and the call still ends well.
void waits_with_signals()
{
    std::signal(SIGALRM, [](int) {});
    guest_send("", 1);
    struct itimerval timer = {{0, 0}, {0, 100000}};
    setitimer(ITIMER_REAL, &timer, nullptr);
    std::printf("%zu\n", guest_send("", 1));
}

size_t sent_early;

// Before main; libc tells a constructor what main will be told.
__attribute__((constructor)) void send_early(int argc, char **argv)
{
    if (argc == 2 && std::strcmp(argv[1], "early") == 0)
        sent_early = guest_send("", 3);
}

void early()
{
    std::printf("early %zu\n", sent_early);
}

const struct {
    const char *name;
    void (*run)();
} cases[] = {
    {"integers", integers},
    {"doubles", doubles},
    {"structs", structs},
    {"long_doubles", long_doubles},
    {"variable_arguments", variable_arguments},
    {"small_results", small_results},
    {"no_result", no_result},
    {"errors", errors},
    {"inside_and_outside", inside_and_outside},
    {"addresses", addresses},
    {"lengths", lengths},
    {"vectors", vectors},
    {"products", products},
    {"ends_badly", ends_badly},
    {"waits_with_signals", waits_with_signals},
    {"early", early},
    {"exception", exits_by_exception},
    {"longjmp", exits_by_longjmp},
    {"pthread_exit", exits_by_pthread_exit},
    {"cancellation", exits_by_cancellation},
    {"exit", exits_by_exit},
    {"threads", calls_by_threads},
    {"children", calls_in_children},
    {"handlers", calls_in_handlers},
    {"recursion", calls_by_recursion},
    {"small_stack", calls_on_a_small_stack},
    {"vfork_child", calls_in_a_vfork_child},
    {"daemon", calls_of_a_daemon},
    {"dlsym", loads_by_dlsym},
    {"two_of_one_name", loads_two_of_one_name},
    {"again_and_again", loads_again_and_again},
    {"constructor", loads_a_constructor},
    {"all_ways", loads_by_all_ways},
    {"unknown_names", loads_unknown_names},
};

void call_once(const std::string &function, long number)
{
    errno = 0;
    long result = -99;
    if (function == "take")
        result = guest_take(number);
    else if (function == "count")
        result = guest_count(static_cast<int>(number));
    else if (function == "send")
        result = static_cast<long>(guest_send("", static_cast<size_t>(number)));
    else if (function == "pointer")
        result = static_cast<long>(reinterpret_cast<intptr_t>(guest_pointer(static_cast<int>(number))));
    else if (function == "bool")
        result = guest_bool(static_cast<int>(number));
    std::printf("%ld %s\n", result, errno ? strerrorname_np(errno) : "well");
}
} // namespace

int main(int argc, char **argv)
{
    for (const auto &each : cases)
        if (argc == 2 && std::strcmp(argv[1], each.name) == 0) {
            each.run();
            return 0;
        }
    for (int i = 2; i < argc; i++)
        call_once(argv[1], std::atol(argv[i]));
    return argc <= 2;
}
