/* SPDX-License-Identifier: MIT */
/* What sendmsg and sendmmsg have in common. */
#ifndef TUNDISH_PRELOAD_CALLS_SEND_H
#define TUNDISH_PRELOAD_CALLS_SEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "gate.h"

/* The kinds of a send: one that opens a connection is a connect too, unless the connection has begun. */
uint32_t tdi_send_kinds(uint32_t kind, int fd, int flags);

/* Whether a message, itself readable, has a vector and an address that are. */
bool tdi_send_sound(const struct msghdr *message);

/* Fills in what the message and call->flags decide. */
void tdi_send_pack(struct tdi_call *call, const struct msghdr *message);

#endif
