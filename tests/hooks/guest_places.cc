// SPDX-License-Identifier: MIT
// Places that hooked functions are called from: threads, children, signal handlers, and each other.
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "guest.h"

namespace
{
constexpr int THREADS = 4, CALLS = 500;
constexpr int STORM_CALLS = 200000, STORM_INTERVAL_US = 500;

std::atomic<long> sent;

void send_many()
{
    for (int i = 0; i < CALLS; i++)
        sent += static_cast<long>(guest_send("", 1));
}

void handle(int)
{
    sent += static_cast<long>(guest_send("", 1));
}

void set_timer(int interval_us)
{
    struct itimerval timer = {{0, interval_us}, {0, interval_us}};
    setitimer(ITIMER_REAL, &timer, nullptr);
}

int recurse(void *depth)
{
    int left = *static_cast<int *>(depth) - 1;
    return left > 0 ? guest_call(recurse, &left) : 0;
}
} // namespace

void calls_by_threads()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(send_many);
    for (std::thread &thread : threads)
        thread.join();
    std::printf("sent %ld\n", sent.load());
}

// A child of a child, and one that is forked while another thread is at it.
void calls_in_children()
{
    std::thread other(send_many);
    pid_t child = fork();
    if (child == 0) {
        child = fork();
        for (int i = 0; i < 10; i++)
            guest_send("", 1);
        _exit(child > 0 && waitpid(child, nullptr, 0) != child);
    }
    int status = -1;
    waitpid(child, &status, 0);
    other.join();
    std::printf("status %d sent %zu\n", status, guest_send("", 1));
}

// Signals at any moment of a hooked call. How many come depends; they are said on a line of their own.
void calls_in_handlers()
{
    std::signal(SIGUSR1, handle);
    std::signal(SIGALRM, handle);
    std::raise(SIGUSR1);
    std::printf("sent %ld\n", sent.load());
    set_timer(STORM_INTERVAL_US);
    for (int i = 0; i < STORM_CALLS; i++)
        sent += static_cast<long>(guest_send("", 1));
    set_timer(0);
    std::printf("tokens %ld\n", sent.load());
}

void calls_by_recursion()
{
    int depth = 10;
    std::printf("depth %d\n", recurse(&depth));
}

// As little as a thread may have.
void calls_on_a_small_stack()
{
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, static_cast<size_t>(PTHREAD_STACK_MIN));
    auto run = [](void *) -> void * {
        send_many();
        return nullptr;
    };
    bool started = pthread_create(&thread, &small, run, nullptr) == 0 && pthread_join(thread, nullptr) == 0;
    std::printf("started %d sent %ld\n", started, sent.load());
}

void calls_in_a_vfork_child()
{
    pid_t child = vfork();
    if (child == 0) {
        guest_send("", 1);
        _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("status %d sent %zu\n", WEXITSTATUS(status), guest_send("", 1));
}

// Its descriptors are closed and its environment is gone before the first call.
void calls_of_a_daemon()
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    clearenv();
    if (fork() == 0) {
        setsid();
        guest_send("", 1);
        _exit(0);
    }
    int status = -1;
    wait(&status);
    std::printf("status %d sent %zu\n", status, guest_send("", 1));
}
