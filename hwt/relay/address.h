/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_ADDRESS_H
#define HWT_RELAY_ADDRESS_H

#include <stdbool.h>

struct addrinfo;

/* An address and a port to listen at, as 127.0.0.1:9464 or [::1]:9464. The caller frees it by freeaddrinfo(). NULL: it is
 * none. */
struct addrinfo *relay_address_read(const char *address);
bool relay_address_is_fine(const char *address);

#endif
