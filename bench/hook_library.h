/* SPDX-License-Identifier: MIT */
/* Of hook_library.c; send_wrapped also of hook_wrapper.c, which stands before it. */
#ifndef TUNDISH_BENCH_HOOK_LIBRARY_H
#define TUNDISH_BENCH_HOOK_LIBRARY_H

int send_bare(void *handle, const void *buf, int length);
int send_wrapped(void *handle, const void *buf, int length);
int send_hooked(void *handle, const void *buf, int length);
int send_passed(void *handle, const void *buf, int length);

#endif
