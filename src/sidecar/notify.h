/* SPDX-License-Identifier: MIT */
/* Tells the service manager that started us how we are: systemd's protocol, and nothing where there is none. */
#ifndef TUNDISH_SIDECAR_NOTIFY_H
#define TUNDISH_SIDECAR_NOTIFY_H

/* Sends the state, such as "READY=1", to the socket that NOTIFY_SOCKET names. */
void tdi_notify(const char *state);

#endif
