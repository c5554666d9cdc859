/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "hwt/relay/message.h"

void relay_log(unsigned shard, const char *format, ...)
{
    char line[512], date[RELAY_DUE_ROOM];
    struct timespec now;
    va_list arguments;

    clock_gettime(CLOCK_REALTIME, &now);
    relay_due_write((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, date);
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(stderr, "%.23sZ shard %u: %s\n", date, shard, line);
}
