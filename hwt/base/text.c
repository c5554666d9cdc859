/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text into a caller's buffer. See text.h. */

#include "hwt/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

int hwt_text_init(struct hwt_text *text, char *buffer, size_t size)
{
    if (!buffer && size > 0)
        return -EINVAL;
    *text = (struct hwt_text){ buffer, size, 0 };
    return 0;
}

void hwt_text_add(struct hwt_text *text, const char *format, ...)
{
    bool has_room = text->length < text->size;
    size_t room = has_room ? text->size - text->length : 0;
    va_list args;
    va_start(args, format);
    /* Not every C library takes a size above INT_MAX. */
    int n = vsnprintf(has_room ? text->buffer + text->length : NULL,
                      room < INT_MAX ? room : INT_MAX, format, args);
    va_end(args);
    text->length += n > 0 ? (uint64_t)n : 0;
}

void hwt_text_add_seconds(struct hwt_text *text, uint64_t nanoseconds)
{
    hwt_text_add(text, "%" PRIu64 ".%09" PRIu64, nanoseconds / 1000000000,
                 nanoseconds % 1000000000);
}
