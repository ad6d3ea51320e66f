/* SPDX-License-Identifier: MIT */
/*
 * guest_objects CASE: plugins that come and go and ask for functions of their own. What it says must be the
 * same without hooks.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest_extremes.h"

#define PLUGINS 6
#define THREADS 4
#define ROUNDS 500
#define FORKS 200
#define CODE 128 /* bytes, which is more than a small function needs */

typedef int answer(int value);
typedef int caller(answer *function, int value);

/* Libraries lie beside the program. */
static void *load(const char *name, int number)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 64);
    if (len <= 0)
        exit(1);
    path[len] = '\0';
    (void)sprintf(strrchr(path, '/') + 1, "libhooks_%s_%d.so", name, number);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return handle;
}

static answer *find(void *handle, const char *name)
{
    return (answer *)(uintptr_t)dlsym(handle, name);
}

static void *load_and_unload(void *argument)
{
    int number = *(int *)argument;
    for (int i = 0; i < ROUNDS; i++) {
        void *plugin = load("asks", number);
        int got = find(plugin, "asks")(i);
        if (got != 10 * i + number) {
            printf("plugin %d was answered %d instead of %d\n", number, got, 10 * i + number);
            exit(1);
        }
        dlclose(plugin);
    }
    return NULL;
}

void loads_in_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, load_and_unload, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("each its own\n");
}

/* As an interpreter does that calls C by name. */
void unloads_by_a_found_function(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    int (*close_by_name)(void *) = (int (*)(void *))(uintptr_t)dlsym(libc, "dlclose");
    for (int i = 0; i < 20; i++) {
        void *plugin = load("asks", i % 2);
        int got = find(plugin, "asks")(i);
        printf("%d, %d\n", got, close_by_name(plugin));
    }
}

void loads_many_of_one_name(void)
{
    answer *asks[PLUGINS];
    for (int i = 0; i < PLUGINS; i++)
        asks[i] = find(load("asks", i), "asks");
    for (int i = 0; i < 10 * PLUGINS; i++)
        printf("%d\n", asks[i % PLUGINS](i));
}

static void say_found(void)
{
    printf("by default: %d\n", dlsym(RTLD_DEFAULT, "own_answer") != NULL);
    printf("next: %d\n", dlsym(RTLD_NEXT, "own_answer") != NULL);
}

/* Before and after somebody else has come to know of it. */
void looks_for_what_is_local(void)
{
    void *library = load("own", 1);
    say_found();
    printf("%d\n", find(library, "own_answer")(1));
    say_found();
    printf("%d\n", find(load("asks", 2), "asks")(1));
    say_found();
}

/* Not as its last step: the call is to return here. */
__attribute__((noinline)) static int call(answer *function, int value)
{
    return function(value) + 1;
}

/* Code that is in no object, as a compiler at run time makes it: nobody remembers who that is. */
static caller *make_caller(void)
{
    void *code = mmap(NULL, CODE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return call;
    memcpy(code, (const void *)(uintptr_t)call, CODE);
    __builtin___clear_cache(code, (char *)code + CODE);
    return (caller *)(uintptr_t)code;
}

static caller *stranger;
static answer *asked;

static void *call_for_ever(void *argument)
{
    for (;;)
        stranger(asked, 1);
    return argument;
}

/* A call in a child, which has two seconds for it. */
static int status_of_child(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(2);
        _exit(stranger(asked, 1));
    }
    waitpid(child, &status, 0);
    return status;
}

void forks_while_others_look_up(void)
{
    pthread_t thread;
    int forks = 0;
    asked = find(load("own", 1), "own_answer");
    stranger = make_caller();
    printf("%d\n", stranger(asked, 1));
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, call_for_ever, NULL);
    while (forks < FORKS && status_of_child() == 12 << 8)
        forks++;
    printf("%d children have called\n", forks);
    (void)fflush(stdout);
    _exit(0);
}
