/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_NOTIFY_H
#define HWT_RELAY_NOTIFY_H

#include <stdint.h>

/* Tells systemd, or whoever listens at $NOTIFY_SOCKET, as sd_notify(3) does: lines of NAME=VALUE. Nothing happens where
 * nobody listens. */
void relay_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How long the service manager waits for WATCHDOG=1, in ns; 0: it does not. */
uint64_t relay_notify_watchdog(void);

#endif
