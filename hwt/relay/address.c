/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/address.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { HOST_MAX = 64 };

struct addrinfo *relay_address_read(const char *address)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                    .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(address, ':');
    struct addrinfo *found = NULL;
    size_t length = colon ? (size_t)(colon - address) : 0;
    char host[HOST_MAX];

    if (length == 0 || length >= sizeof(host))
        return NULL;
    if (address[0] == '[' && colon[-1] == ']')
        snprintf(host, sizeof(host), "%.*s", (int)length - 2, address + 1);
    else
        snprintf(host, sizeof(host), "%.*s", (int)length, address);
    return getaddrinfo(host, colon + 1, &hints, &found) == 0 ? found : NULL;
}

bool relay_address_is_fine(const char *address)
{
    struct addrinfo *found = relay_address_read(address);

    if (found)
        freeaddrinfo(found);
    return found != NULL;
}
