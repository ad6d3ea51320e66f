/* SPDX-License-Identifier: MIT */
/*
 * What a hooked call costs, and what it returns when it is refused. Pure: no allocation, no locale, no errno.
 */
#ifndef TUNDISH_POLICY_COST_H
#define TUNDISH_POLICY_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tdi_cost_kind {
    TDI_COST_TOKENS,  /* as many for each call: `calls`, which is 1, or a number */
    TDI_COST_ARG,     /* argN */
    TDI_COST_PRODUCT, /* argN * argM */
    TDI_COST_STRLEN,  /* strlen(argN) */
    TDI_COST_IOV,     /* iov(argN, argM): the bytes of argM elements of a struct iovec array */
    TDI_COST_RESULT,  /* result: known, and charged, after the call */
};

struct tdi_cost {
    uint8_t kind; /* enum tdi_cost_kind */
    uint8_t a, b; /* arguments, from 0 */
    char a_type;  /* theirs, or in a_type the result's, as in a compact signature */
    char b_type;
    uint32_t tokens; /* of TDI_COST_TOKENS */
};

struct tdi_refusal {
    uint8_t stated; /* 0: the call cannot be refused */
    int32_t error;  /* errno; 0: stays as it is */
    int64_t value;  /* what is returned, in the result's type */
};

/*
 * Reads a cost for a function of this compact signature: argN counts from 1, as in "arg3". 0, or -EINVAL with
 * one sentence in `why` that says what is wrong and what would be right.
 */
int tdi_cost_parse(const char *text, const char *signature, struct tdi_cost *out, char *why, size_t len);

/* Whether it fits the signature, wherever it comes from. */
bool tdi_cost_is_sound(const struct tdi_cost *cost, const char *signature);

/* "calls", "5", "arg3", "iov(arg2, arg3)", ... */
void tdi_cost_format(char *buf, size_t len, const struct tdi_cost *cost);

/*
 * The tokens of a call before it is made (0 for TDI_COST_RESULT); args[i] points to argument i. Negative
 * numbers cost nothing, sums and products stop at UINT64_MAX, NULL has no length, and of an iovec array no
 * more than 1024 elements are looked at, which is as many as any system call takes.
 */
uint64_t tdi_cost_before(const struct tdi_cost *cost, void *const *args);

/* The tokens of a result of type a_type, widened to a register as libffi widens it; 0 for other costs. */
uint64_t tdi_cost_after(const struct tdi_cost *cost, const void *result);

/*
 * "-1 EAGAIN", "0", "NULL ENOMEM"; for a function without a result an errno alone, or "nothing". As
 * tdi_cost_parse. A result that is a struct cannot be made up: that is an error.
 */
int tdi_refusal_parse(const char *text, const char *signature, struct tdi_refusal *out, char *why,
                      size_t len);

/* Whether it fits the signature, wherever it comes from. */
bool tdi_refusal_is_sound(const struct tdi_refusal *refusal, const char *signature);

/* "-1 EAGAIN"; "" if none is stated. */
void tdi_refusal_format(char *buf, size_t len, const struct tdi_refusal *refusal, const char *signature);

/* Writes the value as a libffi closure returns it: integers widened to a register. */
void tdi_refusal_write(const struct tdi_refusal *refusal, const char *signature, void *result);

#endif
