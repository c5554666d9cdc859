/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TEXT_H
#define HWT_TEXT_H

/* Text into a caller's buffer, as snprintf() writes it: terminated if there is room for that, and
 * text that had no room is counted. */

#include <stddef.h>
#include <stdint.h>

struct hwt_text {
    char *buffer;
    size_t size;
    uint64_t length; /* of the whole text, with what had no room */
};

/* 0; or -EINVAL: there is a size, but no buffer. */
int hwt_text_init(struct hwt_text *text, char *buffer, size_t size);

__attribute__((format(printf, 2, 3))) void hwt_text_add(struct hwt_text *text, const char *format,
                                                        ...);

/* Nanoseconds as seconds, exactly: 1500 is 0.000001500. */
void hwt_text_add_seconds(struct hwt_text *text, uint64_t nanoseconds);

#endif
