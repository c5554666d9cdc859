/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hwt/relay/message.h"

void relay_notify(const char *format, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char text[1024];
    va_list arguments;
    int fd;

    if (!path || strlen(path) >= sizeof(address.sun_path) || !strchr("/@", *path))
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (*path == '@')
        address.sun_path[0] = 0; /* a name that is no file's */
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
    close(fd);
}

/* The variable of the process id says whose watchdog it is. */
uint64_t relay_notify_watchdog(void)
{
    const char *time = getenv("WATCHDOG_USEC"), *owner = getenv("WATCHDOG_PID");
    uint64_t us, id;

    if (!time || !relay_number_read(time, &us) || us == 0 || us > UINT64_MAX / 1000)
        return 0;
    if (owner && (!relay_number_read(owner, &id) || id != (uint64_t)getpid()))
        return 0;
    return us * 1000;
}
