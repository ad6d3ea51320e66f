/* SPDX-License-Identifier: MIT */
/*
 * Lines for another program to read. They are gathered and written a few whole ones at a time, each time no more
 * than a pipe takes in one piece. A reader that does not read holds us up, but not when we are told to stop.
 */
#ifndef TUNDISH_SIDECAR_OUTPUT_H
#define TUNDISH_SIDECAR_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tdi_output {
    FILE *file;          /* to write lines to */
    int fd;              /* where they go */
    int stop;            /* readable: we are told to stop */
    uint64_t give_up_ns; /* when what is not written by then is given up, 0: nobody told us to stop */
    int error;           /* once one, always that one */
    char *text;
    size_t size;
};

/* 0, or -ENOMEM. */
int tdi_output_open(struct tdi_output *output, int fd, int stop);
void tdi_output_close(struct tdi_output *output);

/* At the end of a line: writes if that is worth it by now. */
void tdi_output_end_line(struct tdi_output *output);

/*
 * Writes what there is: 0, -EPIPE if the reader has left, -EINTR if we are told to stop and the reader does not
 * come to an end, or another negative errno. What could not be written is gone.
 */
int tdi_output_flush(struct tdi_output *output);

#endif
