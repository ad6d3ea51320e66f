/* SPDX-License-Identifier: MIT */
/*
 * A small program, to be built in unusual ways: threads that allocate and call a hooked function. With OWN_STRCMP
 * it has a function of libc's name itself, which finds the real one when it is first called.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

#ifdef OWN_STRCMP
int strcmp(const char *a, const char *b)
{
    static int (*real)(const char *, const char *);
    if (real == NULL)
        real = (int (*)(const char *, const char *))(uintptr_t)dlsym(RTLD_NEXT, "strcmp");
    return real(a, b);
}
#endif

static void *send_some(void *argument)
{
    for (size_t i = 1; i <= 10; i++) {
        char *data = calloc(1, i);
        *(size_t *)argument += data != NULL ? guest_send(data, i) : 0;
        free(data);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    size_t sent[2] = {0};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, send_some, &sent[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%zu %zu %d\n", sent[0], sent[1], strcmp(argv[argc - 1], "") > 0);
    return 3;
}
