/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text into a buffer. See text.h. */

#include "hwt/delay/base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

int hwt_delay_text_init(struct hwt_delay_text *text, char *buffer, size_t size)
{
    if (!buffer && size > 0)
        return -EINVAL;
    *text = (struct hwt_delay_text){ buffer, size, 0 };
    return 0;
}

void hwt_delay_text_add(struct hwt_delay_text *text, const char *format, ...)
{
    bool has_room = text->length < text->size;
    size_t room = has_room ? text->size - text->length : 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(has_room ? text->buffer + text->length : NULL,
                      room < INT_MAX ? room : INT_MAX, format, args);
    va_end(args);
    text->length += n > 0 ? (uint64_t)n : 0;
}
