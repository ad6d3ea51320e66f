/* SPDX-License-Identifier: MIT */
/*
 * basic [NAME]: ten jobs, three at once and then ten a second. Started twice at the same time, both copies
 * share the rate. The bucket stays; `tundish status` shows it and `tundish rm basic` removes it.
 */
#include <stdint.h>
#include <stdio.h>
#include <tundish/tundish.h>

#define SECOND_NS UINT64_C(1000000000)

static unsigned ms_since(uint64_t start_ns)
{
    return (unsigned)((tundish_now_ns() - start_ns) / 1000000);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "basic";
    struct tundish_options options = TUNDISH_OPTIONS_INIT(3, 10);
    struct tundish *bucket;

    int error = tundish_open_or_create(&bucket, name, &options);
    if (error) {
        fprintf(stderr, "%s: %s\n", name, tundish_strerror(error));
        return 1;
    }
    uint64_t start_ns = tundish_now_ns();
    for (int job = 1; job <= 10; job++) {
        error = tundish_acquire_for(bucket, 1, 60 * SECOND_NS);
        if (error) {
            fprintf(stderr, "%s: %s\n", name, tundish_strerror(error));
            break;
        }
        printf("job %2d after %4u ms\n", job, ms_since(start_ns));
    }
    tundish_close(bucket);
    return error ? 1 : 0;
}
