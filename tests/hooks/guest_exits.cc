// SPDX-License-Identifier: MIT
// Every way out of a hooked function but its end. Each is taken several times, and hooks count on after it.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

#include "guest.h"

namespace
{
constexpr int TIMES = 3;

struct Undone {
    int *count;
    ~Undone()
    {
        ++*count;
    }
};

// Calls back twice, one within the other: both frames of the library are on the way.
int call_within(void *function)
{
    return guest_call(reinterpret_cast<int (*)(void *)>(function), nullptr);
}

int call(int (*function)(void *))
{
    return guest_call(call_within, reinterpret_cast<void *>(function));
}

int raise_exception(void *)
{
    throw std::runtime_error("thrown");
}

jmp_buf place;
int jumps; // static, because it changes between setjmp and longjmp

int jump(void *)
{
    std::longjmp(place, 7);
}

int leave_thread(void *)
{
    pthread_exit(reinterpret_cast<void *>(5));
}

int wait_for_cancellation(void *)
{
    for (;;)
        pause();
}

int leave_program(void *)
{
    std::exit(23);
}

int destroyed, cleaned;

void clean(void *)
{
    cleaned++;
}

void *call_in_thread(void *function)
{
    Undone undone{&destroyed};
    pthread_cleanup_push(clean, nullptr);
    call(reinterpret_cast<int (*)(void *)>(function));
    pthread_cleanup_pop(0);
    return nullptr;
}

void run_thread(int (*function)(void *), bool cancelled)
{
    pthread_t thread;
    void *result = nullptr;
    pthread_create(&thread, nullptr, call_in_thread, reinterpret_cast<void *>(function));
    if (cancelled) {
        usleep(20000);
        pthread_cancel(thread);
    }
    pthread_join(thread, &result);
    std::printf("thread %s %ld\n", result == PTHREAD_CANCELED ? "cancelled" : "left",
                reinterpret_cast<long>(result));
}

void say_threads()
{
    std::printf("destroyed %d cleaned %d undone %d\n", destroyed, cleaned, guest_calls_undone());
}
} // namespace

void exits_by_exception()
{
    for (int i = 0; i < TIMES; i++) {
        int here = 0;
        try {
            Undone undone{&here};
            call(raise_exception);
            std::puts("not thrown");
        } catch (const std::runtime_error &error) {
            std::printf("caught %s, destroyed %d\n", error.what(), here);
        }
    }
    std::printf("undone %d, send %zu\n", guest_calls_undone(), guest_send("", 0));
}

void exits_by_longjmp()
{
    for (jumps = 0; jumps < TIMES; jumps++) {
        int value = setjmp(place);
        if (value == 0)
            guest_call_plainly(jump, nullptr);
        std::printf("came back with %d\n", value);
    }
    std::printf("send %zu\n", guest_send("", 0));
}

void exits_by_pthread_exit()
{
    for (int i = 0; i < TIMES; i++)
        run_thread(leave_thread, false);
    say_threads();
}

void exits_by_cancellation()
{
    for (int i = 0; i < TIMES; i++)
        run_thread(wait_for_cancellation, true);
    say_threads();
}

void exits_by_exit()
{
    std::atexit([] { std::printf("at exit %zu\n", guest_send("", 3)); });
    call(leave_program);
}
