/* SPDX-License-Identifier: MIT */
/*
 * Every snippet in every mode, with the preloaded library and without, counting bytes and counting calls. The
 * bucket gains a token a day, so what was charged can be read off it to the token.
 *
 * test_snippets GUEST MODULE PRELOAD
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snippets.h"
#include "tundish/tundish.h"

#define CAPACITY 100000
#define BUCKET "snippets"

static const struct {
    const char *name;
    unsigned times; /* how often the guest makes the call */
} modes[] = {
    {"plain", 1},  {"constructor", 1}, {"preinit", 1}, {"library", 1}, {"thread", 2},
    {"signal", 1}, {"fork", 2},        {"vfork", 3},   {"exec", 1},    {"dlopen", 1},
};

static struct tundish *make_bucket(int bytes)
{
    struct tundish *bucket;
    struct tundish_options options = TUNDISH_OPTIONS_INIT(CAPACITY, 1);
    options.interval_us = UINT64_C(86400) * 1000000;
    options.flags = bytes ? TUNDISH_BYTES : 0;
    (void)tundish_unlink(BUCKET);
    int error = tundish_create(&bucket, BUCKET, &options);
    if (error < 0) {
        fprintf(stderr, "bucket: %s\n", tundish_strerror(error));
        exit(1);
    }
    return bucket;
}

/* Calls that sockets know nothing of: the rule has to name what they are for. */
static int is_for_files(const char *snippet)
{
    static const char *const starts[] = {"pwrite", "pread", "__pread", "vmsplice", "tee", "copy_file_range"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(snippet, starts[i], strlen(starts[i])) == 0)
            return 1;
    return 0;
}

static int run_guest(const char *guest, const char *mode, const char *snippet, const char *preload)
{
    pid_t child = fork();
    if (child == 0) {
        if (preload != NULL)
            setenv("LD_PRELOAD", preload, 1);
        if (is_for_files(snippet))
            setenv("TUNDISH_DEST", "file,pipe", 1);
        if (strcmp(mode, "library") == 0)
            setenv("SNIPPET_EARLY", snippet, 1);
        execl(guest, "guest", mode, snippet, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

/* 1 if something was wrong. */
static int check(const char *guest, const char *mode, const struct snippet *snippet, int bytes,
                 const char *preload, unsigned times)
{
    struct tundish *bucket = make_bucket(bytes);
    unsigned cost = snippet->bytes == SNIPPET_FREE ? 0 : bytes ? snippet->bytes : 1;
    unsigned expected = preload == NULL ? 0 : times * cost;
    int status = run_guest(guest, mode, snippet->name, preload);
    unsigned charged = CAPACITY - tundish_available(bucket);
    tundish_close(bucket);
    if (status == 0 && charged == expected)
        return 0;
    fprintf(stderr, "%s in mode %s, counting %s, %s: status %#x, charged %u, expected %u\n", snippet->name,
            mode, bytes ? "bytes" : "calls", preload == NULL ? "alone" : "with the library", (unsigned)status,
            charged, expected);
    return 1;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    if (argc != 4)
        return 64;
    setenv("SNIPPET_MODULE", argv[2], 1);
    setenv("TUNDISH_BUCKET", BUCKET, 1);
    setenv("TUNDISH_CALLS", "connect,up,down", 1);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (size_t s = 0; snippets[s] != NULL; s++)
            for (int bytes = 0; bytes < 2; bytes++) {
                wrong += check(argv[1], modes[m].name, snippets[s], bytes, argv[3], modes[m].times);
                if (bytes == 0)
                    wrong += check(argv[1], modes[m].name, snippets[s], bytes, NULL, modes[m].times);
            }
    (void)tundish_unlink(BUCKET);
    return wrong != 0;
}
